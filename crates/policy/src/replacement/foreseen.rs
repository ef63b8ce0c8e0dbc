//! The next victims, so that what is known of them can be fetched into the processor's cache: they are old, and not there.

use super::{ReplacementPolicy, SlotIndex};

/// How many victims ahead slots are fetched. What that leads to is fetched two victims later.
const AHEAD: u32 = 8;
/// After this many victims the next ones are found again from the last one: some may have been used meanwhile.
const MOST_STEPS: u32 = 32;

/// The victims that a policy is likely to name, in each of two queues from which it takes them.
#[derive(Clone, Debug, Default)]
pub struct ForeseenVictims {
    rows: [Row; 2],
    latest: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// The first of them, and the last two.
    next: SlotIndex,
    farther: SlotIndex,
    farthest: SlotIndex,
    /// How many further victims are found from the farthest one before it is looked for again from the next one.
    steps: u32,
}

impl ForeseenVictims {
    /// The policy has named a victim, which is still in its slot. Calls `far` with a slot below `slots` that is foreseen for the first
    /// time, to fetch what is known of it, and later `near` with the same one, to fetch what that leads to. Returns the next victim.
    #[inline]
    pub fn after(
        &mut self,
        policy: &impl ReplacementPolicy,
        victim: SlotIndex,
        slots: u32,
        near: impl Fn(SlotIndex),
        far: impl Fn(SlotIndex),
    ) -> Option<SlotIndex> {
        let next = policy.likely_next(victim)?;
        let known = self.rows.iter().position(|row| row.next == victim && row.steps > 0);
        self.latest = known.unwrap_or(1 - self.latest);
        let row = &mut self.rows[self.latest];
        row.next = next;
        // There may be fewer slots since.
        if known.is_some() && row.farther.0.max(row.farthest.0) < slots {
            row.steps -= 1;
            let Some(farthest) = policy.likely_next(row.farthest) else {
                row.steps = 0;
                return Some(next);
            };
            far(farthest);
            policy.prefetch(farthest);
            near(row.farther);
            (row.farther, row.farthest) = (row.farthest, farthest);
            return Some(next);
        }
        row.steps = 0;
        let mut at = next;
        for _ in 1..AHEAD {
            near(at);
            at = policy.likely_next(at)?;
        }
        far(at);
        policy.prefetch(at);
        *row = Row { next, farther: at, farthest: at, steps: MOST_STEPS };
        Some(next)
    }
}
