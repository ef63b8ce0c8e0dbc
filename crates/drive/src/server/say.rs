//! Limits how often each kind of message is logged, so that a repeating source cannot displace the others.

use peryton_units::Nanos;

/// This many lines of one kind may come in a burst.
const BURST: u64 = 20;
/// After a burst, one line of a kind is logged in this interval.
const INTERVAL: Nanos = Nanos::from_ms(100);

/// The kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Connections that have not authenticated themselves or not finished their handshake.
    Handshakes,
    /// Clients that use the volume.
    Clients,
    /// Connections that cannot be accepted.
    Accepting,
    /// Devices that fail.
    Devices,
}

/// The rate limit of each kind.
#[derive(Debug, Default)]
pub(super) struct Limits {
    kinds: [Limit; 4],
    /// Lines that were not logged, of all kinds.
    pub(super) held_back: u64,
}

#[derive(Debug, Default)]
struct Limit {
    /// When the next line would be due if they came evenly; a line may come `BURST` intervals early.
    due: Nanos,
    held_back: u64,
}

impl Limits {
    /// Whether a line of this kind may be logged now. Also logs how many were suppressed before it.
    pub(super) fn allow(&mut self, kind: Kind, now: Nanos) -> bool {
        let limit = &mut self.kinds[kind as usize];
        let due = Nanos(limit.due.0.max(now.0));
        if due.0 - now.0 > (BURST - 1) * INTERVAL.0 {
            limit.held_back += 1;
            self.held_back += 1;
            return false;
        }
        limit.due = due.saturating_add(INTERVAL);
        let held_back = std::mem::take(&mut limit.held_back);
        if held_back > 0 {
            tracing::warn!(lines = held_back, about = ?kind, "more of the same were not logged");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_does_not_displace_another_and_recovers() {
        let mut limits = Limits::default();
        let said = (0..1000).filter(|_| limits.allow(Kind::Handshakes, Nanos::from_s(1))).count();
        assert_eq!(said as u64, BURST);
        assert!(limits.allow(Kind::Devices, Nanos::from_s(1)));
        // A million lines in ten seconds: ten a second are allowed.
        let said = (0..1_000_000).filter(|n| limits.allow(Kind::Handshakes, Nanos(Nanos::from_s(1).0 + n * 10_000)));
        let said = said.count();
        assert!((90..=110).contains(&said), "{said}");
        assert_eq!(limits.held_back, 1_000_000 + 1000 - 20 - said as u64);
        assert!(limits.allow(Kind::Handshakes, Nanos::from_s(60)));
    }
}
