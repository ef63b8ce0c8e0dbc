//! The simulation of all points of a space.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use peryton_device::flash::Images;
use peryton_trace::Source;

use super::{data_set::DataSet, error::SpaceError, point::Row, read::Space};

/// What a sweep has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepDone {
    /// Number of points of the space.
    pub points: usize,
    /// Points that were in the folder already, or are equal to others: a key that a design does not have makes no difference.
    pub known: usize,
    /// Points that were simulated.
    pub simulated: usize,
    /// Rows with an error, of points that were simulated now or known before.
    pub errors: usize,
}

/// A function for reports of progress.
pub type SweepProgress<'a> = dyn Fn(SweepDone) + Sync + 'a;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads share.
struct Shared<'a> {
    space: &'a Space,
    /// With `again`, points that ended with an error are simulated again.
    again: bool,
    set: Mutex<&'a mut DataSet>,
    /// Rows that wait to be written; no more than there are threads.
    waiting: Mutex<Vec<Row>>,
    /// Points under way or done, and their places.
    order: Mutex<HashMap<String, usize>>,
    done: Mutex<SweepDone>,
    next: AtomicUsize,
    failed: Mutex<Option<SpaceError>>,
    stopped: AtomicBool,
}

/// Simulates every point of a space that the data set does not have, on the threads of the current pool, and adds a row for
/// each. At the end all rows are in the order of the space. With `again`, points that ended with an error are simulated again.
/// `wrapped` is given the requests of each simulation before they are simulated.
///
/// # Errors
/// Rows cannot be written. A point that cannot be simulated is a row with an error.
pub fn sweep_into(
    set: &mut DataSet,
    space: &Space,
    again: bool,
    wrapped: &(dyn Fn(Box<dyn Source>) -> Box<dyn Source> + Sync),
    progress: &SweepProgress<'_>,
) -> Result<SweepDone, SpaceError> {
    let images = Images::shared();
    let begun = SweepDone { points: space.len(), ..SweepDone::default() };
    progress(begun);
    let shared = Shared {
        space,
        again,
        set: Mutex::new(set),
        waiting: Mutex::default(),
        order: Mutex::default(),
        done: Mutex::new(begun),
        next: AtomicUsize::new(0),
        failed: Mutex::default(),
        stopped: AtomicBool::new(false),
    };
    rayon::broadcast(|_| {
        while let Some(index) = shared.next() {
            if let Err(error) = shared.one(index, &images, wrapped, progress) {
                shared.stopped.store(true, Relaxed);
                locked(&shared.failed).get_or_insert(error);
            }
        }
    });
    if let Some(error) = locked(&shared.failed).take() {
        return Err(error);
    }
    let order = std::mem::take(&mut *locked(&shared.order));
    locked(&shared.set).finish(&order)?;
    let done = *locked(&shared.done);
    Ok(done)
}

/// A panic of one thread ends all.
struct Unfinished<'a>(&'a AtomicBool);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Shared<'_> {
    fn next(&self) -> Option<usize> {
        let index = self.next.fetch_add(1, Relaxed);
        (index < self.space.len() && !self.stopped.load(Relaxed)).then_some(index)
    }

    fn one(
        &self,
        index: usize,
        images: &Arc<Images>,
        wrapped: &(dyn Fn(Box<dyn Source>) -> Box<dyn Source> + Sync),
        progress: &SweepProgress<'_>,
    ) -> Result<(), SpaceError> {
        let unfinished = Unfinished(&self.stopped);
        let point = self.space.point(index);
        let prepared = point.prepared(Some(images));
        // The row that is kept: whether it is without an error.
        let (is_known, kept) = {
            let mut order = locked(&self.order);
            // Of points that are equal, the first has the row, whichever was simulated.
            let place = order.entry(prepared.hash.clone()).or_insert(usize::MAX);
            let is_under_way = *place != usize::MAX;
            *place = index.min(*place);
            let kept = locked(&self.set).known(&prepared.hash).filter(|is_ok| *is_ok || !self.again);
            (is_under_way || kept.is_some(), kept.filter(|_| !is_under_way))
        };
        let mut errors = usize::from(kept == Some(false));
        if !is_known {
            let row = prepared.row(&|source| wrapped(source));
            errors = usize::from(row.get("status").is_none_or(|status| status != "ok"));
            locked(&self.waiting).push(row);
            // Rows that other threads finish while one writes are written together by the next.
            let mut set = locked(&self.set);
            let rows = std::mem::take(&mut *locked(&self.waiting));
            set.add(rows)?;
        }
        let mut done = locked(&self.done);
        done.known += usize::from(is_known);
        done.simulated += usize::from(!is_known);
        done.errors += errors;
        progress(*done);
        std::mem::forget(unfinished);
        Ok(())
    }
}

impl Space {
    /// The keys that no design has, if the first point of each is simulated: they make no difference.
    pub(super) fn ignored(&self) -> Vec<String> {
        let firsts: Vec<_> = (0..self.designs()).map(|design| self.point(self.first_of(design))).collect();
        let mut ignored: Option<HashSet<String>> = None;
        for point in &firsts {
            let prepared = point.prepared(None);
            if prepared.refused().is_some() {
                return Vec::new();
            }
            let mine: HashSet<String> = prepared.ignored().map(str::to_owned).collect();
            ignored = Some(ignored.map_or(mine.clone(), |known| known.intersection(&mine).cloned().collect()));
        }
        let mut ignored: Vec<String> = ignored.unwrap_or_default().into_iter().collect();
        ignored.sort();
        ignored
    }
}
