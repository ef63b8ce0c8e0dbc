//! A sampled cache without data: what a cache with some threshold would do to the devices, at a fraction of its size
//! ("Mixed SSD arrays", section V-B).

use peryton_units::{Bytes, Op};
use rustc_hash::FxHashMap;

use super::{Judge, Miss};
use crate::{queues::Queues, replacement::SlotIndex};

/// What the accesses of one time frame would have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) accesses: u64,
    /// Accesses served by: a read or write of the cache, a read or write of the storage.
    pub(super) served: [u64; 4],
    /// Bytes written to cache and storage.
    pub(super) cache_written: u64,
    pub(super) storage_written: u64,
}

pub(super) const CACHE_READ: usize = 0;
pub(super) const CACHE_WRITE: usize = 1;
pub(super) const STORAGE_READ: usize = 2;
pub(super) const STORAGE_WRITE: usize = 3;

/// An LRU cache of extents, with dirty flags.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    pub(super) judge: Judge,
    slots: Vec<(u32, bool)>,
    index: FxHashMap<u32, u32>,
    queue: Queues<1>,
    size: u32,
    extent: Bytes,
    pub(super) traffic: Traffic,
}

impl Shadow {
    pub(super) fn new(judge: Judge, size: u32, extent: Bytes) -> Shadow {
        Shadow {
            judge,
            slots: Vec::with_capacity(size as usize),
            index: FxHashMap::default(),
            queue: Queues::new(size),
            size,
            extent,
            traffic: Traffic::default(),
        }
    }

    pub(super) fn access(&mut self, miss: Miss, len: Bytes) {
        let traffic = &mut self.traffic;
        traffic.accesses += 1;
        let write = miss.op == Op::Write;
        if let Some(slot) = self.index.get(&miss.extent) {
            self.queue.renew(0, SlotIndex(*slot));
            traffic.served[if write { CACHE_WRITE } else { CACHE_READ }] += 1;
            if write {
                self.slots[*slot as usize].1 = true;
                traffic.cache_written += len.0;
            }
            return;
        }
        if !self.judge.admits(miss) {
            traffic.served[if write { STORAGE_WRITE } else { STORAGE_READ }] += 1;
            traffic.storage_written += if write { len.0 } else { 0 };
            return;
        }
        // A write that covers its extent needs nothing from the storage; all else is read first.
        let covers = write && len == self.extent;
        traffic.served[if covers { CACHE_WRITE } else { STORAGE_READ }] += 1;
        traffic.cache_written += self.extent.0;
        let slot = if (self.slots.len() as u32) < self.size {
            self.slots.push((miss.extent, write));
            self.slots.len() as u32 - 1
        } else {
            let oldest = self.queue.oldest(0, |_| true).expect("a full cache has an oldest extent");
            self.queue.unlink(oldest);
            let (extent, dirty) = std::mem::replace(&mut self.slots[oldest.0 as usize], (miss.extent, write));
            self.index.remove(&extent);
            traffic.storage_written += if dirty { self.extent.0 } else { 0 };
            oldest.0
        };
        self.index.insert(miss.extent, slot);
        self.queue.push(0, SlotIndex(slot));
    }
}
