//! Whether what a format reads of a head can be a trace: five numbers in a line are many things.

use std::collections::BTreeSet;

use crate::Request;

/// With fewer requests there is nothing to judge.
const ENOUGH: usize = 8;
/// More requests a second than this, for the whole of a head, come from a wrong column or a wrong unit.
const MOST_PER_SECOND: f64 = 1e7;

/// The reason why these requests, in the order of the file, are likely to be misread; `None` if there is none. A format that
/// counts in sectors is doubted if all could be bytes, and one of few devices if there are more than `few`.
pub(crate) fn doubt(requests: &[Request], sectors: bool, few: usize) -> Option<String> {
    let count = requests.len();
    if count < ENOUGH {
        return None;
    }
    let volumes: BTreeSet<u32> = requests.iter().map(|request| request.volume).collect();
    if volumes.len() > few && volumes.len() > count / 8 {
        return Some(format!("there would be {} devices in {count} requests", volumes.len()));
    }
    let back = requests.windows(2).filter(|pair| pair[1].at < pair[0].at).count();
    if back > count / 4 {
        return Some(format!("time would go back {back} times in {count} requests"));
    }
    let span =
        requests.iter().map(|request| request.at.0).max()? - requests.iter().map(|request| request.at.0).min()?;
    let per_second = (count - 1) as f64 * 1e9 / span as f64;
    if span > 0 && per_second > MOST_PER_SECOND {
        return Some(format!("there would be {per_second:.0} requests a second"));
    }
    // A multiple of 512 sectors is one of 512 bytes as well; requests of data are seldom all multiples of 256 KiB.
    let both = requests.iter().all(|request| request.offset.0 % (512 * 512) == 0 && request.len.0 % (512 * 512) == 0);
    if sectors && both && requests.iter().any(|request| request.len.0 > 0) {
        return Some("every place and size is a multiple of 512, as if they were bytes and not sectors".to_owned());
    }
    None
}
