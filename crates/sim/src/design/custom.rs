//! Policies of other crates in a design, in place of those that its file names.

use peryton_engine::{AdmitBy, Placement, Replacement, Threshold, WriteHits};

use super::Design;
use crate::DesignError;

impl Design {
    /// Replaces the replacement policy; the report then names it as an override of `placement.replacement`.
    ///
    /// # Errors
    /// The placement has no replacement policy.
    pub fn use_replacement(&mut self, policy: Replacement) -> Result<(), DesignError> {
        let key = "placement.replacement";
        if self.placement.hybrid().is_none() {
            return Err(self.no_such(key, "tiering, caching and partitioned designs"));
        }
        self.tuning.replacement = policy;
        self.note(key, &policy.to_string());
        Ok(())
    }

    /// Replaces the admission rule; the report then names it as an override of `admission.by`. The other keys of
    /// `[admission]` have no effect.
    ///
    /// # Errors
    /// The placement admits everything.
    pub fn use_admission(&mut self, rule: AdmitBy) -> Result<(), DesignError> {
        let key = "admission.by";
        if !matches!(self.placement, Placement::Caching(_)) {
            return Err(self.no_such(key, "caching designs"));
        }
        let admission = &mut self.tuning.admission;
        (admission.by, admission.threshold, admission.write_hits) = (rule, Threshold::Fixed(0.0), WriteHits::Cache);
        admission.seed = self.seed;
        self.note(key, rule.name());
        Ok(())
    }

    fn no_such(&self, key: &str, which: &str) -> DesignError {
        let problem = format!("only {which} have one: leave the policy out");
        DesignError::Key { place: self.file.clone(), key: key.to_owned(), problem }
    }

    /// Makes the report say what was replaced.
    fn note(&mut self, key: &str, name: &str) {
        self.overrides.push(format!("{key}={name}"));
        let mut table: toml::Table = toml::from_str(&self.toml).expect("the design was written as TOML");
        let (within, last) = key.split_once('.').expect("the keys have two parts");
        let within = table.entry(within).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        if let Some(within) = within.as_table_mut() {
            if last == "by" {
                within.clear();
            }
            within.insert(last.to_owned(), toml::Value::String(name.to_owned()));
        }
        self.toml = toml::to_string(&table).expect("what was read as TOML can be written as TOML");
    }
}

#[cfg(test)]
mod tests {
    use peryton_policy::{
        Queues,
        admission::Access,
        replacement::{Candidates, Capacity, ReplacementPolicy, SlotIndex},
    };
    use peryton_trace::{OpenOptions, open};

    use super::*;
    use crate::{Fit, Options, Report, run_one};

    const CACHE: &str = "[devices]\nssd = { profile = 'intel-320-300gb', size = '16MiB' }\n\
                         hdd = { profile = 'seagate-st32000641as', size = '256MiB' }\n[placement]\nmode = 'caching'\n\
                         fast = 'ssd'\nslow = 'hdd'\nextent = '16KiB'\npromotion = { threshold = 0 }\n";

    /// Least recently used, like Peryton's own.
    struct Lru(Queues<1>);

    impl Lru {
        fn new(capacity: Capacity) -> Lru {
            Lru(Queues::new(capacity.slots))
        }
    }

    impl ReplacementPolicy for Lru {
        fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
            self.0.push_sized(0, slot, size);
        }
        fn accessed(&mut self, slot: SlotIndex) {
            self.0.renew(0, slot);
        }
        fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
            self.0.unlink(slot);
        }
        fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
            self.0.oldest(0, |slot| candidates.may_leave(slot))
        }
    }

    fn report(design: &Design) -> Report {
        let trace = open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default()).unwrap();
        let options = Options { fit: Fit::Wrap, ..Options::default() };
        run_one(design, "sqlite", Box::new(trace), &options, &|_| {}).unwrap()
    }

    #[test]
    fn policies_of_another_crate_do_what_the_same_ones_of_ours_do() {
        let overrides =
            ["placement.replacement=lru", "admission.by=size", "admission.threshold=8KiB"].map(str::to_owned);
        let ours = report(&Design::parse(CACHE, "design", &overrides).unwrap());
        let mut design = Design::parse(CACHE, "design", &[]).unwrap();
        design.use_replacement(Replacement::custom("my lru", Lru::new)).unwrap();
        let rule = AdmitBy::custom("up to 8 KiB", |_, _| Box::new(|miss: Access| miss.request_len.0 <= 8192));
        design.use_admission(rule).unwrap();
        let theirs = report(&design);
        assert!(ours.fast_hit_ratio > Some(0.0) && ours.moves.as_ref().is_some_and(|moves| moves.demotions > 100));
        assert_eq!((&theirs.moves, &theirs.latency_us), (&ours.moves, &ours.latency_us));
        assert_eq!(theirs.devices, ours.devices);
        assert_eq!(theirs.overrides, ["placement.replacement=my lru", "admission.by=up to 8 KiB"]);
        let told: toml::Table = theirs.design_toml.parse().unwrap();
        assert_eq!(told["placement"]["replacement"].as_str(), Some("my lru"));
        assert_eq!(told["admission"]["by"].as_str(), Some("up to 8 KiB"));
        let other = report(&Design::parse(CACHE, "design", &["placement.replacement=lru".to_owned()]).unwrap());
        assert_ne!(other.moves, ours.moves, "the rule makes no difference");
    }

    #[test]
    fn a_design_without_a_cache_has_no_use_for_policies() {
        let single = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
        let mut design = Design::parse(single, "one.toml", &[]).unwrap();
        let error = design.use_replacement(Replacement::custom("my lru", Lru::new)).unwrap_err().to_string();
        assert!(error.starts_with("one.toml: placement.replacement: only tiering"), "{error}");
        let error = design.use_admission(AdmitBy::All).unwrap_err().to_string();
        assert!(error.starts_with("one.toml: admission.by: only caching designs"), "{error}");
    }
}
