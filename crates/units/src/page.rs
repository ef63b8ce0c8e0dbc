use crate::Bytes;

/// The unit in which endurance is reckoned and traces are described.
pub const PAGE: Bytes = Bytes::kib(4);

/// The number of pages in which a range lies; a part of a page counts as one.
///
/// ```
/// use peryton_units::{Bytes, pages};
///
/// assert_eq!(pages(Bytes(512), Bytes(512)), 1);
/// assert_eq!(pages(Bytes(4095), Bytes(2)), 2);
/// ```
#[inline]
pub const fn pages(at: Bytes, len: Bytes) -> u64 {
    if len.0 == 0 { 0 } else { at.0.saturating_add(len.0 - 1) / PAGE.0 - at.0 / PAGE.0 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_page_is_a_page() {
        let of = |at: u64, len: u64| pages(Bytes(at), Bytes(len));
        assert_eq!((of(0, 0), of(0, 512), of(512, 512), of(3584, 512)), (0, 1, 1, 1));
        assert_eq!((of(0, 4096), of(0, 4097), of(4095, 2), of(8192, 1 << 20)), (1, 2, 2, 256));
        assert_eq!(of(u64::MAX, u64::MAX), 1);
    }
}
