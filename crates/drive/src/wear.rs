//! What wears a device: every transfer is counted, whoever asks for it, and added to what earlier servers have counted
//! ([`peryton_format::wear`]).

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use peryton_format::wear::{Account, Worn};
use peryton_units::{Bytes, pages};

/// Counts what wears a device. All who use the device share it.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    pages_read: AtomicU64,
    pages_written: AtomicU64,
    start_stops: AtomicU64,
    /// What was counted before this; `None`: that was not read from the device yet.
    earlier: Mutex<Option<Account>>,
}

fn add(to: &AtomicU64, more: u64) {
    to.fetch_add(more, Ordering::Relaxed);
}

impl Meter {
    /// Bytes were read from there.
    #[inline]
    pub(crate) fn read(&self, at: u64, len: u64) {
        add(&self.bytes_read, len);
        add(&self.pages_read, pages(Bytes(at), Bytes(len)));
    }

    /// Bytes were written there, or stored as zeroes. What a device gives up (a discard, or zeroes that it need not keep) programs nothing.
    #[inline]
    pub(crate) fn wrote(&self, at: u64, len: u64) {
        add(&self.bytes_written, len);
        add(&self.pages_written, pages(Bytes(at), Bytes(len)));
    }

    /// The device was put into standby, from which it will have to start.
    pub(crate) fn stopped(&self) {
        add(&self.start_stops, 1);
    }

    fn earlier(&self) -> MutexGuard<'_, Option<Account>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> Worn {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Worn {
            bytes_read: of(&self.bytes_read),
            bytes_written: of(&self.bytes_written),
            pages_read: of(&self.pages_read),
            pages_written: of(&self.pages_written),
            start_stops: of(&self.start_stops),
        }
    }

    /// Continues the counts that the device stores, at the first call. `is_unclosed`: the last server did not close the device in good order.
    pub(crate) fn take_up(&self, kept: Account, is_unclosed: bool, now_unix_s: u64) {
        self.earlier().get_or_insert_with(|| match kept.since_unix_s {
            0 => Account { since_unix_s: now_unix_s, mark_unix_s: now_unix_s, ..Account::default() },
            _ => Account { unclosed: kept.unclosed + u64::from(is_unclosed), ..kept },
        });
    }

    /// The account by now; `None` if it is not known what was counted before.
    pub(crate) fn account(&self) -> Option<Account> {
        let counted = self.counted();
        self.earlier().map(|earlier| Account { worn: earlier.worn.and(&counted), ..earlier })
    }

    /// Sets the mark.
    pub(crate) fn mark(&self, now_unix_s: u64) {
        let at_mark = self.account();
        if let (Some(earlier), Some(now)) = (&mut *self.earlier(), at_mark) {
            (earlier.mark_unix_s, earlier.at_mark) = (now_unix_s, now.worn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_goes_on_where_the_one_before_was() {
        let first = Meter::default();
        first.wrote(512, 512);
        assert_eq!(first.account(), None, "what was counted before is not known yet");
        first.take_up(Account::default(), true, 100);
        first.mark(150);
        first.wrote(0, 8192);
        first.stopped();
        let kept = first.account().unwrap();
        assert_eq!((kept.since_unix_s, kept.mark_unix_s, kept.unclosed), (100, 150, 0), "nothing was counted before");
        assert_eq!((kept.worn.bytes_written, kept.worn.pages_written, kept.worn.start_stops), (8704, 3, 1));
        assert_eq!(kept.worn.since(&kept.at_mark).pages_written, 2);

        let second = Meter::default();
        second.take_up(kept, true, 200);
        second.take_up(Account::default(), false, 300);
        second.read(4096, 1);
        let now = second.account().unwrap();
        assert_eq!((now.since_unix_s, now.mark_unix_s, now.unclosed), (100, 150, 1));
        assert_eq!((now.worn.pages_written, now.worn.pages_read, now.worn.bytes_read), (3, 1, 1));
    }
}
