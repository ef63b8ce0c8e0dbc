//! Traces of objects: requests with an id and a size, in place of an offset and a length.

use peryton_units::{Bytes, Nanos, Op};

use crate::{Account, OBJECT_UNIT, Reader, Request, Source, TraceError, info::mixed};

const SLOTS: u64 = 1 << 50;

/// A request for an object of a cache trace: of a key-value store, a content delivery network or an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRequest {
    /// Arrival, counted from the first request of the trace.
    pub at: Nanos,
    /// The id of the object; a hash of it if the trace has words.
    pub id: u64,
    /// The size of the object, or of what was asked of it. Traces of key-value stores have 0 where a read missed.
    pub size: Bytes,
    /// A read asks for the object, a write stores it, a discard deletes it.
    pub op: Op,
}

/// A trace of objects, batch by batch: what [`Reader::into_objects`] makes of a [`Reader`]. As a [`Source`], it has the id of an
/// object in the place of the offset of a request, and its size in that of the length.
///
/// ```
/// use peryton_trace::{OpenOptions, read};
///
/// let text = "0 REST.PUT.OBJECT 8d4fcda3d675bac9 100000\n12 REST.GET.OBJECT 8d4fcda3d675bac9 100000 0 99999\n";
/// let mut objects = read("example", text.as_bytes(), &OpenOptions::default())?.into_objects()?;
/// let (mut batch, mut bytes) = (Vec::new(), 0);
/// loop {
///     objects.next_batch(&mut batch)?;
///     if batch.is_empty() {
///         break;
///     }
///     bytes += batch.iter().map(|request| request.size.0).sum::<u64>();
/// }
/// assert_eq!(bytes, 200_000);
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
pub struct Objects {
    reader: Reader,
    requests: Vec<Request>,
}

impl Objects {
    pub(crate) fn new(reader: Reader) -> Objects {
        Objects { reader, requests: Vec::new() }
    }

    /// Clears `batch` and fills it with the next requests in the order of time, at most [`BATCH`](crate::BATCH). An empty batch
    /// is the end.
    ///
    /// # Errors
    /// Those of [`Source::next_batch`](crate::Source::next_batch).
    pub fn next_batch(&mut self, batch: &mut Vec<ObjectRequest>) -> Result<(), TraceError> {
        batch.clear();
        self.reader.next_as_read(&mut self.requests)?;
        let object = |request: &Request| ObjectRequest {
            at: request.at,
            id: request.offset.0,
            size: request.len,
            op: request.op,
        };
        batch.extend(self.requests.iter().map(object));
        Ok(())
    }

    /// What was skipped, left out and moved so far.
    pub fn account(&self) -> Account {
        Source::account(&self.reader)
    }
}

impl Source for Objects {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.reader.next_as_read(batch)
    }

    fn account(&self) -> Account {
        Source::account(&self.reader)
    }
}

/// Gives each object its slot on a drive, and counts what does not fit into it.
pub(crate) fn place(requests: &mut [Request], account: &mut Account) {
    for request in requests {
        if request.len > OBJECT_UNIT {
            account.cut += 1;
            account.cut_bytes = account.cut_bytes.saturating_add(request.len - OBJECT_UNIT);
            request.len = OBJECT_UNIT;
        }
        request.offset = Bytes(slot(request.offset.0) * OBJECT_UNIT.0);
    }
}

fn slot(object: u64) -> u64 {
    if object < SLOTS { object } else { SLOTS + mixed(object) % SLOTS }
}

/// The id of an object that has a name: the number, if it is one, and otherwise a hash.
pub(crate) fn id(name: &[u8]) -> u64 {
    crate::field::whole(name).unwrap_or_else(|| twox_hash::XxHash3_128::oneshot(name) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_fits_and_small_objects_keep_their_place() {
        for object in [0, 1, SLOTS - 1] {
            assert_eq!(slot(object), object);
        }
        for object in [SLOTS, SLOTS + 1, u64::MAX - 1, u64::MAX] {
            assert!((SLOTS..2 * SLOTS).contains(&slot(object)));
            assert!(
                (slot(object) * OBJECT_UNIT.0).checked_add(OBJECT_UNIT.0).is_some_and(|end| end <= i64::MAX as u64 + 1)
            );
        }
        assert_ne!(slot(u64::MAX), slot(u64::MAX - 1));
    }
}
