use serde::{Deserialize, Serialize};

/// The operation of a request, on the host's side or a device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Op {
    /// Fetch data.
    Read = 0,
    /// Store data.
    Write = 1,
    /// The range is no longer needed (TRIM, UNMAP, WRITE_ZEROES with unmap).
    Discard = 2,
    /// Everything acknowledged so far must be durable before this is.
    Flush = 3,
}

impl Op {
    /// Every operation, in the order of their codes.
    pub const ALL: [Op; 4] = [Op::Read, Op::Write, Op::Discard, Op::Flush];

    /// The operation with this code, as stored in Parquet traces.
    pub fn from_code(code: u8) -> Option<Op> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "discard",
            Op::Flush => "flush",
        })
    }
}
