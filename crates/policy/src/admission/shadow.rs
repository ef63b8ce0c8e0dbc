//! A sampled cache without data: it computes what a cache with a given threshold would do to the devices, at a fraction
//! of the size ("Mixed SSD arrays", section V-B).

use peryton_units::{Bytes, Op};

use super::{Access, Evaluator};
use crate::{ExtentTable, Queues, replacement::SlotIndex, saving::Saving};

/// What the accesses of one time frame would have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) accesses: u64,
    /// Requests served by a read or a write of the cache, and by a read or a write of the storage. An access to one of
    /// several extents of a request counts as that part of a request; otherwise long requests would decide the mean.
    pub(super) served: [f64; 4],
    /// Commands of the same kinds, moves included, and their bytes.
    pub(super) commands: [u64; 4],
    pub(super) bytes: [u64; 4],
}

impl Traffic {
    fn command(&mut self, kind: usize, len: u64) {
        self.commands[kind] += 1;
        self.bytes[kind] += len;
    }

    /// Counts a command of `moved` bytes that serves `asked` bytes of a request of `request` bytes.
    fn serve(&mut self, kind: usize, moved: Bytes, asked: Bytes, request: Bytes) {
        self.served[kind] += asked.0 as f64 / request.0.max(1) as f64;
        self.command(kind, moved.0);
    }
}

pub(super) const CACHE_READ: usize = 0;
pub(super) const CACHE_WRITE: usize = 1;
pub(super) const STORAGE_READ: usize = 2;
pub(super) const STORAGE_WRITE: usize = 3;

/// An LRU cache of extents with dirty flags. It takes memory for `size` extents, whatever the accesses are.
#[derive(Debug)]
pub(super) struct Shadow {
    pub(super) evaluator: Evaluator,
    slots: Vec<(u32, bool)>,
    /// Slots whose extent was dropped.
    free: Vec<u32>,
    index: ExtentTable,
    queue: Queues<1>,
    size: u32,
    extent: Bytes,
    judges_write_hits: bool,
    pub(super) traffic: Traffic,
}

impl Shadow {
    pub(super) fn new(evaluator: Evaluator, size: u32, extent: Bytes, judges_write_hits: bool) -> Shadow {
        Shadow {
            evaluator,
            slots: Vec::with_capacity(size as usize),
            free: Vec::new(),
            index: ExtentTable::default(),
            queue: Queues::new(size),
            size,
            extent,
            judges_write_hits,
            traffic: Traffic::default(),
        }
    }

    pub(super) fn access(&mut self, access: Access, len: Bytes) {
        self.traffic.accesses += 1;
        let write = access.op == Op::Write;
        if let Some(slot) = self.index.get(access.extent) {
            self.hit(slot, access, len, write);
            return;
        }
        let traffic = &mut self.traffic;
        if !self.evaluator.admits(access) {
            traffic.serve(if write { STORAGE_WRITE } else { STORAGE_READ }, len, len, access.request_len);
            return;
        }
        // A write that covers its extent needs nothing from the storage; for any other access the extent is read first.
        if write && len == self.extent {
            traffic.serve(CACHE_WRITE, len, len, access.request_len);
        } else {
            traffic.serve(STORAGE_READ, self.extent, len, access.request_len);
            traffic.command(CACHE_WRITE, self.extent.0);
        }
        let slot = self.slot();
        self.slots[slot as usize] = (access.extent, write);
        self.index.insert(access.extent, slot);
        self.queue.push(0, SlotIndex(slot));
    }

    fn hit(&mut self, slot: u32, access: Access, len: Bytes, write: bool) {
        let (_, dirty) = &mut self.slots[slot as usize];
        if !write {
            self.traffic.serve(CACHE_READ, len, len, access.request_len);
        } else if self.judges_write_hits && (!*dirty || len == self.extent) && !self.evaluator.admits(access) {
            self.traffic.serve(STORAGE_WRITE, len, len, access.request_len);
            self.queue.unlink(SlotIndex(slot));
            self.index.remove(access.extent);
            self.free.push(slot);
            return;
        } else {
            *dirty = true;
            self.traffic.serve(CACHE_WRITE, len, len, access.request_len);
        }
        self.queue.renew(0, SlotIndex(slot));
    }

    /// Returns an empty slot; if there is none, evicts the least recently used extent.
    fn slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        if (self.slots.len() as u32) < self.size {
            self.slots.push((0, false));
            return self.slots.len() as u32 - 1;
        }
        let oldest = self.queue.first(0).expect("a full cache has an oldest extent");
        self.queue.unlink(oldest);
        let (extent, dirty) = self.slots[oldest.0 as usize];
        self.index.remove(extent);
        if dirty {
            self.traffic.command(CACHE_READ, self.extent.0);
            self.traffic.command(STORAGE_WRITE, self.extent.0);
        }
        oldest.0
    }

    /// Saves which extents are cached, the oldest first; returns whether that is complete.
    pub(super) fn save(&mut self, list: u8, to: &mut Saving<'_>) -> bool {
        let slots = &self.slots;
        to.queue(list, &mut self.queue, 0, |slot| {
            let (extent, dirty) = slots[slot.index()];
            Some([extent, u32::from(dirty)])
        })
    }

    /// Takes an extent back that was saved.
    pub(super) fn load(&mut self, item: &[u32]) {
        let [extent, dirty] = *item else { return };
        match self.index.get(extent) {
            Some(slot) => {
                self.slots[slot as usize].1 = dirty != 0;
                self.queue.put(0, SlotIndex(slot));
            }
            None if self.index.len() < self.size as usize => {
                let slot = self.slot();
                self.slots[slot as usize] = (extent, dirty != 0);
                self.index.insert(extent, slot);
                self.queue.push(0, SlotIndex(slot));
            }
            None => {}
        }
    }

    /// Number of extents in memory: cached, free, and in the rule's history.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.slots.len() + self.index.len() + self.free.len() + self.evaluator.remembered()
    }
}
