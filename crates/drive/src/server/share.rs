//! The shares of clients: of the pool's memory, of requests in flight, of the loop's time in a turn.
//!
//! Memory is counted as the pool's bytes that a buffer takes, which is more than the bytes requested. Each client can
//! always have [`Shares::small`] bytes, whatever the others hold: that much is kept free for those that do not have it
//! yet. Beyond that a client may have as much as would still be free afterwards, so that each new client finds some,
//! however many came before it.

use peryton_units::Nanos;

use crate::arena::PAGE;

/// The most clients that use the volume at once; further ones are refused.
pub(crate) const MOST_CLIENTS: usize = 64;

/// The most requests of one client that the volume has at a time; the rest waits in its socket.
pub(crate) const MOST_IN_FLIGHT: u32 = 128;
/// The same while other clients send requests too: a new request waits for those that the volume already has.
pub(super) const MOST_BESIDE_OTHERS: u32 = 32;
/// A request that does not begin and end at multiples of [`PAGE`] counts as this many requests. For it the volume reads blocks,
/// changes them and writes them, and takes such requests of one block in turn.
const COUNT_OF_PARTS: u32 = 4;
/// A client counts as sending requests for this long after its last one.
pub(super) const ASKS: Nanos = Nanos::from_ms(100);
/// The steps that the loop does for one client before it serves the others. A client that has used more skips as many
/// turns as make up for it (deficit round robin).
pub(super) const QUANTUM: i64 = 64;
/// Accepting this many bytes of data is a step, besides one for the request.
const BYTES_A_STEP: u64 = 16 << 10;
/// Looking this many places up is a step.
const LOOKUPS_A_STEP: u64 = 16;
/// The most places that are looked up for one block status.
pub(super) const MOST_LOOKUPS: usize = 1024;

/// As how many requests in flight a request for this range counts.
pub(super) fn count_in_flight(offset: u64, len: u64) -> u32 {
    if (offset | len).is_multiple_of(PAGE as u64) { 1 } else { COUNT_OF_PARTS }
}

/// The steps of a request that moves this many bytes.
pub(super) fn steps_of_data(bytes: u64) -> i64 {
    1 + (bytes / BYTES_A_STEP) as i64
}

/// The steps of a block status with this many lookups.
pub(super) fn steps_of_lookups(lookups: u64) -> i64 {
    (lookups / LOOKUPS_A_STEP) as i64
}

/// The division of the pool.
#[derive(Debug)]
pub(super) struct Shares {
    /// The bytes that each client can always have.
    small: usize,
    /// The size of the pieces into which long requests are divided, if there is room.
    large: usize,
    /// The bytes that are kept free for clients that have less than `small`.
    kept: usize,
    /// Whether a request waits that needs more than its client's small share; later requests leave it the rest of the
    /// pool.
    pub(super) large_waits: bool,
}

impl Shares {
    /// Divides a pool. `unit` is the size that the engine handles best: an extent.
    pub(super) fn new(pool: usize, unit: u64) -> Shares {
        let part = pool / (4 * MOST_CLIENTS);
        let small = if part < 2 * PAGE { PAGE } else { 1 << part.ilog2().min(18) };
        let most = (pool / 16).max(small);
        let unit = usize::try_from(unit).unwrap_or(usize::MAX).clamp(1 << 20, 8 << 20).next_power_of_two();
        let large = unit.min(1 << most.ilog2());
        Shares { small, large, kept: MOST_CLIENTS * small, large_waits: false }
    }

    /// The length of the first piece of `rest` bytes at `offset`. Pieces end at multiples of their size on the volume,
    /// so that no piece needs a longer buffer than that.
    pub(super) fn piece(&self, offset: u64, rest: u64, small: bool) -> usize {
        let size = if small { self.small } else { self.large } as u64;
        rest.min(size - offset % size) as usize
    }

    /// Whether a client that holds `held` bytes may have `more` bytes while `free` bytes of the pool are free.
    #[inline]
    pub(super) fn allows(&self, held: usize, more: usize, free: usize) -> bool {
        if self.is_small(held, more) {
            return true;
        }
        // What is kept free for this client itself may be used by it.
        let own = self.small.saturating_sub(held);
        let room = (free + own).saturating_sub(self.kept);
        !self.large_waits && more <= room && (held == 0 || held + more <= room.saturating_sub(more))
    }

    /// Whether `more` bytes are still within the small share of a client that holds `held` bytes.
    #[inline]
    pub(super) fn is_small(&self, held: usize, more: usize) -> bool {
        held + more <= self.small
    }

    /// Accounts for a change of what a client holds.
    #[inline]
    pub(super) fn changed(&mut self, before: usize, after: usize) {
        self.kept = self.kept + before.min(self.small) - after.min(self.small);
    }

    pub(super) fn small(&self) -> usize {
        self.small
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Guards against some clients holding everything while another waits for ever.
        #[test]
        fn there_is_always_room_for_a_small_request_of_each_client(
            mib in prop_oneof![Just(8_usize), Just(64), Just(100)],
            steps in prop::collection::vec((0..MOST_CLIENTS, 1_usize..12 << 20, any::<bool>()), 1..300),
        ) {
            let pool = mib << 20;
            let mut shares = Shares::new(pool, 1 << 20);
            let (mut held, mut free) = ([0_usize; MOST_CLIENTS], pool);
            for (client, more, give) in steps {
                let before = held[client];
                if give {
                    free += before;
                    held[client] = 0;
                } else if shares.allows(before, more, free) {
                    prop_assert!(more <= free, "{more} of {free}");
                    free -= more;
                    held[client] += more;
                }
                shares.changed(before, held[client]);
                let owed: usize = held.iter().map(|held| shares.small.saturating_sub(*held)).sum();
                prop_assert_eq!(owed, shares.kept);
                prop_assert!(owed <= free, "{owed} are owed, {free} are free");
            }
        }
    }

    #[test]
    fn the_longest_request_fits_and_a_greedy_client_leaves_room() {
        for (pool, longest) in [(64 << 20, 32 << 20), (8 << 20, 4 << 20)] {
            let mut shares = Shares::new(pool, 1 << 20);
            assert!(shares.allows(0, longest + PAGE, pool), "a read at an odd offset");
            // Each client takes what it is given, a piece at a time.
            let mut free = pool;
            for _ in 0..MOST_CLIENTS {
                let mut held = 0;
                while shares.allows(held, shares.small, free) {
                    shares.changed(held, held + shares.small);
                    held += shares.small;
                    free -= shares.small;
                }
                assert!(held >= shares.small);
            }
        }
    }
}
