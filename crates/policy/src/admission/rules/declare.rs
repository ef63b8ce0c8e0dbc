//! Generates from one list what every admission rule needs besides its own file.

/// Declares the modules, the setting [`AdmitBy`](super::AdmitBy) with its names and the properties of each rule, and
/// `BuiltInRule`, which dispatches to the rule in force.
macro_rules! admission_rules {
    ($($module:ident: $Rule:ident, $doc:literal;)*) => {
        $(mod $module;)*

        /// The property by which admission decides ("Mixed SSD arrays", section III).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AdmitBy {
            $(#[doc = $doc] $Rule,)*
            /// A rule of another crate: see [`AdmitBy::custom`].
            Custom(CustomAdmission),
        }

        impl AdmitBy {
            /// Every rule, with its name in design files.
            pub const ALL: [(&str, AdmitBy); [$(stringify!($module)),*].len()] =
                [$((stringify!($module), AdmitBy::$Rule)),*];

            /// The unit of the rule's threshold.
            pub fn unit(self) -> Unit {
                match self {
                    $(AdmitBy::$Rule => <$module::$Rule as AdmissionRule>::UNIT,)*
                    AdmitBy::Custom(_) => Unit::Nothing,
                }
            }

            /// The threshold if none is set; `None` if one must be set.
            pub fn default_threshold(self) -> Option<f64> {
                match self {
                    $(AdmitBy::$Rule => <$module::$Rule as AdmissionRule>::DEFAULT_THRESHOLD,)*
                    AdmitBy::Custom(_) => None,
                }
            }

            /// Whether the rule's threshold can adapt.
            pub fn adapts(self) -> bool {
                match self {
                    $(AdmitBy::$Rule => <$module::$Rule as AdmissionRule>::ADAPTS,)*
                    AdmitBy::Custom(_) => false,
                }
            }

            /// How writes to cached extents are treated if that is not set; `None` if they are never judged.
            pub fn write_hits(self) -> Option<WriteHits> {
                match self {
                    $(AdmitBy::$Rule => <$module::$Rule as AdmissionRule>::WRITE_HITS,)*
                    AdmitBy::Custom(_) => None,
                }
            }

            /// Whether the rule is shown every access.
            pub(in crate::admission) fn observes(self) -> bool {
                match self {
                    $(AdmitBy::$Rule => <$module::$Rule as AdmissionRule>::OBSERVES,)*
                    AdmitBy::Custom(_) => false,
                }
            }

            /// The thresholds of `caches` sampled caches, from the strictest to the one that admits everything.
            pub(in crate::admission) fn sampled_thresholds(self, caches: u32) -> Vec<f64> {
                let of = match self {
                    $(AdmitBy::$Rule => <$module::$Rule as AdmissionRule>::sampled_threshold,)*
                    AdmitBy::Custom(_) => |_, _| 1.0,
                };
                (1..=caches).map(|step| of(step, caches)).collect()
            }
        }

        /// The rule in force.
        #[derive(Debug)]
        pub(in crate::admission) enum BuiltInRule {
            $($Rule($module::$Rule),)*
            Custom(CustomRule),
        }

        impl BuiltInRule {
            pub(in crate::admission) fn new(by: AdmitBy, extents: usize, seed: u64) -> BuiltInRule {
                match by {
                    $(AdmitBy::$Rule => BuiltInRule::$Rule($module::$Rule::new(extents, seed)),)*
                    AdmitBy::Custom(custom) => BuiltInRule::Custom(custom.make(extents, seed)),
                }
            }

            pub(in crate::admission) fn set_threshold(&mut self, threshold: f64) {
                match self {
                    $(BuiltInRule::$Rule(rule) => rule.set_threshold(threshold),)*
                    BuiltInRule::Custom(_) => {}
                }
            }

            pub(in crate::admission) fn observe(&mut self, access: Access) {
                match self {
                    $(BuiltInRule::$Rule(rule) => rule.observe(access),)*
                    BuiltInRule::Custom(_) => {}
                }
            }

            #[inline]
            pub(in crate::admission) fn admits(&mut self, miss: Access) -> bool {
                match self {
                    $(BuiltInRule::$Rule(rule) => rule.admits(miss),)*
                    BuiltInRule::Custom(rule) => rule.admits(miss),
                }
            }

            pub(in crate::admission) fn save(&mut self, to: &mut $crate::saving::Saving<'_>) -> bool {
                match self {
                    $(BuiltInRule::$Rule(rule) => rule.save(to),)*
                    BuiltInRule::Custom(_) => true,
                }
            }

            pub(in crate::admission) fn load(&mut self, list: u8, item: &[u32]) {
                match self {
                    $(BuiltInRule::$Rule(rule) => rule.load(list, item),)*
                    BuiltInRule::Custom(_) => {}
                }
            }

            #[cfg(test)]
            pub(in crate::admission) fn remembered(&self) -> usize {
                match self {
                    $(BuiltInRule::$Rule(rule) => rule.remembered(),)*
                    BuiltInRule::Custom(_) => 0,
                }
            }
        }
    };
}
