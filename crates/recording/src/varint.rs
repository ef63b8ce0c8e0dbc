//! Integers of as many bytes as they need.

/// Appends a number, seven bits in each byte.
#[inline]
pub(crate) fn put(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// Appends a difference; small ones are short, whatever their sign.
#[inline]
pub(crate) fn put_signed(into: &mut Vec<u8>, value: i64) {
    put(into, (value << 1 ^ value >> 63) as u64);
}

/// Takes a number; `None` if there is none, or one of more than 64 bits.
#[inline]
pub(crate) fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[inline]
pub(crate) fn take_signed(from: &mut &[u8]) -> Option<i64> {
    let value = take(from)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value in any::<u64>(), signed in any::<i64>(), shift in 0_u32..64) {
            let mut bytes = Vec::new();
            put(&mut bytes, value >> shift);
            put_signed(&mut bytes, signed >> shift);
            let mut from = &bytes[..];
            prop_assert_eq!(take(&mut from), Some(value >> shift));
            prop_assert_eq!(take_signed(&mut from), Some(signed >> shift));
            prop_assert!(from.is_empty());
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_no_number() {
        assert_eq!(take(&mut &[0x80_u8, 0x80][..]), None);
        assert_eq!(take(&mut &[0xff_u8; 11][..]), None);
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..]), None);
    }
}
