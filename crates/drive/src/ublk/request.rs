//! A request of the kernel: what it asks for, and whether it can be carried out.

use peryton_units::Bytes;

use super::wire::{Descriptor, F_FUA, F_NOUNMAP, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE, OP_WRITE_ZEROES, SECTOR};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) offset: Bytes,
    pub(crate) len: Bytes,
    /// Whether it has to be durable when it is answered.
    pub(crate) fua: bool,
    /// Whether room for zeros is kept.
    pub(crate) keeps: bool,
}

/// What requests are held to. The kernel keeps to the limits that it was given, so a request beyond them is a fault of one of the
/// two programs; it is answered with an error, and harms nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The size of the device.
    pub(crate) size: Bytes,
    /// The longest read or write: the length of a request's buffer.
    pub(crate) longest: Bytes,
    /// The longest write of zeros.
    pub(crate) longest_zeroes: Bytes,
}

impl Request {
    /// Reads a descriptor. An error is the negative number that the request is answered with.
    pub(crate) fn decode(descriptor: &Descriptor, limits: &Limits) -> Result<Request, i32> {
        let kind = match descriptor.op {
            OP_READ => Kind::Read,
            OP_WRITE => Kind::Write,
            OP_FLUSH => Kind::Flush,
            OP_DISCARD => Kind::Discard,
            OP_WRITE_ZEROES => Kind::WriteZeroes,
            _ => return Err(-libc::EOPNOTSUPP),
        };
        if kind == Kind::Flush {
            return Ok(Request { kind, offset: Bytes::ZERO, len: Bytes::ZERO, fua: false, keeps: false });
        }
        let len = u64::from(descriptor.sectors) * SECTOR;
        let offset = descriptor.first_sector.checked_mul(SECTOR).ok_or(-libc::EINVAL)?;
        let longest = match kind {
            Kind::Read | Kind::Write => limits.longest.0,
            Kind::WriteZeroes => limits.longest_zeroes.0,
            Kind::Discard | Kind::Flush => u64::MAX,
        };
        let fits = offset.checked_add(len).is_some_and(|end| end <= limits.size.0);
        if len == 0 || len > longest || !fits {
            return Err(-libc::EINVAL);
        }
        let fua = descriptor.flags & F_FUA != 0 && kind != Kind::Read;
        let keeps = descriptor.flags & F_NOUNMAP != 0 && kind == Kind::WriteZeroes;
        Ok(Request { kind, offset: Bytes(offset), len: Bytes(len), fua, keeps })
    }

    /// The answer to a request that was carried out: the number of bytes of a read or write.
    pub(crate) fn done(&self) -> i32 {
        match self.kind {
            Kind::Read | Kind::Write => self.len.0 as i32,
            Kind::Flush | Kind::Discard | Kind::WriteZeroes => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { size: Bytes(1 << 30), longest: Bytes(512 << 10), longest_zeroes: Bytes(1 << 20) };

    fn descriptor(op: u8, flags: u32, first_sector: u64, sectors: u32) -> Descriptor {
        Descriptor { op, flags: flags | u32::from(op), sectors, first_sector }
    }

    #[test]
    fn every_kind_is_understood() {
        for (op, kind, done) in [
            (OP_READ, Kind::Read, 4096),
            (OP_WRITE, Kind::Write, 4096),
            (OP_DISCARD, Kind::Discard, 0),
            (OP_WRITE_ZEROES, Kind::WriteZeroes, 0),
        ] {
            let request = Request::decode(&descriptor(op, F_FUA, 16, 8), &LIMITS).unwrap();
            let fua = kind != Kind::Read;
            let expected = Request { kind, offset: Bytes(8192), len: Bytes(4096), fua, keeps: false };
            assert_eq!((request, request.done()), (expected, done));
        }
        // A flush has no range, whatever the descriptor says.
        let flush = Request::decode(&descriptor(OP_FLUSH, 0, u64::MAX, 0), &LIMITS).unwrap();
        assert_eq!((flush.kind, flush.len, flush.done()), (Kind::Flush, Bytes::ZERO, 0));
    }

    #[test]
    fn what_is_not_understood_or_does_not_fit_is_refused() {
        let sectors = LIMITS.size.0 / SECTOR;
        for (op, at, count, error) in [
            (4, 0, 8, libc::EOPNOTSUPP),
            (200, 0, 8, libc::EOPNOTSUPP),
            (OP_READ, sectors, 1, libc::EINVAL),
            (OP_READ, sectors - 7, 8, libc::EINVAL),
            (OP_WRITE, u64::MAX, 8, libc::EINVAL),
            (OP_WRITE, u64::MAX / SECTOR, 8, libc::EINVAL),
            (OP_WRITE, 0, 0, libc::EINVAL),
            (OP_WRITE, 0, 1025, libc::EINVAL),
            (OP_WRITE_ZEROES, 0, 2049, libc::EINVAL),
            (OP_DISCARD, 1, u32::MAX, libc::EINVAL),
        ] {
            assert_eq!(Request::decode(&descriptor(op, 0, at, count), &LIMITS), Err(-error), "{op} {at} {count}");
        }
        assert!(Request::decode(&descriptor(OP_DISCARD, 0, 0, sectors as u32), &LIMITS).is_ok());
    }

    proptest! {
        /// Whatever the descriptor says, nothing beyond the volume or the request's buffer is touched.
        #[test]
        fn no_descriptor_reaches_beyond_the_volume(op in 0_u8..8, flags: u32, at: u64, sectors: u32) {
            if let Ok(request) = Request::decode(&descriptor(op, flags << 8, at, sectors), &LIMITS) {
                prop_assert!(request.offset.0 + request.len.0 <= LIMITS.size.0);
                prop_assert!(!matches!(request.kind, Kind::Read | Kind::Write) || request.len <= LIMITS.longest);
            }
        }
    }
}
