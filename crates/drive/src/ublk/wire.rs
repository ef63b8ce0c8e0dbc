//! The kernel's interface for block devices in user space (`include/uapi/linux/ublk_cmd.h`): numbers and structures, encoded and
//! decoded byte by byte. All numbers are in the processor's byte order.

/// The control device, which takes commands for all block devices of ublk.
pub(crate) const CONTROL: &str = "/dev/ublk-control";

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

/// The kernel's `_IOC` for the type `u`.
const fn command(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

const fn control(direction: u32, number: u32) -> u32 {
    command(direction, number, ControlCommand::BYTES as u32)
}

pub(crate) const GET_DEV_INFO: u32 = control(READ, 0x02);
pub(crate) const ADD_DEV: u32 = control(READ_WRITE, 0x04);
pub(crate) const DEL_DEV: u32 = control(READ_WRITE, 0x05);
pub(crate) const START_DEV: u32 = control(READ_WRITE, 0x06);
pub(crate) const STOP_DEV: u32 = control(READ_WRITE, 0x07);
pub(crate) const SET_PARAMS: u32 = control(READ_WRITE, 0x08);
pub(crate) const GET_PARAMS: u32 = control(READ, 0x09);
pub(crate) const START_USER_RECOVERY: u32 = control(READ_WRITE, 0x10);
pub(crate) const END_USER_RECOVERY: u32 = control(READ_WRITE, 0x11);
pub(crate) const GET_FEATURES: u32 = control(READ, 0x13);
pub(crate) const DEL_DEV_ASYNC: u32 = control(READ, 0x14);
pub(crate) const UPDATE_SIZE: u32 = control(READ_WRITE, 0x15);

/// Waits for a request.
pub(crate) const FETCH_REQ: u32 = command(READ_WRITE, 0x20, IoCommand::BYTES as u32);
/// Answers a request, and waits for the next one.
pub(crate) const COMMIT_AND_FETCH_REQ: u32 = command(READ_WRITE, 0x21, IoCommand::BYTES as u32);

/// A device survives its server, and requests wait meanwhile.
pub(crate) const USER_RECOVERY: u64 = 1 << 3;
/// Requests that the server had not answered are issued again.
pub(crate) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
/// Commands are numbered as above.
pub(crate) const CMD_IOCTL_ENCODE: u64 = 1 << 6;
/// The size of a device can change while it is used (Linux 6.16).
pub(crate) const UPDATES_SIZE: u64 = 1 << 10;

/// Asks the kernel to choose the number of a new device.
pub(crate) const ANY_DEVICE: u32 = u32::MAX;
/// The queue of commands that concern none.
const NO_QUEUE: u16 = u16::MAX;

/// The most requests of a queue. It fixes the distance between the descriptors of two queues.
pub(crate) const MOST_DEPTH: u16 = 4096;
/// The size of a sector in all of the kernel's figures.
pub(crate) const SECTOR: u64 = 512;

/// Bytes that are written from the start.
struct Out<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Out<N> {
    fn new() -> Out<N> {
        Out { bytes: [0; N], at: 0 }
    }

    fn put<const M: usize>(mut self, part: [u8; M]) -> Out<N> {
        self.bytes[self.at..self.at + M].copy_from_slice(&part);
        self.at += M;
        self
    }

    fn u16(self, number: u16) -> Out<N> {
        self.put(number.to_ne_bytes())
    }

    fn u32(self, number: u32) -> Out<N> {
        self.put(number.to_ne_bytes())
    }

    fn u64(self, number: u64) -> Out<N> {
        self.put(number.to_ne_bytes())
    }

    fn end(self) -> [u8; N] {
        assert!(self.at == N, "{} bytes of {N} were written", self.at);
        self.bytes
    }
}

fn part<const M: usize>(bytes: &[u8], at: usize) -> [u8; M] {
    let mut part = [0; M];
    part.copy_from_slice(&bytes[at..at + M]);
    part
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(part(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(part(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(part(bytes, at))
}

/// A command to the control device (`ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlCommand {
    pub(crate) device: u32,
    /// The length and the address of a structure that the kernel reads or writes.
    pub(crate) len: u16,
    pub(crate) address: u64,
    pub(crate) data: u64,
}

impl ControlCommand {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let out = Out::new().u32(self.device).u16(NO_QUEUE).u16(self.len).u64(self.address).u64(self.data);
        out.u64(0).end()
    }
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It was not started, or was stopped.
    Dead,
    /// A server has it.
    Live,
    /// Its server has gone, and its requests wait for another.
    Quiesced,
    /// Its server has gone, and its requests fail.
    FailIo,
    /// A state that this program does not know.
    Unknown(u16),
}

impl State {
    fn from_number(number: u16) -> State {
        match number {
            0 => State::Dead,
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::FailIo,
            other => State::Unknown(other),
        }
    }
}

/// What the kernel knows of a device (`ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceInfo {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: State,
    /// The longest read or write.
    pub(crate) longest: u32,
    pub(crate) id: u32,
    /// The process of its server; -1 if there is none.
    pub(crate) pid: i32,
    pub(crate) flags: u64,
    /// A number that the server gives and the kernel keeps (`ublksrv_flags`).
    pub(crate) mark: u64,
}

impl DeviceInfo {
    pub(crate) const BYTES: usize = 64;

    /// The most requests that it can have at once.
    pub(crate) fn slots(&self) -> u32 {
        u32::from(self.queues) * u32::from(self.depth)
    }

    /// The structure for [`ADD_DEV`].
    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let out = Out::new().u16(self.queues).u16(self.depth).u16(0).u16(0).u32(self.longest).u32(self.id);
        let out = out.put(self.pid.to_ne_bytes()).u32(0).u64(self.flags).u64(self.mark);
        out.u64(0).u64(0).u64(0).end()
    }

    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> DeviceInfo {
        DeviceInfo {
            queues: u16_at(bytes, 0),
            depth: u16_at(bytes, 2),
            state: State::from_number(u16_at(bytes, 4)),
            longest: u32_at(bytes, 8),
            id: u32_at(bytes, 12),
            pid: u32_at(bytes, 16).cast_signed(),
            flags: u64_at(bytes, 24),
            mark: u64_at(bytes, 32),
        }
    }
}

/// The device refuses writes.
const READ_ONLY: u32 = 1;
/// Seeks are slow.
const ROTATIONAL: u32 = 1 << 1;
/// Only a flush makes what was written durable, so the kernel sends flushes.
const VOLATILE_CACHE: u32 = 1 << 2;
/// Single writes may be durable when they are answered (FUA).
const FUA: u32 = 1 << 3;

/// The basic parameters and those of discards are given.
const BASIC_AND_DISCARD: u32 = 1 | 2;

/// The limits of a device (`ublk_params`, with `ublk_param_basic` and `ublk_param_discard`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) rotational: bool,
    pub(crate) read_only: bool,
    /// The logical and the physical block, as powers of two.
    pub(crate) logical_shift: u8,
    pub(crate) physical_shift: u8,
    pub(crate) most_sectors: u32,
    pub(crate) sectors: u64,
    pub(crate) discard_granularity: u32,
    pub(crate) most_discard_sectors: u32,
    pub(crate) most_zeroes_sectors: u32,
}

impl Params {
    pub(crate) const BYTES: usize = 60;

    /// The structure for [`SET_PARAMS`].
    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let rotational = if self.rotational { ROTATIONAL } else { 0 };
        let read_only = if self.read_only { READ_ONLY } else { 0 };
        let shifts = [self.logical_shift, self.physical_shift, self.physical_shift, self.physical_shift];
        let out = Out::new().u32(Self::BYTES as u32).u32(BASIC_AND_DISCARD);
        let out = out.u32(VOLATILE_CACHE | FUA | rotational | read_only).put(shifts).u32(self.most_sectors).u32(0);
        let out = out.u64(self.sectors).u64(0);
        let out = out.u32(0).u32(self.discard_granularity).u32(self.most_discard_sectors).u32(self.most_zeroes_sectors);
        // A discard of the kernel is one range.
        out.u16(1).u16(0).end()
    }

    /// `None` if the kernel has no basic parameters of the device.
    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Params> {
        let given = u32_at(bytes, 4);
        (given & 1 == 1).then(|| Params {
            rotational: u32_at(bytes, 8) & ROTATIONAL != 0,
            read_only: u32_at(bytes, 8) & READ_ONLY != 0,
            logical_shift: bytes[12],
            physical_shift: bytes[13],
            most_sectors: u32_at(bytes, 16),
            sectors: u64_at(bytes, 24),
            discard_granularity: u32_at(bytes, 44),
            most_discard_sectors: u32_at(bytes, 48),
            most_zeroes_sectors: u32_at(bytes, 52),
        })
    }

    /// The start of the structure for [`GET_PARAMS`], which says how long it is.
    pub(crate) fn blank() -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&(Self::BYTES as u32).to_ne_bytes());
        bytes
    }
}

/// A command to a queue of a device (`ublksrv_io_cmd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoCommand {
    pub(crate) queue: u16,
    pub(crate) tag: u16,
    /// The answer: a number of bytes, or a negative error number.
    pub(crate) result: i32,
    /// Where the data of the request are, or of the next one.
    pub(crate) address: u64,
}

impl IoCommand {
    pub(crate) const BYTES: usize = 16;

    #[inline]
    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let out = Out::new().u16(self.queue).u16(self.tag).put(self.result.to_ne_bytes());
        out.u64(self.address).end()
    }
}

// Kinds of requests (`UBLK_IO_OP_*`).
pub(crate) const OP_READ: u8 = 0;
pub(crate) const OP_WRITE: u8 = 1;
pub(crate) const OP_FLUSH: u8 = 2;
pub(crate) const OP_DISCARD: u8 = 3;
pub(crate) const OP_WRITE_ZEROES: u8 = 5;

/// The request is durable when it is answered.
pub(crate) const F_FUA: u32 = 1 << 13;
/// The blocks of zeros stay allocated.
pub(crate) const F_NOUNMAP: u32 = 1 << 15;

/// A request of the kernel (`ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) op: u8,
    /// Flags, with the kind in the lowest eight bits.
    pub(crate) flags: u32,
    pub(crate) sectors: u32,
    pub(crate) first_sector: u64,
}

impl Descriptor {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Descriptor {
        let flags = u32_at(bytes, 0);
        Descriptor { op: flags as u8, flags, sectors: u32_at(bytes, 4), first_sector: u64_at(bytes, 8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_numbers_of_the_kernels_header() {
        // As a C program prints them that includes <linux/ublk_cmd.h>.
        assert_eq!([GET_DEV_INFO, ADD_DEV, DEL_DEV], [0x8020_7502, 0xc020_7504, 0xc020_7505]);
        assert_eq!([START_DEV, STOP_DEV, SET_PARAMS], [0xc020_7506, 0xc020_7507, 0xc020_7508]);
        assert_eq!([GET_PARAMS, START_USER_RECOVERY, END_USER_RECOVERY], [0x8020_7509, 0xc020_7510, 0xc020_7511]);
        assert_eq!([GET_FEATURES, DEL_DEV_ASYNC], [0x8020_7513, 0x8020_7514]);
        assert_eq!([FETCH_REQ, COMMIT_AND_FETCH_REQ], [0xc010_7520, 0xc010_7521]);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn structures_have_the_layout_of_the_kernels_header() {
        let command = ControlCommand { device: 3, len: 64, address: 0x1122, data: 77 };
        let bytes = command.encode();
        assert_eq!(bytes[..8], [3, 0, 0, 0, 0xff, 0xff, 64, 0]);
        assert_eq!(bytes[8..10], [0x22, 0x11]);
        assert_eq!((bytes[16], &bytes[17..]), (77, &[0; 15][..]));

        let io = IoCommand { queue: 1, tag: 0x203, result: -5, address: 0x0102_0304_0506_0708 };
        let expected = [1, 0, 3, 2, 0xfb, 0xff, 0xff, 0xff, 8, 7, 6, 5, 4, 3, 2, 1];
        assert_eq!(io.encode(), expected);

        let mut bytes = [0; Descriptor::BYTES];
        bytes[..4].copy_from_slice(&[1, 0x20, 0, 0]);
        bytes[4] = 8;
        bytes[8..10].copy_from_slice(&[0, 1]);
        let write = Descriptor { op: OP_WRITE, flags: F_FUA | 1, sectors: 8, first_sector: 256 };
        assert_eq!(Descriptor::decode(&bytes), write);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn what_is_known_of_a_device_comes_back_as_it_was_given() {
        let info = DeviceInfo {
            queues: 2,
            depth: 64,
            state: State::Dead,
            longest: 512 << 10,
            id: 5,
            pid: -1,
            flags: USER_RECOVERY | USER_RECOVERY_REISSUE,
            mark: 0xfedc_ba98_7654_3210,
        };
        let mut bytes = info.encode();
        assert_eq!(DeviceInfo::decode(&bytes), info);
        assert_eq!((bytes[0], bytes[2], bytes[10], bytes[12], bytes[24], bytes[32]), (2, 64, 8, 5, 24, 0x10));
        for (number, state) in [(1, State::Live), (2, State::Quiesced), (3, State::FailIo), (9, State::Unknown(9))] {
            bytes[4] = number;
            assert_eq!(DeviceInfo::decode(&bytes).state, state);
        }
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn limits_come_back_as_they_were_given() {
        let params = Params {
            rotational: true,
            read_only: true,
            logical_shift: 9,
            physical_shift: 12,
            most_sectors: 1024,
            sectors: 1 << 40,
            discard_granularity: 4096,
            most_discard_sectors: 1 << 17,
            most_zeroes_sectors: 1 << 11,
        };
        let bytes = params.encode();
        assert_eq!(Params::decode(&bytes), Some(params));
        // Length and kinds; the attributes: read-only, rotational, volatile cache, FUA; the shifts.
        assert_eq!(bytes[..16], [60, 0, 0, 0, 3, 0, 0, 0, 15, 0, 0, 0, 9, 12, 12, 12]);
        // One segment a discard.
        assert_eq!(bytes[56..], [1, 0, 0, 0]);
        assert_eq!(Params::decode(&Params::blank()), None);
    }
}
