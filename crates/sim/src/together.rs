//! Several designs on one reading of a trace.
//!
//! Each design is simulated on a thread of its own. A batch of the trace is read once and kept until every simulation has
//! taken it; those that are ahead wait for the others. As many simulations work at a time as the pool has threads.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use peryton_engine::Placement;
use peryton_trace::{Account, BATCH, Request, Source, TraceError};
use peryton_units::Bytes;

use crate::{Design, Options, Report, SimError, run_one};

/// The most batches that are kept for simulations that are behind: ten megabytes.
const MOST_BATCHES: usize = 64;
/// The most designs on one reading of the trace. Each has a thread and a drive in memory.
const MOST_DESIGNS: usize = 64;
/// The most memory of the drives on one reading, by [`memory`]; one for each thread of the pool is always possible.
const MOST_MEMORY: Bytes = Bytes::gib(4);
/// What an extent takes in the map and the indexes beside it, and a block of flash in the translation layer.
const EXTENT_MEMORY: u64 = 64;
const FLASH_BLOCK: u64 = 4096;
const FLASH_BLOCK_MEMORY: u64 = 12;

/// How many of the designs fit on one reading.
pub(crate) fn fitting(designs: &[Design], jobs: usize) -> usize {
    let (mut memory, mut count) = (Bytes::ZERO, 0);
    for design in designs.iter().take(MOST_DESIGNS.max(jobs)) {
        memory = Bytes(memory.0.saturating_add(self::memory(design).0));
        if memory > MOST_MEMORY && count >= jobs {
            break;
        }
        count += 1;
    }
    count
}

/// About how much memory the drive of a design takes.
fn memory(design: &Design) -> Bytes {
    let extents = match &design.placement {
        Placement::Logging(pair) => design.volume.0 / pair.block.0.max(1),
        _ => design.extent().map_or(0, |extent| design.volume.0 / extent.0.max(1)),
    };
    let flash = |device: &crate::DeviceDesign| match device.profile.model {
        peryton_device::Model::Flash(_) => device.used.0 / FLASH_BLOCK * u64::from(device.regions * device.copies),
        _ => 0,
    };
    let blocks: u64 = design.devices.iter().map(flash).sum();
    let inside = design.devices.iter().filter_map(|device| device.drive.as_deref()).map(memory);
    let mine = Bytes(extents * u64::from(design.volumes) * EXTENT_MEMORY + blocks * FLASH_BLOCK_MEMORY);
    inside.fold(mine, |sum, drive| sum + drive)
}

/// Simulates the designs on one reading; `progress` gets the index of a design and its requests so far.
pub(crate) fn one_reading(
    designs: &[Design],
    trace_name: &str,
    source: Box<dyn Source>,
    options: &Options,
    jobs: usize,
    progress: &(dyn Fn(usize, u64) + Sync),
) -> Result<Vec<Report>, SimError> {
    let shared = Arc::new(Shared::new(source, designs.len(), jobs));
    let one = |(index, design): (usize, &Design)| {
        let reader = Reader { shared: Arc::clone(&shared), number: index };
        let _turn = shared.turn(index);
        run_one(design, trace_name, Box::new(reader), options, &|requests| progress(index, requests))
    };
    let ended: Vec<thread::Result<Result<Report, SimError>>> = thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = designs.iter().enumerate().map(|design| scope.spawn(move || one(design))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    // A panic, and an error of the trace, end all simulations: the one that met it knows more than the others.
    let mut results = Vec::with_capacity(ended.len());
    for one in ended {
        results.push(one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    }
    if let Some(first) = shared.locked().failed
        && results[first].is_err()
    {
        results.swap(0, first);
    }
    results.into_iter().collect()
}

/// A trace that several simulations read at about the same time.
struct Shared {
    jobs: usize,
    state: Mutex<State>,
    /// Something has changed that a reader or a simulation may be waiting for.
    changed: Condvar,
}

struct State {
    /// The trace, unless a reader has it to read on.
    source: Option<Box<dyn Source>>,
    /// Batches that a reader has still to take; `first` is the number of the first one.
    batches: VecDeque<Arc<Vec<Request>>>,
    first: u64,
    /// The next batch of each reader; `None` if it reads no further.
    next: Vec<Option<u64>>,
    /// Whether the trace was read to its end.
    ended: bool,
    /// The reader that could not read on.
    failed: Option<usize>,
    /// Number of simulations at work.
    working: usize,
}

impl State {
    fn batch(&self, number: usize) -> Option<&Arc<Vec<Request>>> {
        let ahead = self.next[number]? - self.first;
        self.batches.get(usize::try_from(ahead).ok()?)
    }

    /// Whether a reader has something to do.
    fn can_go_on(&self, number: usize) -> bool {
        let reads = self.source.is_some() && self.batches.len() < MOST_BATCHES;
        self.failed.is_some() || self.ended || reads || self.batch(number).is_some()
    }

    /// Forgets the batches that every reader has taken; returns whether there were any.
    fn forget(&mut self) -> bool {
        let before = self.first;
        let needed = self.next.iter().flatten().min().copied();
        while !self.batches.is_empty() && needed.is_none_or(|needed| needed > self.first) {
            self.batches.pop_front();
            self.first += 1;
        }
        self.first > before
    }
}

impl Shared {
    fn new(source: Box<dyn Source>, readers: usize, jobs: usize) -> Shared {
        let state = State {
            source: Some(source),
            batches: VecDeque::with_capacity(MOST_BATCHES),
            first: 0,
            next: vec![Some(0); readers],
            ended: false,
            failed: None,
            working: 0,
        };
        Shared { jobs, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer simulations than jobs are at work and `ready` holds; then there is one more.
    fn begin<'a>(&self, mut state: MutexGuard<'a, State>, ready: impl Fn(&State) -> bool) -> MutexGuard<'a, State> {
        while state.working >= self.jobs || !ready(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.working += 1;
        state
    }

    /// The right of a simulation to work, until it is dropped.
    fn turn(&self, number: usize) -> Turn<'_> {
        drop(self.begin(self.locked(), |_| true));
        Turn { shared: self, number }
    }

    /// No reader may read on.
    fn fail(&self, number: usize) {
        self.locked().failed.get_or_insert(number);
        self.changed.notify_all();
    }
}

/// A simulation at work. If it panics, no other needs to go on.
struct Turn<'a> {
    shared: &'a Shared,
    number: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.fail(self.number);
        }
        self.shared.locked().working -= 1;
        self.shared.changed.notify_all();
    }
}

/// One of the readers. A reader that is dropped keeps no batch any longer.
struct Reader {
    shared: Arc<Shared>,
    number: usize,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.shared.locked();
        state.next[self.number] = None;
        state.forget();
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Source for Reader {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let mut state = self.shared.locked();
        loop {
            if state.failed.is_some() {
                let source = io::Error::other("another simulation could not read on");
                return Err(TraceError::Io { path: "trace".to_owned(), source });
            }
            if let Some(found) = state.batch(self.number) {
                let found = Arc::clone(found);
                state.next[self.number] = state.next[self.number].map(|next| next + 1);
                let is_room = state.forget();
                drop(state);
                if is_room {
                    self.shared.changed.notify_all();
                }
                batch.extend_from_slice(&found);
                return Ok(());
            }
            if state.ended {
                return Ok(());
            }
            if state.batches.len() < MOST_BATCHES
                && let Some(source) = state.source.take()
            {
                drop(state);
                state = self.read_on(source)?;
                continue;
            }
            // Another simulation may work while this one waits.
            state.working -= 1;
            self.shared.changed.notify_all();
            state = self.shared.begin(state, |state| state.can_go_on(self.number));
        }
    }

    /// That of the trace, unless another simulation is reading on.
    fn account(&self) -> Account {
        self.shared.locked().source.as_ref().map_or_else(Account::default, |source| source.account())
    }
}

impl Reader {
    /// Reads the next batch for all readers.
    fn read_on(&self, mut source: Box<dyn Source>) -> Result<MutexGuard<'_, State>, TraceError> {
        /// If reading panics, the trace is gone.
        struct Unread<'a>(&'a Reader);
        impl Drop for Unread<'_> {
            fn drop(&mut self) {
                self.0.shared.fail(self.0.number);
            }
        }
        let mut found = Vec::with_capacity(BATCH);
        let unread = Unread(self);
        source.next_batch(&mut found)?;
        std::mem::forget(unread);
        let mut state = self.shared.locked();
        state.source = Some(source);
        match found.is_empty() {
            true => state.ended = true,
            false => state.batches.push_back(Arc::new(found)),
        }
        self.shared.changed.notify_all();
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use peryton_trace::{SynthSource, SynthSpec};

    use super::*;
    use crate::{DesignText, run};

    const SPEC: &str = "requests = 60000\nfootprint = '16MiB'\nread_share = 0.5\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";

    fn designs(count: u64) -> Vec<Design> {
        let text = "[volume]\nsize = '64MiB'\n[devices]\nssd = { profile = 'intel-x25-e-32gb', size = '8MiB' }\n\
                    hdd = { profile = 'seagate-st32000641as' }\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n\
                    extent = '64KiB'\npromotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n";
        let text = DesignText::new(text, "caching");
        (0..count).map(|n| text.design(&[format!("devices.ssd.size={}", (4 + n) << 20)]).unwrap()).collect()
    }

    fn in_a_pool<T: Send>(jobs: usize, work: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(jobs).build().unwrap().install(work)
    }

    /// A trace that breaks off.
    struct Broken<'a>(Box<dyn Source>, &'a AtomicUsize);

    /// The fear: a shared batch is changed by one simulation, skipped or read twice by another.
    #[test]
    fn reports_are_those_of_simulations_on_their_own_and_the_trace_is_opened_once() {
        let spec = SynthSpec::parse(SPEC, "spec").unwrap();
        let opened = AtomicUsize::new(0);
        let trace = || -> Result<Box<dyn Source>, TraceError> {
            opened.fetch_add(1, Relaxed);
            Ok(Box::new(SynthSource::new(&spec, "spec").unwrap()))
        };
        let options = Options { fit: crate::Fit::Strict, limit: Some(50_000), ..Options::default() };
        let designs = designs(7);
        let one = |design| run_one(design, "t", trace().unwrap(), &options, &|_| {}).unwrap();
        let alone: Vec<Report> = designs.iter().map(one).collect();
        assert_eq!(opened.swap(0, Relaxed), 7);
        for jobs in [1, 3, 16] {
            let together = in_a_pool(jobs, || run(&designs, "t", &trace, &options, &|_| {}).unwrap());
            assert!(together == alone, "{jobs} jobs");
            assert_eq!(opened.swap(0, Relaxed), 1);
        }
    }

    /// The fear: what the thread that reads the trace notes is not what the simulation would have.
    #[test]
    fn a_design_alone_is_simulated_the_same_on_one_thread_and_on_two() {
        let spec = SynthSpec::parse(SPEC, "spec").unwrap();
        let trace =
            || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(SynthSource::new(&spec, "spec").unwrap())) };
        let ways = [
            Options::default(),
            Options { limit: Some(1), ..Options::default() },
            Options { limit: Some(50_000), ..Options::default() },
            Options { warm_up_requests: 20_000, interval: Some(peryton_units::Nanos::from_s(1)), ..Options::default() },
        ];
        for options in ways {
            let run = |jobs| in_a_pool(jobs, || run(&designs(1), "t", &trace, &options, &|_| {}).unwrap().remove(0));
            let (one, two) = (run(1), run(2));
            assert!(one == two && one.first_touch_ratio.is_some(), "{:?}", options.limit);
        }
    }

    impl Source for Broken<'_> {
        fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
            if self.1.fetch_add(1, Relaxed) == 5 {
                batch.clear();
                return Err(TraceError::Io { path: "the disk".to_owned(), source: io::Error::other("is gone") });
            }
            self.0.next_batch(batch)
        }
    }

    #[test]
    fn an_error_of_the_trace_is_told_once_and_ends_all() {
        let spec = SynthSpec::parse(SPEC, "spec").unwrap();
        static READ: AtomicUsize = AtomicUsize::new(0);
        let trace = || -> Result<Box<dyn Source>, TraceError> {
            Ok(Box::new(Broken(Box::new(SynthSource::new(&spec, "spec").unwrap()), &READ)))
        };
        for jobs in [1, 4] {
            READ.store(0, Relaxed);
            let found = in_a_pool(jobs, || run(&designs(4), "t", &trace, &Options::default(), &|_| {}));
            assert_eq!(found.unwrap_err().to_string(), "the disk: is gone");
        }
    }

    #[test]
    fn a_panic_of_one_simulation_ends_all_and_is_handed_on() {
        let spec = SynthSpec::parse(SPEC, "spec").unwrap();
        let trace =
            || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(SynthSource::new(&spec, "spec").unwrap())) };
        let progress = |requests: u64| {
            if requests > 100_000 {
                std::panic::resume_unwind(Box::new("stopped"));
            }
        };
        let run = || run(&designs(4), "t", &trace, &Options::default(), &progress);
        let found = in_a_pool(2, || catch_unwind(AssertUnwindSafe(run)).unwrap_err());
        assert_eq!(found.downcast_ref::<&str>(), Some(&"stopped"));
    }

    #[test]
    fn designs_of_much_memory_share_a_reading_only_with_those_that_run_at_the_same_time() {
        let mut designs = designs(10);
        assert_eq!(fitting(&designs, 2), 10);
        designs.iter_mut().for_each(|design| design.volume = Bytes::gib(64 << 10));
        assert_eq!((fitting(&designs, 2), fitting(&designs, 3), fitting(&designs[9..], 3)), (2, 3, 1));
    }
}
