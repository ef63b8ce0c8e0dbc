use peryton_units::{Bytes, Nanos, Op, pages};
use serde::Serialize;

use crate::{Io, flash::FtlStats};

/// What wears a device, counted since the same moment as [`DeviceStats`]. To read it changes nothing in the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearCounts {
    /// Bytes read by the host of the device.
    pub bytes_read: Bytes,
    /// Bytes written by the host of the device.
    pub bytes_written: Bytes,
    /// Pages of 4 KiB that these reads have touched; a part of a page counts as one.
    pub pages_read: u64,
    /// Pages of 4 KiB that these writes have touched.
    pub pages_written: u64,
    /// Spin-downs followed by spin-ups (disks).
    pub start_stops: u64,
    /// What has worn its cells, as bytes programmed in their usual mode: the larger of those programmed and those erased, less what is written in
    /// single-level mode wears less, and with the idle work that is owed (flash).
    pub flash_worn: Option<Bytes>,
}

impl WearCounts {
    /// The part of an account that wears a device.
    pub fn of(stats: &DeviceStats) -> WearCounts {
        WearCounts {
            bytes_read: stats.bytes_read,
            bytes_written: stats.bytes_written,
            pages_read: stats.pages_read,
            pages_written: stats.pages_written,
            start_stops: stats.start_stops,
            flash_worn: stats.flash_worn,
        }
    }
}

/// What a device has done and spent since it was made (or since preconditioning ended).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceStats {
    /// Read commands served.
    pub reads: u64,
    /// Write commands served.
    pub writes: u64,
    /// Discard commands served.
    pub discards: u64,
    /// Flush commands served.
    pub flushes: u64,
    /// Bytes read by the host of the device.
    pub bytes_read: Bytes,
    /// Bytes written by the host of the device.
    pub bytes_written: Bytes,
    /// Pages of 4 KiB that these reads have touched; a part of a page counts as one.
    pub pages_read: u64,
    /// Pages of 4 KiB that these writes have touched.
    pub pages_written: u64,
    /// Of `bytes_written`, how many began where the write before ended.
    pub sequential_bytes_written: Bytes,
    /// Time with at least one command in service.
    pub busy: Nanos,
    /// Time ready but without a command.
    pub idle: Nanos,
    /// Time in standby.
    pub standby: Nanos,
    /// Energy spent, in joules, spin-ups included.
    pub energy_j: f64,
    /// Spin-downs followed by spin-ups, counted at the spin-up (disks).
    pub start_stops: u64,
    /// Bytes of zones that were written again, because data had gone to the cache instead (shingled tracks).
    pub bytes_rewritten: Option<Bytes>,
    /// Blocks erased (flash).
    pub erases: Option<u64>,
    /// Bytes programmed into flash, garbage collection and wear-levelling included (flash).
    pub nand_bytes_written: Option<Bytes>,
    /// Bytes that idle work has yet to program for the free blocks which the account has used up, once that was found out
    /// ([`Device::settle`](crate::Device::settle)); they wear the flash like those that were programmed (flash).
    pub nand_bytes_owed: Option<Bytes>,
    /// Bytes of the blocks that it has yet to erase.
    pub bytes_erased_owed: Option<Bytes>,
    /// What has worn its cells ([`WearCounts::flash_worn`]).
    pub flash_worn: Option<Bytes>,
    /// Erase counts of the least and the most worn block (flash).
    pub erase_count_min_max: Option<(u32, u32)>,
    /// Erase cycles that the modelled flash can stand: blocks × cycles per block (flash).
    pub rated_erases: Option<u64>,
    /// Bytes of the blocks erased (flash).
    pub bytes_erased: Option<Bytes>,
    /// What can be programmed into the modelled flash in its life, its spare included (flash).
    pub programmable: Option<Bytes>,
    /// The addressable bytes that the modelled flash stands for: of a small part of a drive, more than that part.
    pub modelled: Option<Bytes>,
    /// What the translation layer did, and the state that it is in (flash from its parts).
    pub ftl: Option<FtlStats>,
}

impl DeviceStats {
    /// Counts a command of the host. `next_sequential`: where the write before ended.
    #[inline]
    pub(crate) fn command(&mut self, io: Io, next_sequential: &mut u64) {
        match io.op {
            Op::Read => {
                self.reads += 1;
                self.bytes_read += io.len;
                self.pages_read += pages(io.at, io.len);
            }
            Op::Write => {
                self.writes += 1;
                self.bytes_written += io.len;
                self.pages_written += pages(io.at, io.len);
                if io.at.0 == *next_sequential {
                    self.sequential_bytes_written += io.len;
                }
                *next_sequential = io.at.0 + io.len.0;
            }
            Op::Discard => self.discards += 1,
            Op::Flush => self.flushes += 1,
        }
    }
}
