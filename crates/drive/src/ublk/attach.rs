//! Makes the block device of a volume, or takes over the one that waits for a server of it.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use peryton_units::Bytes;

use super::{
    PATIENCE,
    control::Control,
    error::UblkError,
    find,
    names::{DIRECTORY, NameFile, fit_for_dev},
    queues::Queues,
    request::Limits,
    wire::{ANY_DEVICE, DeviceInfo, Params, SECTOR, State, USER_RECOVERY, USER_RECOVERY_REISSUE},
};
use crate::arena::Arena;

/// The physical block: what is written without reading first.
const PHYSICAL: u32 = 4096;
/// The longest discard; the kernel divides longer ones.
const LONGEST_DISCARD: u64 = 64 << 20;
/// The bounds of the longest read or write.
const SHORT: u64 = 64 << 10;
const LONG: u64 = 1 << 20;
/// The most requests of a device: a bound on the memory for their data.
const MOST_SLOTS: u32 = 4096;
const MOST_QUEUES: u16 = 64;
/// After this many milliseconds without an answer to a request, the kernel looks whether the device has a server. If all commands of a
/// server that ends hold requests, there is none whose end would tell the kernel of it: then it notices only by this look, which
/// by default comes after 30 s. A request whose server is there goes on waiting.
const LOOK_AFTER_MS: u32 = 1000;
/// How long a rule of udev may take to set this time, and the interval of looks.
const SET_WITHIN: Duration = Duration::from_secs(2);
const SET_LOOK: Duration = Duration::from_millis(20);
/// The interval of attempts meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// How a volume is served as a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkSettings {
    /// The number of queues; the kernel has no use for more than there are processors.
    pub queues: u16,
    /// The number of requests in each.
    pub depth: u16,
    /// The logical block: 512 or 4096 bytes.
    pub block: Bytes,
    /// The design's file, by which `peryton supervise` finds the device.
    pub design: PathBuf,
}

impl UblkSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// One is out of bounds.
    pub(crate) fn check(&self) -> Result<(), UblkError> {
        let UblkSettings { queues, depth, .. } = *self;
        let slots = u32::from(queues) * u32::from(depth);
        if slots == 0 || slots > MOST_SLOTS || queues > MOST_QUEUES {
            return Err(UblkError::Queues { queues, depth });
        }
        match self.block.0 {
            512 | 4096 => Ok(()),
            other => Err(UblkError::Block(other)),
        }
    }
}

/// What the device of a volume has to be like.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) settings: UblkSettings,
    pub(crate) name: String,
    pub(crate) volume: u128,
    pub(crate) size: Bytes,
    pub(crate) rotational: bool,
    pub(crate) read_only: bool,
    /// Memory for the data of requests, by which the longest is chosen.
    pub(crate) memory: Bytes,
    pub(crate) longest_zeroes: u64,
}

impl Wanted {
    /// The device to ask the kernel for, on a machine with this many processors.
    fn info(&self, processors: u16) -> DeviceInfo {
        let queues = self.settings.queues.min(processors.max(1));
        let each = self.memory.0 / (u64::from(queues) * u64::from(self.settings.depth));
        let longest = 1 << each.clamp(SHORT, LONG).ilog2();
        DeviceInfo {
            queues,
            depth: self.settings.depth,
            state: State::Dead,
            longest,
            id: ANY_DEVICE,
            pid: -1,
            flags: USER_RECOVERY | USER_RECOVERY_REISSUE,
            mark: find::mark(self.volume),
        }
    }

    /// The number of sectors: whole blocks.
    fn sectors(&self, block: u64) -> u64 {
        self.size.0 / block * (block / SECTOR)
    }

    fn params(&self, info: &DeviceInfo) -> Params {
        let block = self.settings.block.0;
        Params {
            rotational: self.rotational,
            read_only: self.read_only,
            logical_shift: block.ilog2() as u8,
            physical_shift: PHYSICAL.ilog2() as u8,
            most_sectors: info.longest / SECTOR as u32,
            sectors: self.sectors(block),
            discard_granularity: PHYSICAL,
            most_discard_sectors: (LONGEST_DISCARD / SECTOR) as u32,
            most_zeroes_sectors: (self.longest_zeroes / SECTOR) as u32,
        }
    }

    /// Why a device that waits cannot be this volume's.
    fn differs(&self, params: Option<&Params>) -> Option<String> {
        let Some(params) = params else { return Some("it was never given a size".to_owned()) };
        if params.logical_shift < 9 || params.logical_shift > 12 {
            return Some(format!("it has blocks of 2^{} bytes", params.logical_shift));
        }
        let sectors = self.sectors(1 << params.logical_shift);
        let size = Bytes(params.sectors.saturating_mul(SECTOR));
        // One that is smaller was made before the volume has grown.
        (params.sectors > sectors).then(|| format!("it has {size}, and the volume {}", self.size))
    }
}

/// A device whose requests this process is going to serve.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) control: Control,
    pub(crate) info: DeviceInfo,
    pub(crate) params: Params,
    /// Whether it waited for a server.
    pub(crate) recovered: bool,
    pub(crate) buffers: Arena,
    pub(crate) name: NameFile,
    longest_zeroes: u64,
}

impl Prepared {
    /// Makes the device, or finds the one that waits; allocates the memory for its requests.
    pub(crate) fn new(mut control: Control, wanted: &Wanted) -> Result<Prepared, UblkError> {
        let design = wanted.settings.design.clone();
        let name = NameFile { name: fit_for_dev(&wanted.name), volume: wanted.volume, design };
        let longest_zeroes = wanted.longest_zeroes;
        if let Some(info) = find::waiting(&mut control, wanted.volume)? {
            let id = info.id;
            let params = control.params(id).map_err(UblkError::system(format!("the limits of /dev/ublkb{id}")))?;
            if let Some(what) = wanted.differs(params.as_ref()) {
                return Err(UblkError::Other { id, what });
            }
            let params = params.expect("it differs without them");
            if 1 << params.logical_shift != wanted.settings.block.0 {
                let block = 1 << params.logical_shift;
                tracing::warn!(block, "/dev/ublkb{id} waited for a server, and keeps the size of its blocks");
            }
            if params.sectors < wanted.sectors(1 << params.logical_shift) && !control.updates_sizes() {
                let (size, volume) = (Bytes(params.sectors * SECTOR), wanted.size);
                tracing::warn!(%size, %volume, "/dev/ublkb{id} was made before the volume has grown, and keeps its size until it is removed");
            }
            let buffers = Queues::memory(&info)?;
            return Ok(Prepared { control, info, params, recovered: true, buffers, name, longest_zeroes });
        }
        let processors =
            thread::available_parallelism().map_or(1, |count| u16::try_from(count.get()).unwrap_or(u16::MAX));
        let adding = UblkError::system("making a block device");
        let info = control.add(&wanted.info(processors)).map_err(adding)?;
        let params = wanted.params(&info);
        let made = control.set_params(info.id, &params).map_err(UblkError::system("the block device's limits"));
        match made.and_then(|()| Queues::memory(&info)) {
            Ok(buffers) => Ok(Prepared { control, info, params, recovered: false, buffers, name, longest_zeroes }),
            Err(error) => {
                // The first error is the one to report.
                let _ = control.delete(info.id);
                Err(error)
            }
        }
    }

    /// What requests are held to.
    pub(crate) fn limits(&self) -> Limits {
        let size = Bytes(self.params.sectors * SECTOR);
        Limits { size, longest: Bytes(self.info.longest.into()), longest_zeroes: Bytes(self.longest_zeroes) }
    }

    /// Opens the device's queues. From now until all slots wait for requests this process must not waste time: should it be killed
    /// meanwhile, Linux 6.12 does not let another one take the device over.
    pub(crate) fn open(mut self) -> Result<Attached, UblkError> {
        self.begin()?;
        let Prepared { mut control, info, params, recovered, buffers, name, .. } = self;
        match Queues::open(&info, buffers) {
            Ok(queues) => Ok(Attached { control, info, params, recovered, queues, name }),
            Err(UblkError::System { source, .. }) if recovered && source.raw_os_error() == Some(libc::EINVAL) => {
                let what = "its last server was killed at the moment when it took the device over".to_owned();
                Err(UblkError::Other { id: info.id, what })
            }
            Err(error) => {
                if !recovered {
                    // The first error is the one to report.
                    let _ = control.delete(info.id);
                }
                Err(error)
            }
        }
    }

    fn begin(&mut self) -> Result<(), UblkError> {
        if !self.recovered {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            match self.control.start_recovery(self.info.id) {
                Ok(()) => return Ok(()),
                // The kernel is still cleaning up after the server before.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && began.elapsed() < PATIENCE => {
                    thread::sleep(LOOK);
                }
                // A server had begun to take it over, and got no further.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(()),
                Err(error) => {
                    return Err(UblkError::system(format!("taking over /dev/ublkb{}", self.info.id))(error));
                }
            }
        }
    }
}

/// A device whose queues this process has opened.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) control: Control,
    pub(crate) info: DeviceInfo,
    pub(crate) params: Params,
    pub(crate) recovered: bool,
    pub(crate) queues: Queues,
    pub(crate) name: NameFile,
}

impl Attached {
    /// Lets requests come. They have to be served meanwhile, by the thread that owns the volume: the kernel looks for partitions
    /// before this returns.
    pub(crate) fn start(control: &mut Control, device: u32, recovered: bool, name: &NameFile) -> Result<(), UblkError> {
        // Before udev hears of the device.
        if let Err(error) = name.write(Path::new(DIRECTORY), device) {
            tracing::warn!(%error, "{DIRECTORY}: /dev/peryton/{} is not made", name.name);
        }
        let done = if recovered { control.end_recovery(device) } else { control.start(device) };
        done.map_err(UblkError::system(format!("starting /dev/ublkb{device}")))?;
        let timeout = format!("/sys/block/ublkb{device}/queue/io_timeout");
        if let Err(error) = fs::write(&timeout, LOOK_AFTER_MS.to_string())
            && !is_set(Path::new(&timeout))
        {
            tracing::warn!(%error, "{timeout}: if this server is killed amid requests, the next one may have to wait for half a minute");
        }
        Ok(())
    }
}

/// Whether a rule of udev sets the time instead: the units for systemd do not let a server write it.
fn is_set(timeout: &Path) -> bool {
    let found = || fs::read_to_string(timeout).is_ok_and(|text| text.trim() == LOOK_AFTER_MS.to_string());
    let began = Instant::now();
    while began.elapsed() < SET_WITHIN {
        if found() {
            return true;
        }
        thread::sleep(SET_LOOK);
    }
    found()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_udev_sets_the_same_time() {
        let rules = include_str!("../../../../extras/60-peryton.rules");
        assert!(rules.contains(&format!("ATTR{{queue/io_timeout}}=\"{LOOK_AFTER_MS}\"")));
    }

    fn wanted(queues: u16, depth: u16, memory: Bytes, size: u64) -> Wanted {
        Wanted {
            settings: UblkSettings { queues, depth, block: Bytes(4096), design: PathBuf::from("/d.toml") },
            name: "d".to_owned(),
            volume: 7,
            size: Bytes(size),
            rotational: false,
            read_only: false,
            memory,
            longest_zeroes: 1 << 20,
        }
    }

    #[test]
    fn the_longest_request_follows_from_the_memory_within_bounds() {
        for (queues, depth, mib, longest_kib) in
            [(2, 64, 64, 512), (4, 64, 64, 256), (1, 32, 64, 1024), (1, 1024, 8, 64), (1, 1, 8, 1024), (3, 64, 64, 256)]
        {
            let wanted = wanted(queues, depth, Bytes::mib(mib), 1 << 30);
            assert_eq!(wanted.info(8).longest, longest_kib << 10, "{queues} {depth} {mib}");
        }
        assert_eq!(wanted(8, 64, Bytes::mib(64), 1 << 30).info(2).queues, 2, "no more queues than processors");
    }

    #[test]
    fn a_volume_that_is_no_multiple_of_the_block_loses_its_last_part() {
        let wanted = wanted(1, 64, Bytes::mib(64), (1 << 20) + 4095);
        assert_eq!(wanted.params(&wanted.info(1)).sectors, (1 << 20) / 512);
        assert_eq!(wanted.sectors(512), (1 << 20) / 512 + 7);
    }

    #[test]
    fn a_device_of_another_size_is_not_taken_over() {
        let ours = wanted(1, 64, Bytes::mib(64), 1 << 30);
        let params = ours.params(&ours.info(1));
        assert_eq!(ours.differs(Some(&params)), None);
        assert_eq!(ours.differs(Some(&Params { logical_shift: 9, ..params })), None, "other blocks are no obstacle");
        for other in
            [None, Some(Params { sectors: params.sectors + 8, ..params }), Some(Params { logical_shift: 3, ..params })]
        {
            assert!(ours.differs(other.as_ref()).is_some(), "{other:?}");
        }
    }

    #[test]
    fn settings_out_of_bounds_are_refused() {
        let check =
            |queues, depth, block| UblkSettings { queues, depth, block: Bytes(block), design: PathBuf::new() }.check();
        assert!(check(4, 1024, 512).is_ok() && check(64, 64, 4096).is_ok());
        for (queues, depth) in [(0, 64), (1, 0), (65, 1), (5, 1024)] {
            assert!(matches!(check(queues, depth, 512), Err(UblkError::Queues { .. })), "{queues} {depth}");
        }
        assert!(matches!(check(1, 1, 1024), Err(UblkError::Block(1024))));
    }
}
