//! The names of volumes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::problem::Problem;

/// The number that Linux gives the device `major`:`minor`, which identifies volumes in block-layer traces: the major
/// number in the upper 12 bits, the minor in the lower 20, as in blktrace. `None` if they do not fit.
///
/// ```
/// // /dev/sda is 8:0.
/// assert_eq!(peryton_trace::device_number(8, 0), Some(8_388_608));
/// ```
pub fn device_number(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// The most volumes with names in one trace; more would come from a wrong column.
const MAX_NAMES: usize = 1 << 20;
/// The longest name, in bytes.
const MAX_NAME: usize = 256;
/// The first and the last number of a device that Linux's device mapper may have, and that of md.
const MAPPER: std::ops::RangeInclusive<u32> = 252..=254;
const MD: u32 = 9;

/// What the trace calls its volumes.
///
/// ```
/// use peryton_trace::{VolumeNames, device_number};
///
/// assert_eq!(VolumeNames::Devices.name(device_number(253, 0).unwrap()), "253,0");
/// assert_eq!(VolumeNames::Numbers.name(7), "7");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VolumeNames {
    /// They are numbers.
    #[default]
    Numbers,
    /// They are devices of Linux, whose number has a major and a minor part ([`device_number`](crate::device_number)).
    Devices,
    /// They have names, by their number.
    Words(Arc<Vec<String>>),
}

impl VolumeNames {
    /// The name of a volume.
    pub fn name(&self, volume: u32) -> String {
        match self {
            VolumeNames::Devices => format!("{},{}", volume >> 20, volume & 0xf_ffff),
            VolumeNames::Words(names) => names.get(volume as usize).map_or_else(|| volume.to_string(), Clone::clone),
            VolumeNames::Numbers => volume.to_string(),
        }
    }

    /// The volumes that `words` select, as the command line has split them at commas: a device is two numbers or one.
    pub(crate) fn select(&self, words: &[String]) -> Vec<String> {
        let small = |word: &String, most: u32| word.parse::<u32>().is_ok_and(|number| number < most);
        let (mut names, mut rest) = (Vec::new(), words);
        while let [first, after @ ..] = rest {
            rest = after;
            match (self, after) {
                (VolumeNames::Devices, [second, others @ ..]) if small(first, 1 << 12) && small(second, 1 << 20) => {
                    names.push(format!("{first},{second}"));
                    rest = others;
                }
                (VolumeNames::Devices, _) => {
                    names.push(first.parse().map_or_else(|_| first.replace(':', ","), |number| self.name(number)));
                }
                _ => names.push(first.clone()),
            }
        }
        names
    }

    /// Which of these volumes to take, if some of them lie above others, so that a request is seen on both.
    pub fn advice(&self, volumes: &[u32]) -> Option<String> {
        let VolumeNames::Devices = self else { return None };
        let above = |volume: &u32| MAPPER.contains(&(volume >> 20)) || volume >> 20 == MD;
        let (upper, lower): (Vec<u32>, Vec<u32>) = volumes.iter().partition(|volume| above(volume));
        let (upper, lower) = (upper.first()?, lower.first()?);
        Some(format!(
            "{upper} is a mapped device, whose requests {} sees again: take it alone with --volumes {upper}",
            self.name(*lower),
            upper = self.name(*upper)
        ))
    }
}

/// Names of volumes, numbered from 0 in the order in which they appear; those of all files of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownNames(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    numbers: FxHashMap<Box<[u8]>, u32>,
    names: Vec<String>,
}

impl KnownNames {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a name, which becomes known.
    pub(crate) fn number(&self, name: &[u8]) -> Result<u32, Problem> {
        let mut known = self.known();
        if let Some(&number) = known.numbers.get(name) {
            return Ok(number);
        }
        if name.len() > MAX_NAME {
            return Err("the name of a volume is longer than 256 bytes".into());
        }
        if known.names.len() == MAX_NAMES {
            return Err("more than 1048576 different volumes".into());
        }
        let number = known.names.len() as u32;
        known.numbers.insert(name.into(), number);
        known.names.push(String::from_utf8_lossy(name).into_owned());
        Ok(number)
    }

    /// The name of a volume, if volumes have names.
    pub(crate) fn name(&self, volume: u32) -> Option<String> {
        self.known().names.get(volume as usize).cloned()
    }

    /// All names, if volumes have names.
    pub(crate) fn all(&self) -> Option<VolumeNames> {
        let known = self.known();
        (!known.names.is_empty()).then(|| VolumeNames::Words(Arc::new(known.names.clone())))
    }
}

/// The numbers of names as one reader sees them.
#[derive(Default)]
pub(crate) struct Numbering {
    all: KnownNames,
    seen: FxHashMap<Box<[u8]>, u32>,
    last: Option<(Box<[u8]>, u32)>,
}

impl Numbering {
    pub(crate) fn new(all: &KnownNames) -> Numbering {
        Numbering { all: all.clone(), ..Numbering::default() }
    }

    /// The number of a name.
    #[inline]
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u32, Problem> {
        match &self.last {
            Some((last, number)) if **last == *name => Ok(*number),
            _ => self.find(name),
        }
    }

    fn find(&mut self, name: &[u8]) -> Result<u32, Problem> {
        let number = match self.seen.get(name) {
            Some(&known) => known,
            None => {
                let number = self.all.number(name)?;
                self.seen.insert(name.into(), number);
                number
            }
        };
        self.last = Some((name.into(), number));
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_selected_as_it_is_named() {
        let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let devices = VolumeNames::Devices;
        assert_eq!(devices.select(&words("253,0")), ["253,0"]);
        assert_eq!(devices.select(&words("253,0,8,16")), ["253,0", "8,16"]);
        assert_eq!(devices.select(&words("265289728,8:16")), ["253,0", "8,16"]);
        assert_eq!(VolumeNames::Numbers.select(&words("253,0")), ["253", "0"]);
        let advice = devices.advice(&[8 << 20, 253 << 20]).unwrap();
        assert!(advice.contains("253,0 is a mapped device") && advice.contains("8,0"), "{advice}");
        assert_eq!(devices.advice(&[8 << 20, 8 << 20 | 16]), None);
    }
}
