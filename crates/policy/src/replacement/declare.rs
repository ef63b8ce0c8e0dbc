//! Generates from one list what every replacement policy needs besides its own file.

/// Declares the modules, the setting [`Replacement`](super::Replacement) with its names, and
/// [`BuiltInPolicy`](super::BuiltInPolicy), which dispatches to the policy in force.
macro_rules! replacement_policies {
    ($($module:ident: $Policy:ident, $doc:literal;)*) => {
        $(pub mod $module;)*

        /// The replacement policies: which extent leaves the fast device.
        ///
        /// ```
        /// use peryton_policy::Replacement;
        ///
        /// for (name, policy) in Replacement::ALL {
        ///     assert_eq!(policy.name(), name);
        /// }
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Replacement {
            $(#[doc = $doc] $Policy,)*
            /// A policy of another crate: see [`Replacement::custom`].
            Custom(CustomReplacement),
        }

        impl Replacement {
            /// Every policy, with its name in design files, in reports and on command lines.
            pub const ALL: [(&str, Replacement); [$(stringify!($module)),*].len()] =
                [$((stringify!($module), Replacement::$Policy)),*];
        }

        /// The policy in force: an enum, so that a hit is a jump and not a call through a table.
        // A tag of its own is cheaper to read at each hit than one that hides in a field of the policies.
        #[derive(Debug)]
        #[repr(u8)]
        pub enum BuiltInPolicy {
            $(#[doc = $doc] $Policy($module::$Policy),)*
            /// A policy of another crate.
            Custom(CustomPolicy),
        }

        impl BuiltInPolicy {
            /// Makes the policy for an empty cache of this capacity.
            pub fn new(which: Replacement, capacity: Capacity) -> BuiltInPolicy {
                match which {
                    $(Replacement::$Policy => BuiltInPolicy::$Policy($module::$Policy::new(capacity)),)*
                    Replacement::Custom(custom) => BuiltInPolicy::Custom(custom.make(capacity)),
                }
            }
        }

        impl ReplacementPolicy for BuiltInPolicy {
            #[inline]
            fn admitting(&mut self, extent: u32) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.admitting(extent),)*
                    BuiltInPolicy::Custom(policy) => policy.admitting(extent),
                }
            }

            #[inline]
            fn inserted(&mut self, slot: SlotIndex, extent: u32) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.inserted(slot, extent),)*
                    BuiltInPolicy::Custom(policy) => policy.inserted(slot, extent),
                }
            }

            // Compiled into the path of a hit, which has room for it.
            #[inline(always)]
            fn accessed(&mut self, slot: SlotIndex) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.accessed(slot),)*
                    BuiltInPolicy::Custom(policy) => policy.accessed(slot),
                }
            }

            #[inline]
            fn prefetch(&self, slot: SlotIndex) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.prefetch(slot),)*
                    BuiltInPolicy::Custom(policy) => policy.prefetch(slot),
                }
            }

            #[inline]
            fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.likely_next(victim),)*
                    BuiltInPolicy::Custom(policy) => policy.likely_next(victim),
                }
            }

            #[inline]
            fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.removed(slot, extent, evicted),)*
                    BuiltInPolicy::Custom(policy) => policy.removed(slot, extent, evicted),
                }
            }

            fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.victim(candidates),)*
                    BuiltInPolicy::Custom(policy) => policy.victim(candidates),
                }
            }

            fn saved_version(&self) -> u32 {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.saved_version(),)*
                    BuiltInPolicy::Custom(policy) => policy.saved_version(),
                }
            }

            fn save(&mut self, to: &mut $crate::saving::Saving<'_>) -> bool {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.save(to),)*
                    BuiltInPolicy::Custom(policy) => policy.save(to),
                }
            }

            fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.load(list, item, slot_of),)*
                    BuiltInPolicy::Custom(policy) => policy.load(list, item, slot_of),
                }
            }

            fn loaded(&mut self) {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.loaded(),)*
                    BuiltInPolicy::Custom(policy) => policy.loaded(),
                }
            }

            fn knows(&self, slot: SlotIndex) -> bool {
                match self {
                    $(BuiltInPolicy::$Policy(policy) => policy.knows(slot),)*
                    BuiltInPolicy::Custom(policy) => policy.knows(slot),
                }
            }
        }
    };
}
