//! Generates from one list what every replacement policy needs besides its own file.

/// The second of two: a name that is bound where a policy has parameters.
macro_rules! bound {
    ($_:ident, $name:ident) => {
        $name
    };
}

/// Calls a function of the policy in force.
macro_rules! dispatch {
    ($self:ident, [$($Policy:ident)*], $policy:ident => $call:expr) => {
        match $self {
            $(BuiltInPolicy::$Policy($policy) => $call,)*
            BuiltInPolicy::Custom($policy) => $call,
        }
    };
}

/// Declares the modules, the setting [`Replacement`](super::Replacement) with its names, and
/// [`BuiltInPolicy`](super::BuiltInPolicy), which dispatches to the policy in force.
macro_rules! replacement_policies {
    ($($module:ident: $Policy:ident $(($Parameters:ident))?, $doc:literal;)*) => {
        $(pub mod $module;)*

        /// The replacement policies: which extent leaves the fast device.
        ///
        /// ```
        /// use peryton_policy::Replacement;
        ///
        /// for (name, policy) in Replacement::ALL {
        ///     assert_eq!(policy.name(), name);
        /// }
        /// let text = "two_queue:kin=0.2";
        /// assert_eq!(text.parse::<Replacement>()?.to_string(), text);
        /// # Ok::<(), String>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Replacement {
            $(#[doc = $doc] $Policy $(($module::$Parameters))?,)*
            /// A policy of another crate: see [`Replacement::custom`].
            Custom(CustomReplacement),
        }

        impl Replacement {
            /// Every policy, with its name in design files, in reports and on command lines.
            pub const ALL: [(&str, Replacement); [$(stringify!($module)),*].len()] =
                [$((stringify!($module), Replacement::$Policy $(($module::$Parameters::DEFAULT))?)),*];

            /// The name in design files, in reports and on command lines, without parameters.
            pub fn name(self) -> &'static str {
                match self {
                    $(Replacement::$Policy $((bound!($Parameters, _parameters)))? => stringify!($module),)*
                    Replacement::Custom(custom) => custom.name(),
                }
            }

            /// What the policy is.
            pub fn about(self) -> &'static str {
                match self {
                    $(Replacement::$Policy $((bound!($Parameters, _parameters)))? => $doc,)*
                    Replacement::Custom(_) => "A policy of another crate.",
                }
            }

            /// Its parameters, and their values.
            pub fn parameters(self) -> Vec<(&'static $crate::Parameter, $crate::Millionths)> {
                let none: (&[$crate::Parameter], Vec<$crate::Millionths>) = (&[], Vec::new());
                let (known, values) = match self {
                    $($(Replacement::$Policy(bound!($Parameters, parameters)) => {
                        ($module::$Parameters::ALL, parameters.values())
                    })?)*
                    _ => none,
                };
                known.iter().zip(values).collect()
            }

            /// Sets a parameter by its place.
            fn set(&mut self, index: usize, value: $crate::Millionths) {
                match self {
                    $($(Replacement::$Policy(bound!($Parameters, parameters)) => parameters.set(index, value),)?)*
                    _ => {}
                }
            }

            /// A cache without data under this policy, of this capacity.
            pub fn simulated(self, capacity: Capacity, window: peryton_units::Nanos) -> Box<dyn Simulated> {
                match self {
                    $(Replacement::$Policy $((bound!($Parameters, parameters)))? => {
                        Box::new(BareCache::with_capacity(capacity, window, |capacity| {
                            $module::$Policy::new(capacity $(, bound!($Parameters, parameters))?)
                        }))
                    })*
                    Replacement::Custom(custom) => {
                        Box::new(BareCache::with_capacity(capacity, window, |capacity| custom.make(capacity)))
                    }
                }
            }
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
                    $(Replacement::$Policy $((bound!($Parameters, parameters)))? => {
                        BuiltInPolicy::$Policy($module::$Policy::new(capacity $(, bound!($Parameters, parameters))?))
                    })*
                    Replacement::Custom(custom) => BuiltInPolicy::Custom(custom.make(capacity)),
                }
            }
        }

        impl ReplacementPolicy for BuiltInPolicy {
            #[inline]
            fn admitting(&mut self, extent: u32, size: u32) {
                dispatch!(self, [$($Policy)*], policy => policy.admitting(extent, size));
            }

            #[inline]
            fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
                dispatch!(self, [$($Policy)*], policy => policy.inserted(slot, extent, size));
            }

            // Compiled into the path of a hit, which has room for it.
            #[inline(always)]
            fn accessed(&mut self, slot: SlotIndex) {
                dispatch!(self, [$($Policy)*], policy => policy.accessed(slot));
            }

            #[inline]
            fn prefetch(&self, slot: SlotIndex) {
                dispatch!(self, [$($Policy)*], policy => policy.prefetch(slot));
            }

            #[inline]
            fn prefetch_extent(&self, extent: u32) {
                dispatch!(self, [$($Policy)*], policy => policy.prefetch_extent(extent));
            }

            #[inline]
            fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
                dispatch!(self, [$($Policy)*], policy => policy.likely_next(victim))
            }

            #[inline]
            fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
                dispatch!(self, [$($Policy)*], policy => policy.removed(slot, extent, evicted));
            }

            fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
                dispatch!(self, [$($Policy)*], policy => policy.victim(candidates))
            }

            fn takes(&self, size: u32) -> bool {
                dispatch!(self, [$($Policy)*], policy => policy.takes(size))
            }

            fn saved_version(&self) -> u32 {
                dispatch!(self, [$($Policy)*], policy => policy.saved_version())
            }

            fn save(&mut self, to: &mut $crate::saving::Saving<'_>) -> bool {
                dispatch!(self, [$($Policy)*], policy => policy.save(to))
            }

            fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
                dispatch!(self, [$($Policy)*], policy => policy.load(list, item, slot_of));
            }

            fn loaded(&mut self) {
                dispatch!(self, [$($Policy)*], policy => policy.loaded());
            }

            fn knows(&self, slot: SlotIndex) -> bool {
                dispatch!(self, [$($Policy)*], policy => policy.knows(slot))
            }
        }
    };
}
