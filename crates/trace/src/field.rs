//! Numbers and fields out of bytes, without a string in between.

use peryton_units::Op;

/// A whole number without sign, to the end of `text`.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut value = 0u64;
    if text.len() <= 19 {
        for &byte in text {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A whole number that fits 32 bits.
#[inline]
pub(crate) fn whole_u32(text: &[u8]) -> Option<u32> {
    u32::try_from(whole(text)?).ok()
}

/// A hexadecimal number without prefix.
pub(crate) fn hex_u32(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 8 {
        return None;
    }
    text.iter().try_fold(0u32, |value, &byte| Some(value << 4 | char::from(byte).to_digit(16)?))
}

/// A time in units of `unit_ns` nanoseconds (a power of ten), whole or with decimals, in nanoseconds. What is below
/// a nanosecond is cut off. Negative times and those that do not fit are none.
#[inline]
pub(crate) fn nanos(text: &[u8], unit_ns: u64) -> Option<u64> {
    let (mut value, mut at) = (0u64, 0);
    while at < text.len() {
        let digit = text[at].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    if at == text.len() {
        return if at == 0 { None } else { value.checked_mul(unit_ns) };
    }
    if text[at] != b'.' {
        return exponent(text, unit_ns);
    }
    let fraction = &text[at + 1..];
    if at == 0 && fraction.is_empty() {
        return None;
    }
    let (mut below, mut place) = (0u64, unit_ns);
    for &byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return exponent(text, unit_ns);
        }
        place /= 10;
        below += place * u64::from(digit);
    }
    value.checked_mul(unit_ns)?.checked_add(below)
}

/// `1.5e-05`, as data frames print small numbers.
#[cold]
fn exponent(text: &[u8], unit_ns: u64) -> Option<u64> {
    if text.len() > 32 || !text.first()?.is_ascii_digit() || !text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return None;
    }
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let scaled = (value * unit_ns as f64).round();
    // 2^63 is exact as a double; NaN is in no range.
    (0.0..9_223_372_036_854_775_808.0).contains(&scaled).then_some(scaled as u64)
}

/// An operation as letters or words of the usual traces, in any case.
pub(crate) fn op(text: &[u8]) -> Option<Op> {
    if let [letter] = text {
        return match letter {
            b'R' | b'r' => Some(Op::Read),
            b'W' | b'w' => Some(Op::Write),
            b'D' | b'd' | b'T' | b't' => Some(Op::Discard),
            b'F' | b'f' => Some(Op::Flush),
            _ => None,
        };
    }
    [
        ("read", Op::Read),
        ("write", Op::Write),
        ("discard", Op::Discard),
        ("trim", Op::Discard),
        ("unmap", Op::Discard),
        ("flush", Op::Flush),
        ("sync", Op::Flush),
    ]
    .into_iter()
    .find_map(|(word, op)| text.eq_ignore_ascii_case(word.as_bytes()).then_some(op))
}

/// Splits a line at a separator, field by field.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(line: &'a [u8], separator: u8) -> Fields<'a> {
        Fields { rest: Some(line), separator }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // Fields are a few bytes long: a plain loop beats a vectorised search.
        match rest.iter().position(|&byte| byte == self.separator) {
            Some(end) => {
                self.rest = Some(&rest[end + 1..]);
                Some(&rest[..end])
            }
            None => {
                self.rest = None;
                Some(rest)
            }
        }
    }
}

/// The words of a line, between blanks.
pub(crate) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_edge() {
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
        for text in
            ["", "-1", "+1", "18446744073709551616", "99999999999999999999", "000000000000000000001", "1.0", "1 "]
        {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
        assert_eq!(whole_u32(b"4294967296"), None);
        assert_eq!(hex_u32(b"1f"), Some(31));
        assert_eq!(hex_u32(b"100000000"), None);
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        for (text, unit, value) in [
            ("0.026214", 1_000_000_000, 26_214_000),
            ("1455592211.097187001", 1_000_000_000, 1_455_592_211_097_187_001),
            ("13.191135", 1_000_000, 13_191_135),
            ("12.3456789", 1_000, 12_345),
            (".5", 1_000, 500),
            ("5.", 1_000, 5_000),
            ("1e-05", 1_000_000_000, 10_000),
            ("1.5E3", 1, 1_500),
        ] {
            assert_eq!(nanos(text.as_bytes(), unit), Some(value), "{text}");
        }
        for text in
            ["", ".", "-1", "-0.5", "nan", "NaN", "inf", "1e99", "1..2", "1.2.3", "0x10", "99999999999", "1e", "e5"]
        {
            assert_eq!(nanos(text.as_bytes(), 1_000_000_000), None, "{text}");
        }
    }
}
