//! Policies written in Python: classes with the methods of the traits of `peryton-policy`.
//!
//! Policies in Rust that another wheel has are passed as capsules.
//!
//! A policy is called from the threads that simulate, which attach to the interpreter for the call. An exception ends the
//! simulation and is what the caller gets.

use std::{
    collections::HashMap,
    ptr::NonNull,
    sync::{Mutex, OnceLock, PoisonError},
};

use peryton_policy::{
    AdmitBy, Replacement, ReplacementPolicy,
    admission::Access,
    replacement::{self, Candidate, Candidates, PolicyTable, SlotIndex},
};
use pyo3::{
    exceptions::{PyIndexError, PyRuntimeError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyCapsule, PyString},
};

use crate::{error::input, running::raise};

/// The replacement policies and the admission rules of Peryton by their names.
#[pyfunction]
pub(crate) fn policies() -> (Vec<&'static str>, Vec<&'static str>) {
    (Replacement::ALL.iter().map(|(name, _)| *name).collect(), AdmitBy::ALL.iter().map(|(name, _)| *name).collect())
}

/// The capacity of a cache, for a policy that is made for it.
#[pyclass(frozen, module = "peryton")]
pub(crate) struct Capacity {
    /// Number of slots, numbered from 0.
    #[pyo3(get)]
    slots: u32,
    /// The most slots that hold an extent at the same time.
    #[pyo3(get)]
    size: u64,
}

#[pymethods]
impl Capacity {
    fn __repr__(&self) -> String {
        format!("Capacity(slots={}, size={})", self.slots, self.size)
    }
}

/// A policy in Rust of another wheel, in a capsule.
fn foreign(capsule: &Bound<'_, PyCapsule>) -> PyResult<Replacement> {
    let remedy = "give what PyCapsule::new_with_value made of a PolicyTable";
    let pointer = capsule.pointer_checked(Some(PolicyTable::CAPSULE)).map_err(|_| {
        input(format!("the capsule is no replacement policy of this version: {remedy}, or build it again"))
    })?;
    static KNOWN: OnceLock<Made<Result<Replacement, &'static str>>> = OnceLock::new();
    let made = KNOWN.get_or_init(Made::default).of(capsule.as_any(), |capsule| {
        // It is kept, so that no other gets its address.
        std::mem::forget(capsule);
        // SAFETY: a capsule of this name has a table, which `PolicyTable::of` has made; an extension module is never unloaded.
        let made = unsafe { (*pointer.as_ptr().cast::<PolicyTable>()).replacement() };
        made.map_err(|problem| &*problem.leak())
    });
    made.map_err(input)
}

/// A policy by its name, a class of Python that makes one, or one in Rust of another wheel.
pub(crate) fn replacement(argument: &str, policy: &Bound<'_, PyAny>) -> PyResult<Replacement> {
    if let Ok(name) = policy.cast::<PyString>() {
        let (name, known) = (name.to_str()?, Replacement::ALL);
        if name.contains(':') {
            return name.parse().map_err(|problem| input(format!("{argument}: {problem}")));
        }
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy);
        return found.ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            input(format!("{argument} '{name}': use one of {}, or a class of yours", names.join(", ")))
        });
    }
    if let Ok(capsule) = policy.cast::<PyCapsule>() {
        return foreign(capsule);
    }
    let name = named(argument, policy, "victim")?;
    static KNOWN: OnceLock<Made<Replacement>> = OnceLock::new();
    Ok(KNOWN.get_or_init(Made::default).of(policy, |class| {
        let shown = name.clone();
        Replacement::custom(&name, move |capacity| Policy::new(&class, &shown, capacity))
    }))
}

/// A rule of Python.
pub(crate) fn admission(argument: &str, rule: &Bound<'_, PyAny>) -> PyResult<AdmitBy> {
    let name = named(argument, rule, "admits")?;
    static KNOWN: OnceLock<Made<AdmitBy>> = OnceLock::new();
    Ok(KNOWN.get_or_init(Made::default).of(rule, |class| {
        AdmitBy::custom(&name, move |extents, seed| {
            let admits = Python::attach(|py| {
                let rule = class.bind(py).call1((extents, seed)).unwrap_or_else(|error| raise(error));
                rule.getattr("admits").unwrap_or_else(|error| raise(error)).unbind()
            });
            Box::new(move |miss: Access| {
                let op = miss.op as u8;
                let answer = |py: Python<'_>| admits.call1(py, (miss.extent, op, miss.request_len.0))?.is_truthy(py);
                Python::attach(answer).unwrap_or_else(|error| raise(error))
            })
        })
    }))
}

/// The name of a class that has this method, or of a function that makes its instances.
fn named(argument: &str, class: &Bound<'_, PyAny>, method: &str) -> PyResult<String> {
    if !class.is_callable() {
        let kind = class.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{argument}: expected a policy's name, or a class with the method {method}, not {kind}"
        )));
    }
    if class.is_instance_of::<pyo3::types::PyType>() && !class.hasattr(method)? {
        let name: String = class.getattr("__name__")?.extract()?;
        return Err(PyTypeError::new_err(format!("{argument}: {name} has no method {method}, which decides")));
    }
    Ok(class.getattr("__name__").and_then(|name| name.extract()).unwrap_or_else(|_| "custom".to_owned()))
}

/// What was made of each class. The settings of the libraries are kept until the process ends, and with them the classes,
/// so each class gets one.
struct Made<T>(Mutex<HashMap<usize, T>>);

impl<T> Default for Made<T> {
    fn default() -> Made<T> {
        Made(Mutex::default())
    }
}

impl<T: Copy> Made<T> {
    fn of(&self, class: &Bound<'_, PyAny>, make: impl FnOnce(Py<PyAny>) -> T) -> T {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A class in the table is never freed, so no other gets its address.
        *known.entry(class.as_ptr() as usize).or_insert_with(|| make(class.clone().unbind()))
    }
}

/// An instance of a class of Python, by its methods.
struct Policy {
    name: String,
    victim: Py<PyAny>,
    inserted: Option<Py<PyAny>>,
    accessed: Option<Py<PyAny>>,
    removed: Option<Py<PyAny>>,
    admitting: Option<Py<PyAny>>,
    candidates: Py<PyCandidates>,
}

impl Policy {
    fn new(class: &Py<PyAny>, name: &str, capacity: replacement::Capacity) -> Policy {
        let made = Python::attach(|py| -> PyResult<Policy> {
            let slots = capacity.slots;
            let capacity = Capacity { slots, size: capacity.size };
            let policy = class.bind(py).call1((capacity,))?;
            let method =
                |name: &str| -> PyResult<Option<Py<PyAny>>> { Ok(policy.getattr_opt(name)?.map(Bound::unbind)) };
            let victim = policy.getattr("victim")?.unbind();
            Ok(Policy {
                name: name.to_owned(),
                victim,
                inserted: method("inserted")?,
                accessed: method("accessed")?,
                removed: method("removed")?,
                admitting: method("admitting")?,
                candidates: Py::new(py, PyCandidates { lent: Mutex::new(None), slots })?,
            })
        });
        made.unwrap_or_else(|error| raise(error))
    }
}

/// Calls a method if the class has it.
fn call<A>(method: Option<&Py<PyAny>>, arguments: A)
where
    A: for<'py> pyo3::call::PyCallArgs<'py>,
{
    if let Some(method) = method {
        Python::attach(|py| method.call1(py, arguments).map(drop)).unwrap_or_else(|error| raise(error));
    }
}

impl ReplacementPolicy for Policy {
    fn admitting(&mut self, extent: u32, _size: u32) {
        call(self.admitting.as_ref(), (extent,));
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, _size: u32) {
        call(self.inserted.as_ref(), (slot.0, extent));
    }

    fn accessed(&mut self, slot: SlotIndex) {
        call(self.accessed.as_ref(), (slot.0,));
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        call(self.removed.as_ref(), (slot.0, extent, evicted));
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let ask = |py: Python<'_>| -> PyResult<Option<SlotIndex>> {
            let shown = self.candidates.get();
            let lent = Lent::new(shown, candidates);
            let answer = self.victim.call1(py, (&self.candidates,));
            drop(lent);
            match answer?.extract::<Option<u32>>(py)? {
                None => Ok(None),
                Some(slot) if slot < shown.slots && candidates.may_leave(SlotIndex(slot)) => Ok(Some(SlotIndex(slot))),
                Some(slot) => {
                    let (name, remedy) = (&self.name, "ask candidates.may_leave(slot) first");
                    Err(PyValueError::new_err(format!(
                        "{name}.victim returned slot {slot}, which may not leave: {remedy}"
                    )))
                }
            }
        };
        Python::attach(ask).unwrap_or_else(|error| raise(error))
    }
}

/// The extents that may leave, for the time of a call of `victim`.
#[pyclass(frozen, module = "peryton", name = "Candidates")]
pub(crate) struct PyCandidates {
    lent: Mutex<Option<Lender>>,
    /// Number of slots of the cache.
    slots: u32,
}

/// The candidates of the thread that asks for a victim.
struct Lender(NonNull<dyn Candidates>);

// SAFETY: the pointer is used only while the thread that lent it waits in `Policy::victim` for the call to return, under
// the mutex, and is taken back before that thread goes on.
unsafe impl Send for Lender {}

/// Lends candidates to Python, and takes them back when it is dropped.
struct Lent<'a>(&'a PyCandidates);

impl<'a> Lent<'a> {
    fn new(shown: &'a PyCandidates, candidates: &mut dyn Candidates) -> Lent<'a> {
        let pointer = NonNull::from(candidates);
        // SAFETY: only the lifetime changes; the pointer is taken back before `candidates` is used again.
        let pointer = unsafe { std::mem::transmute::<NonNull<dyn Candidates + '_>, NonNull<dyn Candidates>>(pointer) };
        *shown.lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(Lender(pointer));
        Lent(shown)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        *self.0.lent.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl PyCandidates {
    fn with<T>(&self, ask: impl FnOnce(&mut dyn Candidates) -> T) -> PyResult<T> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Lender(candidates)) = lent.as_mut() else {
            return Err(PyRuntimeError::new_err("candidates can be asked only while victim is called"));
        };
        // SAFETY: `Lent` has not been dropped, so the thread that lent the candidates waits, and the mutex is held.
        Ok(ask(unsafe { candidates.as_mut() }))
    }

    /// What the extent in a slot answers, if it may leave.
    fn of<T>(&self, slot: u32, ask: impl FnOnce(Candidate<'_>) -> T) -> PyResult<Option<T>> {
        if slot >= self.slots {
            return Err(PyIndexError::new_err(format!("slot {slot}: the cache has slots 0 to {}", self.slots - 1)));
        }
        self.with(|candidates| candidates.candidate(SlotIndex(slot)).map(ask))
    }
}

#[pymethods]
impl PyCandidates {
    /// Whether the slot has an extent that may leave now.
    fn may_leave(&self, slot: u32) -> PyResult<bool> {
        self.of(slot, |_| ()).map(|found| found.is_some())
    }

    /// When the extent in the slot was last accessed, in nanoseconds; None if it may not leave.
    fn last_access_ns(&self, slot: u32) -> PyResult<Option<u64>> {
        self.of(slot, |candidate| candidate.last_access.0)
    }

    /// The use bit of the extent in the slot, which every access sets; None if it may not leave.
    fn referenced(&self, slot: u32) -> PyResult<Option<bool>> {
        self.of(slot, |candidate| *candidate.referenced)
    }

    /// Clears the use bit of the extent in the slot.
    fn clear_referenced(&self, slot: u32) -> PyResult<()> {
        self.of(slot, |candidate| *candidate.referenced = false).map(drop)
    }

    /// Whether a request waits for the choice, so that the search must be bounded.
    #[getter]
    fn is_awaited(&self) -> PyResult<bool> {
        self.with(|candidates| candidates.is_awaited())
    }

    /// The time of the choice, in nanoseconds.
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.with(|candidates| candidates.now().0)
    }

    /// The working-set window, in nanoseconds.
    #[getter]
    fn window_ns(&self) -> PyResult<u64> {
        self.with(|candidates| candidates.window().0)
    }
}
