//! Parses numbers and fields from bytes, without a string in between.

use peryton_units::Op;

/// Parses the unsigned whole number at the start of `text`; also returns the rest.
#[inline]
pub(crate) fn leading(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut rest) = (0u64, text);
    // Sixteen digits cannot overflow.
    for _ in 0..2 {
        let Some((chunk, after)) = rest.split_first_chunk() else { break };
        let Some(eight) = eight_digits(u64::from_le_bytes(*chunk)) else { break };
        value = value * 100_000_000 + eight;
        rest = after;
    }
    while let [byte, after @ ..] = rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        rest = after;
    }
    (rest.len() < text.len()).then_some((value, rest))
}

/// The value of eight ASCII digits, the first in the lowest byte: neighbouring digits are combined to pairs, pairs to
/// fours, fours to eight, all within one word.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    if word & HIGH != ZEROS || word.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let pairs = ((word & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(10 * 256 + 1)) >> 8;
    let fours = ((pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 * 65_536 + 1)) >> 16;
    Some(((fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 * 4_294_967_296 + 1)) >> 32)
}

/// Parses an unsigned whole number that takes all of `text`.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<u64> {
    match leading(text)? {
        (value, []) => Some(value),
        _ => None,
    }
}

/// Takes a whole number and the separator after it from the front of `rest`.
#[inline]
pub(crate) fn take_whole(rest: &mut &[u8], separator: u8) -> Option<u64> {
    let (value, after) = leading(rest)?;
    *rest = after.strip_prefix(&[separator])?;
    Some(value)
}

/// Parses a whole number that fits 32 bits.
#[inline]
pub(crate) fn whole_u32(text: &[u8]) -> Option<u32> {
    u32::try_from(whole(text)?).ok()
}

/// Parses a hexadecimal number without prefix.
pub(crate) fn hex_u32(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 8 {
        return None;
    }
    text.iter().try_fold(0u32, |value, &byte| Some(value << 4 | char::from(byte).to_digit(16)?))
}

/// Parses a time in units of `unit_ns` nanoseconds (a power of ten), whole or with decimals, into nanoseconds.
/// Fractions of a nanosecond are cut off. `None` for negative times and times that do not fit.
#[inline]
pub(crate) fn nanos(text: &[u8], unit_ns: u64) -> Option<u64> {
    let (value, rest) = match text {
        [b'.', _, ..] => (0, text),
        _ => leading(text)?,
    };
    let fraction = match rest {
        [] => return value.checked_mul(unit_ns),
        [b'.', fraction @ ..] => fraction,
        _ => return exponent(text, unit_ns),
    };
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

/// Parses `17:58:57.814` into nanoseconds of the day.
pub(crate) fn clock(text: &[u8]) -> Option<u64> {
    let mut rest = text;
    let hours = take_whole(&mut rest, b':').filter(|hours| *hours < 24)?;
    let minutes = take_whole(&mut rest, b':').filter(|minutes| *minutes < 60)?;
    let seconds = nanos(rest, 1_000_000_000).filter(|ns| *ns < 61_000_000_000)?;
    Some((hours * 60 + minutes) * 60_000_000_000 + seconds)
}

/// Parses `1.5e-05`, as data frames print small numbers.
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

/// Parses an operation in the letters or words of the usual traces, in any case.
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
        // Fields are a few bytes long, so a plain loop is faster than a vectorised search.
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

/// The words of a line, separated by blanks.
pub(crate) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_edge() {
        for value in (0..20).map(|digits| 10u64.pow(digits)).chain([12_345_678, 1_234_567_890_123_456_789, u64::MAX]) {
            for value in [value - 1, value] {
                assert_eq!(whole(value.to_string().as_bytes()), Some(value));
                assert_eq!(whole(format!("000000000{value}").as_bytes()), Some(value));
                assert_eq!(leading(format!("{value},5").as_bytes()), Some((value, &b",5"[..])));
            }
        }
        // Each byte that is not a digit, at each place of a word.
        for (place, byte) in (0..16).flat_map(|place| (0..=255u8).map(move |byte| (place, byte))) {
            let mut text = *b"1234567890123456";
            text[place] = byte;
            assert_eq!(whole(&text).is_some(), byte.is_ascii_digit(), "{byte} at {place}");
        }
        for text in ["", "-1", "+1", "18446744073709551616", "99999999999999999999", "1.0", "1 "] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
        assert_eq!(whole_u32(b"4294967296"), None);
        assert_eq!(hex_u32(b"1f"), Some(31));
        assert_eq!(hex_u32(b"100000000"), None);
    }

    #[test]
    fn a_clock_counts_from_midnight() {
        assert_eq!(clock(b"17:58:57.814"), Some(64_737_814_000_000));
        for text in ["24:00:00", "1:60:0", "1:2", "x", "12:00:61.5"] {
            assert_eq!(clock(text.as_bytes()), None, "{text}");
        }
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
