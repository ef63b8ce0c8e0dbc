//! The setting for how many threads serve clients beside the one that owns the volume.

use std::str::FromStr;

use peryton_units::Bytes;

use crate::{serve_error::SMALLEST_POOL, server::MOST_FRONTS};

/// How many threads read, parse, encrypt and send for clients, beside the one that owns the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FrontThreads {
    /// None: that was best where it was measured (`docs/performance.md`).
    #[default]
    Auto,
    /// This many; with 0 the volume's own thread serves them.
    Count(usize),
}

/// What `auto` stands for, as measured on two processors.
const AUTO: usize = 0;

impl FromStr for FrontThreads {
    type Err = String;

    fn from_str(text: &str) -> Result<FrontThreads, String> {
        if text == "auto" {
            return Ok(FrontThreads::Auto);
        }
        let count = text.parse().ok().filter(|count| *count <= MOST_FRONTS);
        count
            .map(FrontThreads::Count)
            .ok_or_else(|| format!("'{text}': give auto, or a number from 0 to {MOST_FRONTS}"))
    }
}

impl FrontThreads {
    /// How many threads there are. Without io_uring there are none.
    pub(crate) fn count(self, io_uring: bool) -> usize {
        match self {
            _ if !io_uring => 0,
            FrontThreads::Auto => AUTO,
            FrontThreads::Count(count) => count.min(MOST_FRONTS),
        }
    }

    /// The least pool of which each of so many threads can have a part.
    pub(crate) fn least_pool(threads: usize) -> Bytes {
        Bytes(SMALLEST_POOL.0 * threads.max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused_with_what_to_give() {
        assert_eq!("auto".parse(), Ok(FrontThreads::Auto));
        assert_eq!("0".parse(), Ok(FrontThreads::Count(0)));
        assert_eq!("16".parse(), Ok(FrontThreads::Count(16)));
        for wrong in ["17", "-1", "many", "", "1.5"] {
            let error = wrong.parse::<FrontThreads>().unwrap_err();
            assert_eq!(error, format!("'{wrong}': give auto, or a number from 0 to 16"));
        }
    }

    #[test]
    fn there_are_no_threads_without_io_uring() {
        assert_eq!((FrontThreads::Count(3).count(false), FrontThreads::Count(3).count(true)), (0, 3));
    }
}
