//! What has worn a device: counts that lie on the device itself, in the block that says who has its volume
//! ([`holder`](crate::holder)), and that servers carry on.

use crate::block::{get_u64, put_u64};

/// What has worn a device in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worn {
    /// Bytes that read commands have transferred.
    pub bytes_read: u64,
    /// Bytes that write commands have transferred, and of zeroes that the device was told to store.
    pub bytes_written: u64,
    /// Pages of 4 KiB that these reads have touched; a part of a page counts as one.
    pub pages_read: u64,
    /// Pages of 4 KiB that these writes have touched.
    pub pages_written: u64,
    /// How often it was put into standby.
    pub start_stops: u64,
}

impl Worn {
    fn each(&self) -> [u64; 5] {
        [self.bytes_read, self.bytes_written, self.pages_read, self.pages_written, self.start_stops]
    }

    fn from_each([bytes_read, bytes_written, pages_read, pages_written, start_stops]: [u64; 5]) -> Worn {
        Worn { bytes_read, bytes_written, pages_read, pages_written, start_stops }
    }

    /// The sum of both.
    #[must_use]
    pub fn and(&self, more: &Worn) -> Worn {
        let (mine, more) = (self.each(), more.each());
        Worn::from_each(std::array::from_fn(|index| mine[index].saturating_add(more[index])))
    }

    /// The part of this wear that came after `before`.
    #[must_use]
    pub fn since(&self, before: &Worn) -> Worn {
        let (mine, before) = (self.each(), before.each());
        Worn::from_each(std::array::from_fn(|index| mine[index].saturating_sub(before[index])))
    }
}

/// The account of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// When it was begun, in seconds since 1970; 0: it was not.
    pub since_unix_s: u64,
    /// What has worn the device since.
    pub worn: Worn,
    /// When the mark was set, in seconds since 1970.
    pub mark_unix_s: u64,
    /// What had worn it by then.
    pub at_mark: Worn,
    /// The number of servers that were killed: the last wear of each is not counted.
    pub unclosed: u64,
}

/// How many bytes an account takes.
pub(crate) const ACCOUNT_LEN: usize = 13 * 8;

impl Account {
    pub(crate) fn encode(&self, into: &mut [u8]) {
        let [before, marked] = [self.worn.each(), self.at_mark.each()];
        let head = [self.since_unix_s, self.mark_unix_s, self.unclosed];
        for (index, value) in head.into_iter().chain(before).chain(marked).enumerate() {
            put_u64(into, index * 8, value);
        }
    }

    pub(crate) fn decode(from: &[u8]) -> Account {
        let at = |index: usize| get_u64(from, index * 8);
        Account {
            since_unix_s: at(0),
            mark_unix_s: at(1),
            unclosed: at(2),
            worn: Worn::from_each(std::array::from_fn(|index| at(3 + index))),
            at_mark: Worn::from_each(std::array::from_fn(|index| at(8 + index))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_as_it_was_written() {
        let of = |from: u64| Worn::from_each(std::array::from_fn(|index| from + index as u64));
        let account = Account { since_unix_s: 1, worn: of(10), mark_unix_s: 2, at_mark: of(4), unclosed: 3 };
        let mut bytes = [0; ACCOUNT_LEN];
        account.encode(&mut bytes);
        assert_eq!(Account::decode(&bytes), account);
        assert_eq!(account.worn.since(&account.at_mark), Worn::from_each([6; 5]));
        assert_eq!(account.at_mark.since(&account.worn), Worn::default());
    }
}
