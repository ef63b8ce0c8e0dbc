//! Waking a thread that takes messages out of rings, only if it sleeps.
//!
//! The one side puts a message into a ring and then looks whether the other sleeps; the other says that it will sleep and then
//! looks into its rings. Between the two steps each has a fence, so at least one of them sees what the other did, and no message
//! is left in a ring while its taker sleeps.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering, fence},
};

use crate::kernel::{Wait, Waker};

/// Whether a thread sleeps, and how to wake it.
#[derive(Clone, Debug)]
pub(super) struct Sleep {
    asleep: Arc<AtomicBool>,
    waker: Waker,
}

impl Sleep {
    pub(super) fn new(waker: Waker) -> Sleep {
        Sleep { asleep: Arc::new(AtomicBool::new(false)), waker }
    }

    /// Called by the thread before it waits, with a look into all of its rings; returns how long it may wait.
    #[inline]
    pub(super) fn before(&self, wait: Wait, has_messages: impl FnOnce() -> bool) -> Wait {
        if wait == Wait::No {
            return Wait::No;
        }
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if has_messages() {
            self.asleep.store(false, Ordering::Relaxed);
            return Wait::No;
        }
        wait
    }

    /// Called by the thread when it has waited.
    #[inline]
    pub(super) fn after(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Called by another thread after it has put messages into a ring.
    #[inline]
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;
    use crate::kernel::Kernel;

    /// A lost wake-up would leave one side asleep until its wait is over, and the test would fail by the time that it takes.
    #[test]
    fn no_message_is_left_in_a_ring_while_its_taker_sleeps() {
        const MESSAGES: u64 = 20_000;
        let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
        let sleeps = wakers.clone().map(Sleep::new);
        let ((mut to, mut taken), (mut back, mut given)) = (rtrb::RingBuffer::new(4), rtrb::RingBuffer::new(4));
        let began = std::time::Instant::now();
        let (one, other, [waker, others_waker]) = (sleeps[0].clone(), sleeps[1].clone(), wakers);
        let wait = Wait::For(Duration::from_secs(20));
        let (ours, theirs) = (other.clone(), one.clone());
        let echo = thread::spawn(move || {
            let mut kernel = Kernel::new(Vec::new(), others_waker, 64, true).unwrap();
            let (mut events, mut count) = (Vec::new(), 0);
            while count < MESSAGES {
                let wait = ours.before(wait, || !taken.is_empty());
                kernel.turn(wait, &mut events).unwrap();
                ours.after();
                events.clear();
                while let Ok(message) = taken.pop() {
                    count += 1;
                    back.push(message).expect("no more are under way than fit");
                }
                theirs.wake();
            }
        });
        let mut kernel = Kernel::new(Vec::new(), waker, 64, true).unwrap();
        let (mut events, mut sent, mut received) = (Vec::new(), 0, 0);
        while received < MESSAGES {
            while sent < MESSAGES && sent - received < 4 {
                to.push(sent).unwrap();
                sent += 1;
                // One and four at a time.
                if sent % 3 == 0 {
                    break;
                }
            }
            other.wake();
            let wait = one.before(wait, || !given.is_empty());
            kernel.turn(wait, &mut events).unwrap();
            one.after();
            events.clear();
            while let Ok(message) = given.pop() {
                assert_eq!(message, received, "in order, each once");
                received += 1;
            }
        }
        echo.join().unwrap();
        assert!(began.elapsed() < Duration::from_secs(15), "a wake-up was lost");
    }
}
