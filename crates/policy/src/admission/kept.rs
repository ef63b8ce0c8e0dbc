//! What admission knows, in a form that lasts: of the rule in force, of the sampled caches and their rules, and the threshold that
//! was found.

use super::Gate;
use crate::saving::{Cursor, Saving};

/// How far the state of a gate has been saved.
#[derive(Clone, Debug, Default)]
pub struct GateCursor {
    stage: usize,
    within: Cursor,
}

/// Lists of the rule in force begin here.
const RULE: u8 = 0;
/// Lists of the adaptive threshold begin here.
const ADAPTING: u8 = 16;
/// The items of these two begin with the number of a sampled cache: those of the cache, and of its rule.
const SHADOW: u8 = 32;
const SHADOW_RULE: u8 = 48;

impl Gate {
    /// The name of the rule whose state is saved; empty if there is none to save.
    pub fn saved_rule(&self) -> &'static str {
        if self.is_open() { "" } else { self.config.by.name() }
    }

    /// Saves a part of what is known, for about `most` items: what rules have counted, which extents the sampled caches have,
    /// and the threshold. Lost is what was seen in the time frame under way, what devices have reported, and what
    /// [`flashiness`](super::AdmitBy::Flashiness) waits for. Returns whether everything is saved.
    pub fn save(&mut self, cursor: &mut GateCursor, most: u32, put: &mut dyn FnMut(u8, &[u32])) -> bool {
        let sampled = self.adapting.as_ref().map_or(0, |adapting| adapting.sampled());
        let no_slots = |_| None;
        loop {
            let GateCursor { stage, within } = &mut *cursor;
            let complete = match (*stage, &mut self.adapting) {
                (0, _) => self.evaluator.rule.save(&mut Saving::new(within, most, &no_slots, &mut |list, item| {
                    put(RULE + list, item);
                })),
                (1, Some(adapting)) => adapting.save(&mut Saving::new(within, most, &no_slots, &mut |list, item| {
                    put(ADAPTING + list, item);
                })),
                (2.., Some(adapting)) if *stage < 2 + 2 * sampled => {
                    let index = (*stage - 2) / 2;
                    let Some(shadow) = adapting.shadow_mut(index) else { return true };
                    let (is_rule, mut words) = (*stage % 2 == 1, Vec::new());
                    let mut put = |list: u8, item: &[u32]| {
                        words.clear();
                        words.push(index as u32);
                        words.extend(item);
                        put(list, &words);
                    };
                    match is_rule {
                        false => shadow.save(SHADOW, &mut Saving::new(within, most, &no_slots, &mut put)),
                        true => {
                            let mut put = |list: u8, item: &[u32]| put(SHADOW_RULE + list, item);
                            shadow.evaluator.rule.save(&mut Saving::new(within, most, &no_slots, &mut put))
                        }
                    }
                }
                _ => return true,
            };
            if !complete {
                return false;
            }
            let next = *stage + 1;
            *cursor = GateCursor { stage: next, within: Cursor::default() };
            // Each stage may save as much as a call.
            if next > 2 {
                return false;
            }
        }
    }

    /// Takes an item back that [`Gate::save`] has written, in the same order, by a gate with the same rule.
    pub fn load(&mut self, list: u8, item: &[u32]) {
        match (list, &mut self.adapting) {
            (RULE..ADAPTING, _) => self.evaluator.rule.load(list - RULE, item),
            (ADAPTING..SHADOW, Some(adapting)) => {
                if let Some(threshold) = adapting.load(list - ADAPTING, item) {
                    self.evaluator.set_threshold(threshold);
                }
            }
            (SHADOW.., Some(adapting)) => {
                let Some((index, item)) = item.split_first() else { return };
                let Some(shadow) = adapting.shadow_mut(*index as usize) else { return };
                match list {
                    SHADOW_RULE.. => shadow.evaluator.rule.load(list - SHADOW_RULE, item),
                    _ => shadow.load(item),
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::{Bytes, Nanos, Op};
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::admission::{Access, AccessEnergy, Adaptive, Admission, AdmitBy, Costs, Objective, Threshold, Wear};

    const EXTENTS: u32 = 2_000;

    fn costs() -> Costs {
        Costs {
            served: [0; 4],
            latency: [40, 200, 200, 1000].map(Nanos::from_us),
            wear: [Wear { left: Some(Bytes(1 << 40)) }, Wear { left: Some(Bytes(6 << 40)) }],
            energy: [AccessEnergy::default(); 2],
        }
    }

    fn adaptive() -> Threshold {
        Threshold::Adaptive(Adaptive {
            rate: 0.2,
            caches: 4,
            target_latency: None,
            frame: 100,
            smoothing: 0.8,
            objective: Objective::default(),
        })
    }

    struct Run {
        random: StdRng,
        now: Nanos,
    }

    impl Run {
        fn next(&mut self) -> Access {
            self.now += Nanos::from_us(10);
            let drawn: f64 = self.random.random();
            let op = if self.random.random_bool(0.3) { Op::Write } else { Op::Read };
            let request_len = Bytes(4096 << self.random.random_range(0..6));
            Access { extent: (drawn * drawn * f64::from(3 * EXTENTS)) as u32, op, request_len }
        }

        /// Shows an access to a gate, and asks it. Returns the answer, and whether a time frame has ended.
        fn ask(&self, gate: &mut Gate, access: Access) -> (bool, bool) {
            let frame = gate.observe(self.now, access, Bytes::kib(4));
            if let Some(frame) = frame {
                gate.end_frame(frame, costs());
            }
            (gate.admits(access), frame.is_some())
        }
    }

    fn reopened(gate: &mut Gate, settings: &Admission) -> Gate {
        let (mut cursor, mut items) = (GateCursor::default(), Vec::new());
        while !gate.save(&mut cursor, 100, &mut |list, item| items.push((list, item.to_vec()))) {}
        let mut other = Gate::new(settings, EXTENTS, Bytes::kib(64));
        items.iter().for_each(|(list, item)| other.load(*list, item));
        other
    }

    /// The decisions after the saving that differ from those of a gate that went on, of 20,000, for each rule.
    fn differences(by: AdmitBy, threshold: Threshold) -> u32 {
        let settings = Admission { by, threshold, ..Admission::default() };
        let mut gate = Gate::new(&settings, EXTENTS, Bytes::kib(64));
        let mut run = Run { random: StdRng::seed_from_u64(5), now: Nanos::ZERO };
        let adapts = gate.view().is_some();
        for step in 0..60_000 {
            let access = run.next();
            let (_, ended) = run.ask(&mut gate, access);
            if adapts && ended && step > 50_000 {
                break;
            }
        }
        let mut other = reopened(&mut gate, &settings);
        assert_eq!(gate.view().map(|view| view.threshold), other.view().map(|view| view.threshold));
        let differs = |_| {
            let access = run.next();
            run.ask(&mut gate, access).0 != run.ask(&mut other, access).0
        };
        (0..20_000).map(differs).map(u32::from).sum()
    }

    #[test]
    fn a_rule_that_takes_back_what_was_saved_decides_as_if_nothing_had_happened() {
        for (name, by) in AdmitBy::ALL {
            let Some(threshold) = by.default_threshold().or(Some(2.0)).filter(|_| by != AdmitBy::Flashiness) else {
                continue;
            };
            assert_eq!(
                differences(by, Threshold::Fixed(threshold.min(if name == "probability" { 0.3 } else { 1e9 }))),
                0,
                "{name}"
            );
        }
    }

    /// The features that wait for their labels are lost, and with them a few steps of learning.
    #[test]
    fn flashiness_decides_nearly_the_same() {
        let differ = differences(AdmitBy::Flashiness, Threshold::Fixed(2.0));
        assert!(differ < 400, "{differ} of 20000");
    }

    /// At the end of a time frame nothing is lost but the moment when it ended. Later frames then end at other accesses.
    #[test]
    fn sampled_caches_go_on_with_what_they_have_and_with_the_threshold() {
        for by in [AdmitBy::Hotness, AdmitBy::Probability, AdmitBy::Size] {
            let differ = differences(by, adaptive());
            assert!(differ < 200, "{by:?}: {differ} of 20000");
        }
    }
}
