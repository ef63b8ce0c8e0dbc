//! MSR Cambridge: `FILETIME,host,disk,Read|Write,offset,size,response`, times in 100 ns since 1601, the rest in bytes
//! (Narayanan et al., "Write Off-Loading", FAST 2008).
//!
//! A file usually has one host and one disk. If several hosts are in one file, the first host's disks keep their
//! numbers, and disk n of the k-th further host is volume k × 1000 + n.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{LineFormat, Sink},
    field::{leading, nanos, take_whole},
    problem::{Decoded, Or, Problem},
};

/// The most hosts in one file; more would come from a wrong column.
const MAX_HOSTS: usize = 1000;
/// The longest host name, in bytes (RFC 1035).
const MAX_HOST_NAME: usize = 255;
const DISKS_PER_HOST: u32 = 1000;

#[derive(Default)]
pub(crate) struct Msr {
    hosts: Vec<Box<[u8]>>,
    current: usize,
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, &mut Msr::default())
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Msr::default(), options)
}

impl Msr {
    #[inline]
    fn volume(&mut self, host: &[u8], disk: u32) -> Result<u32, Problem> {
        if self.hosts.get(self.current).is_none_or(|current| **current != *host) {
            self.current = self.find(host)?;
        }
        match self.current {
            0 => Ok(disk),
            _ if disk >= DISKS_PER_HOST => Err("a disk number above 999 in a trace of several hosts".into()),
            further => Ok(further as u32 * DISKS_PER_HOST + disk),
        }
    }

    #[cold]
    fn find(&mut self, host: &[u8]) -> Result<usize, Problem> {
        if let Some(known) = self.hosts.iter().position(|known| **known == *host) {
            return Ok(known);
        }
        if host.is_empty() || host.len() > MAX_HOST_NAME {
            return Err("the host name is empty or longer than 255 bytes".into());
        }
        if self.hosts.len() == MAX_HOSTS {
            return Err("more than 1000 different hosts".into());
        }
        self.hosts.push(host.into());
        Ok(self.hosts.len() - 1)
    }
}

impl LineFormat for Msr {
    fn expected(&self) -> Cow<'static, str> {
        "FILETIME,host,disk,Read|Write,offset,size,response (MSR Cambridge)".into()
    }

    #[inline]
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut rest = line;
        let Some(ticks) = take_whole(&mut rest, b',') else {
            let header = line.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"timestamp"));
            return if line.is_empty() || header { Ok(()) } else { Err("the time is not a whole number".into()) };
        };
        let at = ticks.checked_mul(100).or_problem("the time is out of range")?;
        let host = rest.iter().position(|&byte| byte == b',').or_problem("no host and disk")?;
        let (host, after) = rest.split_at(host);
        rest = &after[1..];
        let disk = take_whole(&mut rest, b',').and_then(|disk| u32::try_from(disk).ok());
        let disk = disk.or_problem("the disk is not a whole number")?;
        let (op, after) = match rest {
            [b'R' | b'r', b'e', b'a', b'd', b',', after @ ..] => (Op::Read, after),
            [b'W' | b'w', b'r', b'i', b't', b'e', b',', after @ ..] => (Op::Write, after),
            _ => return Err("neither Read nor Write".into()),
        };
        rest = after;
        let offset = take_whole(&mut rest, b',').or_problem("the offset is not a whole number")?;
        let (size, rest) = leading(rest).or_problem("the size is not a whole number")?;
        let response = match rest {
            [] => None,
            [b',', response @ ..] if !response.contains(&b',') => Some(response),
            [b',', ..] => return Err("more than seven columns".into()),
            _ => return Err("the size is not a whole number".into()),
        };
        let volume = self.volume(host, disk)?;
        sink.push(at, volume, op, offset, size)?;
        if let Some(response) = response.filter(|_| sink.is_timed()) {
            sink.took(nanos(response, 100).or_problem("the response is not a number")?);
        }
        Ok(())
    }
}
