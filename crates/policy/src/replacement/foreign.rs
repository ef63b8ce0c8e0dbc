//! Replacement policies in a library that is loaded while the program runs, such as an extension module of Python that
//! another compiler has built. They are called through a table of functions with the calling convention of C.

use std::{
    ffi::{CStr, c_void},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
};

use peryton_units::Nanos;

use super::{Candidate, Candidates, Capacity, Replacement, ReplacementPolicy, SlotIndex};

/// What a function returns if the policy panicked, since a panic must not leave the library that it began in.
const PANICKED: u8 = 1;
/// No slot.
const NONE: u32 = u32::MAX;

/// A replacement policy for programs that load it: its name, and its functions. The layout is that of C and has a version,
/// so that the program and the library can be built by different compilers.
///
/// # Examples
///
/// What a library exports, and what a program makes of it:
///
/// ```
/// use peryton_policy::{BareCache, Queues, replacement::{Candidates, Capacity, PolicyTable, ReplacementPolicy, SlotIndex}};
/// use peryton_units::Nanos;
///
/// struct Fifo(Queues<1>);
///
/// impl From<Capacity> for Fifo {
///     fn from(capacity: Capacity) -> Fifo {
///         Fifo(Queues::new(capacity.slots))
///     }
/// }
///
/// impl ReplacementPolicy for Fifo {
///     fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
///         self.0.push_sized(0, slot, size);
///     }
///     fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
///         self.0.unlink(slot);
///     }
///     fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
///         self.0.oldest(0, |slot| candidates.may_leave(slot))
///     }
/// }
///
/// let table = PolicyTable::of::<Fifo>("fifo");
/// // SAFETY: the table was made by `PolicyTable::of`, and this program is not unloaded.
/// let fifo = unsafe { table.replacement() }.expect("it has this version");
/// let mut cache = BareCache::new(fifo, 2, Nanos::from_s(60));
/// let hits = [1, 2, 1, 3, 1].map(|extent| cache.access(Nanos::ZERO, extent));
/// assert_eq!(hits, [false, false, true, false, false]);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PolicyTable {
    version: u32,
    name: *const u8,
    name_bytes: usize,
    make: unsafe extern "C" fn(u32, u64) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    admitting: unsafe extern "C" fn(*mut c_void, u32, u32) -> u8,
    inserted: unsafe extern "C" fn(*mut c_void, u32, u32, u32) -> u8,
    takes: unsafe extern "C" fn(*const c_void, u32, *mut bool) -> u8,
    accessed: unsafe extern "C" fn(*mut c_void, u32) -> u8,
    removed: unsafe extern "C" fn(*mut c_void, u32, u32, bool) -> u8,
    victim: unsafe extern "C" fn(*mut c_void, *const CandidatesTable, *mut u32) -> u8,
}

// SAFETY: the pointers are to functions and to a name, which are never written.
unsafe impl Send for PolicyTable {}
// SAFETY: as above.
unsafe impl Sync for PolicyTable {}

/// The candidates of the program for a library.
#[repr(C)]
struct CandidatesTable {
    candidates: *mut c_void,
    now: u64,
    window: u64,
    is_awaited: bool,
    is_empty: unsafe extern "C" fn(*mut c_void, u32) -> bool,
    candidate: unsafe extern "C" fn(*mut c_void, u32, *mut u64, *mut *mut bool) -> bool,
}

impl PolicyTable {
    /// The version of the layout; a program takes tables of its own version alone.
    pub const VERSION: u32 = 2;
    /// The name of a capsule of Python that holds a table.
    pub const CAPSULE: &'static CStr = c"peryton.replacement_policy.2";

    /// The table of a policy, for a library to export.
    pub const fn of<P: ReplacementPolicy + From<Capacity> + Send + 'static>(name: &'static str) -> PolicyTable {
        PolicyTable {
            version: PolicyTable::VERSION,
            name: name.as_ptr(),
            name_bytes: name.len(),
            make: Exported::<P>::make,
            free: Exported::<P>::free,
            admitting: Exported::<P>::admitting,
            inserted: Exported::<P>::inserted,
            takes: Exported::<P>::takes,
            accessed: Exported::<P>::accessed,
            removed: Exported::<P>::removed,
            victim: Exported::<P>::victim,
        }
    }

    /// The policy as a setting, which is kept until the process ends (see [`Replacement::custom`]).
    ///
    /// # Errors
    /// The table has another version, or its name is not a text.
    ///
    /// # Safety
    /// The table was made by [`PolicyTable::of`], perhaps in another library, which is never unloaded.
    pub unsafe fn replacement(&self) -> Result<Replacement, String> {
        if self.version != PolicyTable::VERSION {
            let (theirs, ours) = (self.version, PolicyTable::VERSION);
            return Err(format!(
                "the policy has version {theirs} of the interface, this program has {ours}: build it again"
            ));
        }
        // SAFETY: `of` made them of a `&'static str`.
        let name = unsafe { std::slice::from_raw_parts(self.name, self.name_bytes) };
        let name = str::from_utf8(name).map_err(|_| "the name of the policy is not a text".to_owned())?;
        let table = *self;
        Ok(Replacement::custom(name, move |capacity| Foreign::new(table, capacity)))
    }

    fn name(&self) -> &str {
        // SAFETY: `of` made it of a `&'static str`.
        let name = unsafe { std::slice::from_raw_parts(self.name, self.name_bytes) };
        str::from_utf8(name).unwrap_or_default()
    }
}

/// The functions of a policy on the side of the library.
struct Exported<P>(PhantomData<P>);

/// Calls a policy and keeps its panics.
fn kept(call: impl FnOnce()) -> u8 {
    catch_unwind(AssertUnwindSafe(call)).map_or(PANICKED, |()| 0)
}

// The safety of each function: the program calls it with a pointer that `make` returned and `free` has not taken, and from
// one thread at a time.
impl<P: ReplacementPolicy + From<Capacity> + Send + 'static> Exported<P> {
    unsafe extern "C" fn make(slots: u32, size: u64) -> *mut c_void {
        let policy = catch_unwind(|| Box::new(P::from(Capacity { slots, size })));
        policy.map_or(std::ptr::null_mut(), |policy| Box::into_raw(policy).cast())
    }

    unsafe extern "C" fn free(policy: *mut c_void) {
        // SAFETY: see above.
        kept(|| drop(unsafe { Box::from_raw(policy.cast::<P>()) }));
    }

    unsafe extern "C" fn admitting(policy: *mut c_void, extent: u32, size: u32) -> u8 {
        // SAFETY: see above.
        kept(|| unsafe { &mut *policy.cast::<P>() }.admitting(extent, size))
    }

    unsafe extern "C" fn inserted(policy: *mut c_void, slot: u32, extent: u32, size: u32) -> u8 {
        // SAFETY: see above.
        kept(|| unsafe { &mut *policy.cast::<P>() }.inserted(SlotIndex(slot), extent, size))
    }

    unsafe extern "C" fn takes(policy: *const c_void, size: u32, answer: *mut bool) -> u8 {
        // SAFETY: see above; `answer` is valid for this call.
        kept(|| unsafe { *answer = (*policy.cast::<P>()).takes(size) })
    }

    unsafe extern "C" fn accessed(policy: *mut c_void, slot: u32) -> u8 {
        // SAFETY: see above.
        kept(|| unsafe { &mut *policy.cast::<P>() }.accessed(SlotIndex(slot)))
    }

    unsafe extern "C" fn removed(policy: *mut c_void, slot: u32, extent: u32, evicted: bool) -> u8 {
        // SAFETY: see above.
        kept(|| unsafe { &mut *policy.cast::<P>() }.removed(SlotIndex(slot), extent, evicted))
    }

    unsafe extern "C" fn victim(policy: *mut c_void, candidates: *const CandidatesTable, slot: *mut u32) -> u8 {
        kept(|| {
            // SAFETY: see above; `candidates` and `slot` are valid for this call.
            let (policy, mut candidates) = unsafe { (&mut *policy.cast::<P>(), Imported(&*candidates)) };
            let found = policy.victim(&mut candidates).map_or(NONE, |slot| slot.0);
            // SAFETY: as above.
            unsafe { *slot = found };
        })
    }
}

/// The program's candidates on the side of the library.
struct Imported<'a>(&'a CandidatesTable);

impl Candidates for Imported<'_> {
    fn now(&self) -> Nanos {
        Nanos(self.0.now)
    }

    fn window(&self) -> Nanos {
        Nanos(self.0.window)
    }

    fn is_awaited(&self) -> bool {
        self.0.is_awaited
    }

    fn is_empty(&self, slot: SlotIndex) -> bool {
        // SAFETY: the program's function takes the program's candidates.
        unsafe { (self.0.is_empty)(self.0.candidates, slot.0) }
    }

    fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>> {
        let (mut last_access, mut referenced) = (0, std::ptr::null_mut());
        // SAFETY: the program's function takes the program's candidates.
        let found = unsafe { (self.0.candidate)(self.0.candidates, slot.0, &raw mut last_access, &raw mut referenced) };
        // SAFETY: the use bit is valid until the candidates are used again, which borrows them.
        found.then(|| Candidate { last_access: Nanos(last_access), referenced: unsafe { &mut *referenced } })
    }
}

/// A policy of a library on the side of the program.
struct Foreign {
    table: PolicyTable,
    policy: *mut c_void,
    slots: u32,
}

// SAFETY: `PolicyTable::of` takes only policies that are `Send`.
unsafe impl Send for Foreign {}

impl Foreign {
    fn new(table: PolicyTable, capacity: Capacity) -> Foreign {
        // SAFETY: the table was made by `PolicyTable::of`.
        let policy = unsafe { (table.make)(capacity.slots, capacity.size) };
        assert!(!policy.is_null(), "the policy {} panicked", table.name());
        Foreign { table, policy, slots: capacity.slots }
    }

    fn done(&self, status: u8) {
        assert!(status != PANICKED, "the policy {} panicked", self.table.name());
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: `make` returned the pointer, and it is used no more.
        unsafe { (self.table.free)(self.policy) };
    }
}

// The safety of each call: `make` returned the pointer, and `&mut self` says that no other thread uses it.
impl ReplacementPolicy for Foreign {
    fn admitting(&mut self, extent: u32, size: u32) {
        // SAFETY: see above.
        self.done(unsafe { (self.table.admitting)(self.policy, extent, size) });
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        // SAFETY: see above.
        self.slots = self.slots.max(slot.0 + 1);
        self.done(unsafe { (self.table.inserted)(self.policy, slot.0, extent, size) });
    }

    fn takes(&self, size: u32) -> bool {
        let mut answer = true;
        // SAFETY: see above; the answer lives for this call.
        self.done(unsafe { (self.table.takes)(self.policy, size, &raw mut answer) });
        answer
    }

    fn accessed(&mut self, slot: SlotIndex) {
        // SAFETY: see above.
        self.done(unsafe { (self.table.accessed)(self.policy, slot.0) });
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        // SAFETY: see above.
        self.done(unsafe { (self.table.removed)(self.policy, slot.0, extent, evicted) });
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        /// Looks at the candidates for the library.
        unsafe extern "C" fn candidate<C: Candidates>(
            candidates: *mut c_void,
            slot: u32,
            last_access: *mut u64,
            referenced: *mut *mut bool,
        ) -> bool {
            // SAFETY: the table below has candidates of this type.
            let (candidates, slots) = unsafe { &mut *candidates.cast::<(&mut C, u32)>() };
            if slot >= *slots {
                return false;
            }
            let Some(found) = candidates.candidate(SlotIndex(slot)) else { return false };
            // SAFETY: the library gives valid places.
            unsafe { (*last_access, *referenced) = (found.last_access.0, std::ptr::from_mut(found.referenced)) };
            true
        }
        /// Asks for the library whether a slot is empty.
        unsafe extern "C" fn is_empty<C: Candidates>(candidates: *mut c_void, slot: u32) -> bool {
            // SAFETY: as above.
            let (candidates, slots) = unsafe { &*candidates.cast::<(&mut C, u32)>() };
            slot >= *slots || candidates.is_empty(SlotIndex(slot))
        }
        let (now, window, is_awaited) = (candidates.now().0, candidates.window().0, candidates.is_awaited());
        let (mut lent, mut slot) = ((candidates, self.slots), NONE);
        let lender = (&raw mut lent).cast();
        let table = CandidatesTable {
            candidates: lender,
            now,
            window,
            is_awaited,
            is_empty: is_empty::<C>,
            candidate: candidate::<C>,
        };
        // SAFETY: see above; the table lives for this call.
        self.done(unsafe { (self.table.victim)(self.policy, &raw const table, &raw mut slot) });
        let candidates = lent.0;
        (slot != NONE).then(|| {
            let allowed = slot < self.slots && candidates.may_leave(SlotIndex(slot));
            assert!(allowed, "the policy {} named slot {slot} as a victim, which may not leave", self.table.name());
            SlotIndex(slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BareCache, replacement::sieve::Sieve};

    impl From<Capacity> for Sieve {
        fn from(capacity: Capacity) -> Sieve {
            Sieve::new(capacity)
        }
    }

    /// Panics in each method in turn, or names a slot that may not leave.
    struct Broken<const IN: u8>(u32);

    impl<const IN: u8> From<Capacity> for Broken<IN> {
        fn from(_: Capacity) -> Self {
            assert!(IN != 0);
            Broken(0)
        }
    }

    impl<const IN: u8> ReplacementPolicy for Broken<IN> {
        fn inserted(&mut self, slot: SlotIndex, _extent: u32, _size: u32) {
            assert!(IN != 1);
            self.0 = slot.0;
        }
        fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
            assert!(IN != 2);
            assert!(!candidates.may_leave(SlotIndex(u32::MAX - 1)), "there is no such slot");
            Some(SlotIndex(if IN == 3 { 1_000_000 } else { self.0 }))
        }
    }

    fn of(table: PolicyTable) -> Replacement {
        // SAFETY: the table is this program's.
        unsafe { table.replacement() }.unwrap()
    }

    #[test]
    fn a_policy_decides_the_same_through_the_interface_of_c() {
        let policies = [of(PolicyTable::of::<Sieve>("sieve of another library")), Replacement::Sieve];
        assert_eq!(policies[0].name(), "sieve of another library");
        let [mut theirs, mut ours] = policies.map(|policy| BareCache::new(policy, 60, Nanos::from_s(1)));
        let mut hits = 0;
        for step in 0..20_000u64 {
            let extent = ((step * step) % 97 + step % 13 * 5) as u32;
            let hit = ours.access(Nanos(step), extent);
            assert_eq!(theirs.access(Nanos(step), extent), hit, "step {step}");
            hits += u32::from(hit);
        }
        assert!((2_000..19_000).contains(&hits), "{hits} hits tell little");
    }

    #[test]
    fn what_a_policy_does_wrong_is_a_panic_of_the_program_that_names_it() {
        let run = |table| {
            let caught = catch_unwind(|| {
                let mut cache = BareCache::new(of(table), 4, Nanos::from_s(1));
                (0..10).for_each(|extent| assert!(!cache.access(Nanos::ZERO, extent)));
            });
            caught.map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
        };
        assert_eq!(run(PolicyTable::of::<Broken<9>>("sound")), Ok(()));
        for table in [
            PolicyTable::of::<Broken<0>>("broken"),
            PolicyTable::of::<Broken<1>>("broken"),
            PolicyTable::of::<Broken<2>>("broken"),
        ] {
            assert_eq!(run(table), Err("the policy broken panicked".to_owned()));
        }
        let error = run(PolicyTable::of::<Broken<3>>("broken")).unwrap_err();
        assert!(error.contains("named slot 1000000 as a victim, which may not leave"), "{error}");
    }

    #[test]
    fn a_table_of_another_version_is_refused() {
        let table = PolicyTable { version: 7, ..PolicyTable::of::<Sieve>("sieve") };
        // SAFETY: the table is this program's.
        let error = unsafe { table.replacement() }.unwrap_err();
        assert!(error.contains("version 7 of the interface, this program has 2: build it again"), "{error}");
    }
}
