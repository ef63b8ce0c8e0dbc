//! The threads that serve clients, as the volume's thread sees them: rings, the clients that each has, and their figures.

use std::{
    borrow::Cow,
    io,
    sync::{Arc, mpsc},
    thread,
};

use peryton_engine::RequestId;
use peryton_recording::Row;
use peryton_units::Nanos;
use rtrb::{Consumer, Producer, RingBuffer};

use super::{
    Server,
    front::{Answer, Ask, Front, FrontParts},
    front_thread::{FrontThread, Order, Report, Reporter, Shared},
    host,
    queue_threads::QueueThreads,
    sleep::Sleep,
};
use crate::{
    arena::Arena,
    heat::Heat,
    kernel::{Kernel, Wait, Waker},
    pool::Pool,
    status::Latencies,
};

/// The most threads that serve clients.
pub(crate) const MOST_FRONTS: usize = 16;
/// The length of the rings, and so the most asks of a thread that are under way.
pub(crate) const RING: usize = 1024;
/// The size of a thread's queue of socket calls.
const DEPTH: u32 = 256;

/// How many threads are to serve clients, and the length of their rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threading {
    pub(crate) threads: usize,
    pub(crate) ring: usize,
}

/// A thread that serves clients.
#[derive(Debug)]
struct Remote {
    asks: Consumer<Ask>,
    answers: Producer<Answer>,
    orders: mpsc::Sender<Order>,
    sleep: Sleep,
    waker: Waker,
    figures: Shared,
    /// Its pool's memory, which devices may use for as long as the kernel has commands.
    arena: Arc<Arena>,
    /// Whether answers have been put into its ring since it was woken.
    answered: bool,
    clients: usize,
    thread: Option<thread::JoinHandle<()>>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Fronts {
    remotes: Vec<Remote>,
    /// The volume's thread.
    own: Sleep,
    /// So many bits of a request's number say whose it is: 0 is the front end of the volume's own thread.
    bits: u32,
    /// Which thread's ring is looked into first, in turn.
    first: usize,
}

impl Fronts {
    pub(super) fn new(own: Waker, threads: usize) -> Fronts {
        let bits = (threads + 1).next_power_of_two().ilog2();
        Fronts { remotes: Vec::new(), own: Sleep::new(own), bits, first: 0 }
    }

    /// The volume's thread, for others that wake it.
    pub(super) fn own(&self) -> &Sleep {
        &self.own
    }

    pub(super) fn is_empty(&self) -> bool {
        self.remotes.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.remotes.len()
    }

    /// The memory of their pools.
    pub(super) fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.remotes.iter().map(|remote| &*remote.arena)
    }

    fn have_asks(&self) -> bool {
        self.remotes.iter().any(|remote| !remote.asks.is_empty())
    }

    /// How long the volume's thread may wait; from now on it is woken by a thread that asks for something.
    #[inline]
    pub(super) fn before(&self, wait: Wait, queues: &QueueThreads) -> Wait {
        if self.remotes.is_empty() && queues.is_empty() {
            return wait;
        }
        self.own.before(wait, || self.have_asks() || queues.have_events())
    }

    /// The volume's thread has waited; returns whether a thread asks for something.
    #[inline]
    pub(super) fn after(&self) -> bool {
        self.own.after();
        self.have_asks()
    }

    /// Wakes the threads that have answers.
    #[inline]
    pub(super) fn wake(&mut self) {
        for remote in &mut self.remotes {
            if std::mem::take(&mut remote.answered) {
                remote.sleep.wake();
            }
        }
    }

    fn order(&self, index: usize, order: Order) {
        let remote = &self.remotes[index];
        // A failure means that the thread has panicked, which ends the server.
        let _ = remote.orders.send(order);
        remote.waker.wake();
    }

    pub(super) fn begin_to_stop(&self, until: Nanos) {
        (0..self.remotes.len()).for_each(|index| self.order(index, Order::Stop { until }));
    }

    /// Ends all threads, whose clients have gone.
    pub(super) fn end(&mut self) {
        (0..self.remotes.len()).for_each(|index| self.order(index, Order::End));
        for remote in &mut self.remotes {
            // A thread that panicked has already reported it.
            let _ = remote.thread.take().map(thread::JoinHandle::join);
        }
    }

    pub(super) fn requests_in_flight(&self) -> usize {
        self.remotes.iter().map(|remote| remote.figures.lock().in_flight).sum()
    }

    pub(super) fn clients_waiting(&self) -> usize {
        self.remotes.iter().map(|remote| remote.figures.lock().waiting).sum()
    }

    pub(super) fn lines_held_back(&self) -> u64 {
        self.remotes.iter().map(|remote| remote.figures.lock().held_back).sum()
    }

    /// The bytes of their pools, and how many of them are free.
    pub(super) fn pool(&self) -> (usize, usize) {
        self.remotes.iter().fold((0, 0), |(all, free), remote| {
            let figures = remote.figures.lock();
            (all + figures.pool, free + figures.pool_free)
        })
    }
}

impl Server {
    /// Starts the threads that serve clients; `pools` has one for each.
    pub(super) fn start_fronts(&mut self, pools: Vec<Pool>, ring: usize) -> io::Result<()> {
        for (index, pool) in pools.into_iter().enumerate() {
            let waker = Waker::new()?;
            let ((to, asks), (answers, from)) = (RingBuffer::new(ring), RingBuffer::new(ring));
            let (orders, receiver) = mpsc::channel();
            let figures = Shared::new(self.volume.engine().volume_size(), pool.arena().len());
            let arena = pool.shared_arena();
            let sleep = Sleep::new(waker.clone());
            let (own, volume, shared) = (sleep.clone(), self.fronts.own.clone(), figures.clone());
            let (export, events) = (Arc::clone(&self.front.export), self.about.events.clone());
            let (unit, longest_zeros) = (self.volume.engine().move_buffer_bytes(), self.volume.longest_zeros());
            let (asking, handle, started) = (Arc::clone(&self.front.asking), self.handle.clone(), self.started);
            let reporter: Reporter = Arc::new(move |report| {
                handle.send(Box::new(move |server: &mut Server| server.front_reports(index, report)));
            });
            let threads_reporter = Arc::clone(&reporter);
            let (records, thread_waker) = (self.recorder.is_some(), waker.clone());
            let make = move || {
                // On the thread itself, because the kernel accepts submissions to a ring from one thread only.
                let kernel = Kernel::new(Vec::new(), thread_waker, DEPTH, true)?;
                let place = index + 2;
                let parts = FrontParts { kernel, pool, export, unit, longest_zeros, events, asking, place };
                let mut front = Front::new(parts);
                front.most_asks = ring;
                Ok(FrontThread {
                    front,
                    asks: to,
                    answers: from,
                    orders: receiver,
                    volume,
                    own,
                    figures: shared,
                    started,
                    reporter: threads_reporter,
                    records,
                    unanswered: 0,
                    ends: false,
                })
            };
            let thread = Some(FrontThread::spawn(index, reporter, make)?);
            let (answered, clients) = (false, 0);
            self.fronts.remotes.push(Remote {
                asks,
                answers,
                orders,
                sleep,
                waker,
                figures,
                arena,
                answered,
                clients,
                thread,
            });
        }
        self.front.moves_on = !self.fronts.is_empty();
        Ok(())
    }

    /// Carries out what the front ends ask for.
    #[inline]
    pub(super) fn take_asks(&mut self) {
        if !self.front.asks.is_empty() {
            let mut asks = std::mem::take(&mut self.front.asks);
            for ask in asks.drain(..) {
                self.carry(0, ask);
            }
            if self.front.asks.is_empty() {
                self.front.asks = asks;
            }
        }
        let count = self.fronts.remotes.len();
        for step in 0..count {
            let index = (self.fronts.first + step) % count;
            // What comes meanwhile waits for its turn.
            for _ in 0..self.fronts.remotes[index].asks.slots() {
                let ask = self.fronts.remotes[index].asks.pop().expect("it was counted");
                self.carry(index + 1, ask);
            }
        }
        if count > 0 {
            self.fronts.first = (self.fronts.first + 1) % count;
        }
    }

    #[inline]
    fn carry(&mut self, place: usize, ask: Ask) {
        match ask {
            Ask::Submit { piece, asked, data } => {
                let number = u64::from(piece) << self.fronts.bits | place as u64;
                self.volume.submit(self.now, RequestId(u64::from(self.first_piece) + number), asked, data);
            }
            Ask::Status { request, from, to, one } => {
                let runs = host::runs(self.volume.engine(), from, to, one);
                self.tell(place, Answer::Status { request, runs });
            }
            Ask::Evict { from, to } => self.volume.evict(self.now, from..to),
            Ask::Record { at, answered } => {
                let Some(recorder) = &mut self.recorder else { return };
                let at = at.saturating_sub(answered.took);
                if let Some((op, offset, len)) = host::row_of(answered.asked, answered.offset, answered.len) {
                    let row = Row { at, op, flags: answered.flags, offset, len, latency: answered.took };
                    recorder.request(self.now, &row);
                }
            }
        }
    }

    #[inline]
    fn tell(&mut self, place: usize, answer: Answer) {
        if place == 0 {
            return self.front.told(answer);
        }
        let remote = &mut self.fronts.remotes[place - 1];
        remote.answers.push(answer).expect("no more asks are under way than the ring has room for");
        remote.answered = true;
    }

    /// Handles the volume's answer to a piece of a client's request.
    #[inline]
    pub(super) fn client_replied(&mut self, number: u32, result: Result<(), peryton_engine::RequestError>) {
        let (piece, place) = (number >> self.fronts.bits, number & ((1 << self.fronts.bits) - 1));
        self.awake.answered();
        self.tell(place as usize, Answer::Replied { piece, result });
    }

    /// Lets threads serve the clients whose handshake is over.
    pub(super) fn send_clients_on(&mut self) {
        while let Some((index, client)) = self.front.leaving.pop() {
            let fewest = self.fronts.remotes.iter().enumerate().min_by_key(|(_, remote)| remote.clients);
            let (to, _) = fewest.expect("clients leave where there are threads");
            self.fronts.remotes[to].clients += 1;
            self.fronts.order(to, Order::Client(index, Box::new(client)));
        }
    }

    /// Handles what the thread `number` reports.
    fn front_reports(&mut self, number: usize, report: Report) {
        match report {
            Report::ClientEnded(index) => {
                self.fronts.remotes[number].clients -= 1;
                self.front.away[index as usize] = false;
            }
            Report::Failed(error) => self.thread_failed(error),
            Report::Panicked => panic!("a thread that serves clients has panicked"),
        }
    }

    /// A thread that serves clients, or has queues of the block device, cannot go on.
    pub(super) fn thread_failed(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    /// What has been answered so far, by all threads.
    pub(crate) fn counted(&self) -> Cow<'_, Latencies> {
        if self.fronts.is_empty() {
            return Cow::Borrowed(&self.latencies);
        }
        let mut all = self.latencies.clone();
        self.fronts.remotes.iter().for_each(|remote| all.add(&remote.figures.lock().latencies));
        Cow::Owned(all)
    }

    /// Which parts of the volume all threads have used.
    pub(super) fn used_parts(&self) -> Heat {
        let mut all = self.heat.clone();
        self.fronts.remotes.iter().for_each(|remote| all.add(&remote.figures.lock().heat));
        all
    }

    /// The bytes of the pool, and how many of them are free.
    pub(super) fn pool(&self) -> (usize, usize) {
        if self.fronts.is_empty() {
            return (self.front.pool.arena().len(), self.front.pool.free_bytes());
        }
        self.fronts.pool()
    }
}
