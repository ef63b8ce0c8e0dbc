//! Replacement policies in Rust, in a wheel of their own, for the package `peryton` of Python:
//!
//! ```python
//! import my_policies, peryton
//! peryton.mrc("trace.parquet", policies=[my_policies.SECOND_CHANCE, "lru"], points=10).plot()
//! peryton.simulate("design.toml", "trace.parquet", replacement=my_policies.SECOND_CHANCE)
//! ```
//!
//! A policy is called through a table of functions, so this wheel and that of `peryton` may be built by different compilers.

use peryton_policy::{
    PerSlot, Queues,
    replacement::{Candidates, Capacity, PolicyTable, ReplacementPolicy, SlotIndex},
};
use pyo3::{prelude::*, types::PyCapsule};

/// The most extents that one search moves to the back, where a request waits for the answer.
const MOST_CHANCES: u32 = 64;

/// First in, first out; an extent that was accessed meanwhile gets a second chance: CLOCK.
struct SecondChance {
    queue: Queues<1>,
    was_accessed: PerSlot<bool>,
}

impl From<Capacity> for SecondChance {
    fn from(capacity: Capacity) -> SecondChance {
        SecondChance { queue: Queues::new(capacity.slots), was_accessed: PerSlot::new(capacity.slots) }
    }
}

impl ReplacementPolicy for SecondChance {
    fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
        self.was_accessed.set(slot, false);
        self.queue.push_sized(0, slot, size);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.was_accessed.set(slot, true);
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.queue.unlink(slot);
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let most = if candidates.is_awaited() { MOST_CHANCES } else { self.queue.len(0) };
        for _ in 0..most {
            let slot = self.queue.oldest(0, |slot| candidates.may_leave(slot))?;
            if !self.was_accessed[slot] {
                return Some(slot);
            }
            self.was_accessed.set(slot, false);
            self.queue.renew(0, slot);
        }
        self.queue.oldest(0, |slot| candidates.may_leave(slot))
    }
}

/// The module: a name for each policy, whose value `peryton` takes.
#[pymodule]
fn my_policies(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let table = PolicyTable::of::<SecondChance>("second_chance");
    module.add("SECOND_CHANCE", PyCapsule::new_with_value(module.py(), table, PolicyTable::CAPSULE)?)
}
