//! The export of a server: one volume under one name, or its parts under one each.

use std::sync::Arc;

use peryton_units::Bytes;
use thiserror::Error;

use super::wire;

/// The block sizes of an export ("Size constraints").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Requests must be aligned to this and be a multiple of it: a power of two from 1 B to 64 KiB.
    pub minimum: Bytes,
    /// Requests of this alignment are served without read-modify-write: a power of two, at least 512 B.
    pub preferred: Bytes,
    /// The longest read or write. Requests without a payload (trim, zeroes, cache) may be longer.
    pub maximum: Bytes,
}

impl Default for BlockSizes {
    /// The sizes that a client may assume without asking: 1 B, 4 KiB, 32 MiB.
    fn default() -> BlockSizes {
        BlockSizes { minimum: Bytes(1), preferred: Bytes::kib(4), maximum: Bytes::mib(32) }
    }
}

/// A part of a volume that clients see as a volume of its own, named `EXPORT/PART`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name behind that of the export.
    pub name: String,
    /// Where it begins in the volume.
    pub from: Bytes,
    /// Its size.
    pub size: Bytes,
}

/// The volume as clients see it.
///
/// Flush, FUA, trim, zeroes (fast ones too), cache hints, unfragmented reads and several connections are always
/// offered, so the server must support them. In particular, a flush on one connection covers the writes that were
/// answered on any other connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name of the export; clients may also ask for the empty name.
    pub name: String,
    /// A description for listings.
    pub description: String,
    /// Size of the volume.
    pub size: Bytes,
    /// Where it begins in the server's volume.
    pub from: Bytes,
    /// If there are any, clients choose one of these, and the whole is not served.
    pub parts: Vec<Part>,
    /// Its block sizes.
    pub block: BlockSizes,
    /// Whether writes, trims and zeroes are refused.
    pub read_only: bool,
    /// Whether the export's flags say that seeks are slow.
    pub rotational: bool,
}

/// An export that the protocol cannot express.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("NBD export: {0}")]
pub struct ExportError(String);

impl Export {
    /// A writable export with the default block sizes.
    pub fn new(name: &str, size: Bytes) -> Export {
        Export {
            name: name.to_owned(),
            description: String::new(),
            size,
            from: Bytes::ZERO,
            parts: Vec::new(),
            block: BlockSizes::default(),
            read_only: false,
            rotational: false,
        }
    }

    /// Checks that the protocol can express the export.
    ///
    /// # Errors
    /// Its name or description is too long, or its size or block sizes are not those that the protocol allows.
    pub fn check(&self) -> Result<(), ExportError> {
        let fail = |what: String| Err(ExportError(what));
        for (what, text) in [("name", &self.name), ("description", &self.description)] {
            if text.len() > wire::MAX_STRING {
                return fail(format!("its {what} has {} bytes; at most {} fit", text.len(), wire::MAX_STRING));
            }
        }
        let BlockSizes { minimum, preferred, maximum } = self.block;
        if !minimum.0.is_power_of_two() || minimum > Bytes::kib(64) {
            return fail(format!("minimum block size {minimum}: expected a power of two up to 64KiB"));
        }
        if !preferred.0.is_power_of_two() || preferred < minimum.max(Bytes(512)) || preferred > Bytes::mib(32) {
            return fail(format!("preferred block size {preferred}: expected a power of two from 512B to 32MiB"));
        }
        if maximum < preferred.max(Bytes::mib(1)) || maximum > wire::MAX_PAYLOAD {
            return fail(format!("longest request {maximum}: expected 1MiB to {}", wire::MAX_PAYLOAD));
        }
        if let Some(part) = self.parts.iter().find(|part| !part.size.is_multiple_of(minimum)) {
            return fail(format!("size {} of {}: expected a multiple of {minimum}", part.size.0, part.name));
        }
        if !self.size.is_multiple_of(minimum) || i64::try_from(self.size.0).is_err() {
            return fail(format!("size {}: expected a multiple of {minimum}, below 8EiB", self.size.0));
        }
        Ok(())
    }

    /// What a client gets that asks for this name; `None`: nothing has it.
    pub(super) fn named(self: &Arc<Export>, name: &[u8]) -> Option<Arc<Export>> {
        if self.parts.is_empty() {
            return (name.is_empty() || name == self.name.as_bytes()).then(|| Arc::clone(self));
        }
        self.each().find(|part| part.name.as_bytes() == name).map(Arc::new)
    }

    /// The exports that clients can choose.
    pub(super) fn each(&self) -> impl Iterator<Item = Export> {
        let whole = self.parts.is_empty().then(|| self.clone());
        let part = |Part { name, from, size }: &Part| Export {
            name: format!("{}/{name}", self.name),
            size: *size,
            from: *from,
            parts: Vec::new(),
            ..self.clone()
        };
        whole.into_iter().chain(self.parts.iter().map(part))
    }

    /// The transmission flags, for a client with structured replies or without.
    pub(super) fn flags(&self, structured: bool) -> u16 {
        use wire::flag;
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN | flag::SEND_CACHE;
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        }
        if self.rotational {
            flags |= flag::ROTATIONAL;
        }
        if structured {
            flags |= flag::SEND_DF;
        }
        flags
    }
}
