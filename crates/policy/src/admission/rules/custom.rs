//! Admission rules of other crates: for experiments, and for rules that are written in another language.

use std::fmt;

use super::{Access, AdmitBy};

/// Decides about misses, one after the other.
type Decide = Box<dyn FnMut(Access) -> bool + Send>;

/// A rule of another crate: its name, and a function that makes it for a cache.
#[derive(Clone, Copy)]
pub struct CustomAdmission(&'static Maker);

struct Maker {
    name: String,
    make: Box<dyn Fn(usize, u64) -> Decide + Send + Sync>,
}

impl CustomAdmission {
    pub(in crate::admission) fn name(self) -> &'static str {
        &self.0.name
    }

    pub(super) fn make(self, extents: usize, seed: u64) -> CustomRule {
        CustomRule { name: self.name(), decide: (self.0.make)(extents, seed) }
    }
}

impl PartialEq for CustomAdmission {
    fn eq(&self, other: &CustomAdmission) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for CustomAdmission {}

impl fmt::Debug for CustomAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomAdmission").field(&self.name()).finish()
    }
}

impl AdmitBy {
    /// A rule of another crate, with its name in reports. `make` gets the number of extents that the cache has room for
    /// and the seed, and returns the function that is called once for each miss. The rule has no threshold. The setting
    /// is a value that is copied, so what it refers to is kept until the process ends.
    ///
    /// # Examples
    ///
    /// Every other miss:
    ///
    /// ```
    /// use peryton_policy::{Admission, AdmitBy, admission::{Access, Gate}};
    /// use peryton_units::{Bytes, Op};
    ///
    /// let by = AdmitBy::custom("every other", |_extents, _seed| {
    ///     let mut misses = 0;
    ///     Box::new(move |_miss: Access| {
    ///         misses += 1;
    ///         misses % 2 == 0
    ///     })
    /// });
    /// let mut gate = Gate::new(&Admission { by, ..Admission::default() }, 1000, Bytes::mib(1));
    /// let miss = Access { extent: 7, op: Op::Read, request_len: Bytes::kib(4) };
    /// assert_eq!([gate.admits(miss), gate.admits(miss)], [false, true]);
    /// ```
    pub fn custom(
        name: &str,
        make: impl Fn(usize, u64) -> Box<dyn FnMut(Access) -> bool + Send> + Send + Sync + 'static,
    ) -> AdmitBy {
        let maker = Maker { name: name.to_owned(), make: Box::new(make) };
        AdmitBy::Custom(CustomAdmission(Box::leak(Box::new(maker))))
    }
}

/// The state of a rule of another crate.
pub(in crate::admission) struct CustomRule {
    name: &'static str,
    decide: Decide,
}

impl CustomRule {
    pub(super) fn admits(&mut self, miss: Access) -> bool {
        (self.decide)(miss)
    }
}

impl fmt::Debug for CustomRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomRule").field(&self.name).finish()
    }
}
