//! Redundancy of a device that is an array: which of its members may fail without loss, and what a write costs.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use thiserror::Error;

/// How an array survives the failure of members.
///
/// ```
/// use peryton_sim::Redundancy;
///
/// let raid6: Redundancy = "raid6".parse()?;
/// assert_eq!((raid6.fewest(), raid6.data_devices(8), raid6.survives()), (4, Some(6), 2));
/// assert_eq!(Redundancy::Mirror.data_devices(3), None);
/// # Ok::<(), peryton_sim::ParseRedundancyError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Redundancy {
    /// Striped (RAID 0), or one device: a member that fails takes the data of all with it.
    #[default]
    None,
    /// Pairs of devices with equal data; several pairs are striped (RAID 1, RAID 10).
    Mirror,
    /// A parity stripe in each row, on each member in turn (RAID 5).
    Raid5,
    /// Two parity stripes in each row (RAID 6).
    Raid6,
}

/// A text that names no redundancy.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("'{0}' is no redundancy: use none, mirror, raid5 or raid6")]
pub struct ParseRedundancyError(String);

impl Redundancy {
    /// All kinds, the plainest first.
    pub const ALL: [Redundancy; 4] = [Redundancy::None, Redundancy::Mirror, Redundancy::Raid5, Redundancy::Raid6];

    /// The name in design files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Redundancy::None => "none",
            Redundancy::Mirror => "mirror",
            Redundancy::Raid5 => "raid5",
            Redundancy::Raid6 => "raid6",
        }
    }

    /// The fewest devices that make such an array.
    pub fn fewest(self) -> u32 {
        match self {
            Redundancy::None => 1,
            Redundancy::Mirror => 2,
            Redundancy::Raid5 => 3,
            Redundancy::Raid6 => 4,
        }
    }

    /// Of this many devices, the number whose capacity is left for data; `None` if they make no such array.
    pub fn data_devices(self, count: u32) -> Option<u32> {
        match self {
            _ if count < self.fewest() => None,
            Redundancy::Mirror => count.is_multiple_of(2).then_some(count / 2),
            _ => Some(count - self.parity()),
        }
    }

    /// The number of devices of which this many are left for data; `None` if there are no such arrays.
    pub fn devices(self, data: u32) -> Option<u32> {
        match self {
            Redundancy::Mirror => data.checked_mul(2),
            _ => data.checked_add(self.parity()).map(|count| count.max(self.fewest())),
        }
    }

    /// Members that may fail, whichever they are, before data are lost.
    pub fn survives(self) -> u32 {
        match self {
            Redundancy::None => 0,
            Redundancy::Mirror | Redundancy::Raid5 => 1,
            Redundancy::Raid6 => 2,
        }
    }

    /// Parity stripes in each row.
    pub(crate) fn parity(self) -> u32 {
        match self {
            Redundancy::None | Redundancy::Mirror => 0,
            Redundancy::Raid5 => 1,
            Redundancy::Raid6 => 2,
        }
    }

    /// Commands to members for a write within one stripe: mirrors write twice; with parity the old data and the old
    /// parity are read, and both are written (Patterson, Gibson and Katz, "A case for redundant arrays of inexpensive
    /// disks", SIGMOD 1988; Chen et al., "RAID: high-performance, reliable secondary storage", ACM
    /// Computing Surveys 26, 1994).
    pub fn commands_of_a_small_write(self) -> u32 {
        match self {
            Redundancy::Mirror => 2,
            _ => match self.parity() {
                0 => 1,
                parity => 2 * (1 + parity),
            },
        }
    }
}

impl FromStr for Redundancy {
    type Err = ParseRedundancyError;
    fn from_str(text: &str) -> Result<Redundancy, ParseRedundancyError> {
        let found = Redundancy::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| ParseRedundancyError(crate::document::one_line(text)))
    }
}

impl fmt::Display for Redundancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Redundancy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for Redundancy {
    fn schema_name() -> Cow<'static, str> {
        "Redundancy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Redundancy::ALL.map(Redundancy::name);
        json_schema!({ "description": "How an array survives the failure of members.", "type": "string", "enum": names })
    }
}

/// What redundancy made of the writes to an array, in the measured span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArrayWrites {
    /// Write commands to the array.
    pub(crate) writes: u64,
    /// Those that had to read before they could write.
    pub(crate) after_reads: u64,
    /// Commands to members that read old data and old parity.
    pub(crate) parity_reads: u64,
    /// Commands to members that write.
    pub(crate) member_writes: u64,
}

impl ArrayWrites {
    pub(crate) fn add(&mut self, other: &ArrayWrites) {
        self.writes += other.writes;
        self.after_reads += other.after_reads;
        self.parity_reads += other.parity_reads;
        self.member_writes += other.member_writes;
    }
}
