//! A thread that serves some of the clients: it reads their sockets, parses, encrypts and sends, and hands what they want of the volume to
//! the volume's thread through a ring. The answers come through another one.
//!
//! Both rings are bounded, and the volume's thread never finds the second one full: no more asks are under way than
//! fit. When that many are, the thread takes no more requests from its clients until answers have come.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use peryton_units::{Bytes, Nanos};
use rtrb::{Consumer, Producer};

use super::{
    client::Client,
    front::{Answer, Answered, Ask, Front},
    sleep::Sleep,
};
use crate::{
    heat::Heat,
    kernel::{Event, Wait},
    status::Latencies,
};

/// How long to wait for room in the ring to the volume, if no answer comes before.
const FULL_RING_PAUSE: Duration = Duration::from_millis(1);

/// What the volume's thread asks of one that serves clients.
#[derive(Debug)]
pub(super) enum Order {
    /// Serve this client.
    Client(u32, Box<Client>),
    /// Take no more requests; cut clients off then.
    Stop { until: Nanos },
    /// End, when there are no clients left.
    End,
}

/// What a thread reports to the volume's besides what it asks for.
#[derive(Debug)]
pub(super) enum Report {
    /// A client has gone.
    ClientEnded(u32),
    /// The thread cannot go on.
    Failed(io::Error),
    /// The thread has panicked.
    Panicked,
}

/// How a thread reports that.
pub(super) type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

/// What a thread has counted; it writes this once in a turn, and others read it.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) latencies: Latencies,
    pub(super) heat: Heat,
    pub(super) pool: usize,
    pub(super) pool_free: usize,
    pub(super) waiting: usize,
    pub(super) in_flight: usize,
    pub(super) held_back: u64,
}

/// The figures of a thread, shared with the volume's thread.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Figures>>);

impl Shared {
    pub(super) fn new(volume: Bytes, pool: usize) -> Shared {
        Shared(Arc::new(Mutex::new(Figures {
            latencies: Latencies::default(),
            heat: Heat::new(volume),
            pool,
            pool_free: pool,
            waiting: 0,
            in_flight: 0,
            held_back: 0,
        })))
    }

    /// Neither side holds the lock for longer than it takes to count or to copy.
    pub(super) fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side of its connection with the volume's thread.
pub(super) struct FrontThread {
    pub(super) front: Front,
    pub(super) asks: Producer<Ask>,
    pub(super) answers: Consumer<Answer>,
    pub(super) orders: mpsc::Receiver<Order>,
    /// Wakes the volume's thread.
    pub(super) volume: Sleep,
    pub(super) own: Sleep,
    pub(super) figures: Shared,
    pub(super) started: Instant,
    pub(super) reporter: Reporter,
    /// Whether requests are recorded, for which the volume's thread has to know of each.
    pub(super) records: bool,
    pub(super) unanswered: usize,
    pub(super) ends: bool,
}

impl FrontThread {
    pub(super) fn spawn(
        number: usize,
        reporter: Reporter,
        make: impl FnOnce() -> io::Result<FrontThread> + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new().name(format!("front-{number}")).spawn(move || {
            let unwinding = Unwinding(Arc::clone(&reporter));
            if let Err(error) = make().and_then(FrontThread::run) {
                reporter(Report::Failed(error));
            }
            std::mem::forget(unwinding);
        })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events = Vec::new();
        loop {
            let answers = &self.answers;
            let wait = self.own.before(self.wait(), || !answers.is_empty());
            self.front.kernel.turn(wait, &mut events)?;
            self.own.after();
            let now = Nanos(self.started.elapsed().as_nanos() as u64);
            self.front.set_now(now);
            for event in events.drain(..) {
                match event {
                    Event::Woken => self.take_orders(),
                    event => self.front.socket_event(event),
                }
            }
            while let Ok(answer) = self.answers.pop() {
                self.unanswered -= 1;
                self.front.told(answer);
            }
            if self.has_room() {
                self.front.go_on_later();
            }
            self.front.look();
            self.front.drain();
            while self.front.serve_waiters() {}
            self.hand_on();
            self.front.send();
            self.count();
            for index in self.front.ended.drain(..) {
                (self.reporter)(Report::ClientEnded(index));
            }
            if self.ends && self.front.is_deserted() {
                return Ok(());
            }
        }
    }

    fn has_room(&self) -> bool {
        self.front.asks.len() < self.front.most_asks
    }

    fn wait(&self) -> Wait {
        if !self.front.later.is_empty() && self.has_room() {
            return Wait::No;
        }
        let look = self.front.next_look().map(|due| Duration::from_nanos(due.saturating_sub(self.front.now).0));
        let room = (!self.front.asks.is_empty()).then_some(FULL_RING_PAUSE);
        look.into_iter().chain(room).min().map_or(Wait::Forever, Wait::For)
    }

    fn take_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Client(index, client) => self.front.welcome_from_elsewhere(index, *client),
                Order::Stop { until } => self.front.begin_to_stop(until),
                Order::End => self.ends = true,
            }
        }
    }

    /// Puts as many asks into the ring as fit, in order.
    fn hand_on(&mut self) {
        if self.front.asks.is_empty() {
            return;
        }
        let most = self.asks.buffer().capacity();
        let (mut room, mut count) = (self.asks.slots(), 0);
        for ask in &self.front.asks {
            let answered = usize::from(ask.is_answered());
            if room == 0 || self.unanswered + answered > most {
                break;
            }
            self.unanswered += answered;
            room -= 1;
            count += 1;
        }
        for ask in self.front.asks.drain(..count) {
            self.asks.push(ask).expect("there was room");
        }
        if count > 0 {
            self.volume.wake();
        }
    }

    fn count(&mut self) {
        let front = &mut self.front;
        let mut figures = self.figures.lock();
        for Answered { asked, took, offset, len, flags } in front.answered.iter().copied() {
            figures.latencies.record(asked, took, len, !flags.has(peryton_recording::Flags::FAILED));
            figures.heat.record(asked, offset);
        }
        figures.pool_free = front.pool.free_bytes();
        figures.waiting = front.buffer_waiters.len();
        figures.in_flight = front.requests.pending.used();
        figures.held_back = front.limits.held_back;
        drop(figures);
        if self.records {
            let now = front.now;
            front.asks.extend(front.answered.drain(..).map(|answered| Ask::Record { at: now, answered }));
        }
        front.answered.clear();
    }
}

/// Lets the volume's thread panic, too, if this one does: its clients would wait for ever.
struct Unwinding(Reporter);

impl Drop for Unwinding {
    fn drop(&mut self) {
        (self.0)(Report::Panicked);
    }
}
