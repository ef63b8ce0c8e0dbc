//! Who has heard of a failed flush. A flush covers what every client and the block device wrote, so each of them hears of its failure
//! by a flush of its own, once (as Linux's `errseq_t`): whoever flushes first takes nothing from the others.

use peryton_engine::RequestError;

/// How many failures one client, or the block device, has heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard(u64);

/// The failures that flushes of the host were told of.
#[derive(Debug)]
pub(super) struct FlushErrors {
    /// Failures that may concern what the host wrote.
    failures: u64,
    /// How many of their causes there were when the last of these was found: flushes of devices that failed, and losses of what was answered.
    /// `None`: this server has found none.
    causes: Option<u64>,
}

impl FlushErrors {
    /// After an opening. `lacks_records`: hosts of an earlier server may miss what it had answered, which they hear as of a flush that failed.
    pub(super) fn new(lacks_records: bool) -> FlushErrors {
        FlushErrors { failures: u64::from(lacks_records), causes: None }
    }

    /// The failures until now, of which a new host need not be told.
    pub(super) fn until_now(&self) -> Heard {
        Heard(self.failures)
    }

    /// The failures of which a host has heard that goes on with a block device of an earlier server. A client of that server hears by its
    /// connection, which has ended.
    pub(super) fn of_earlier(&self) -> Heard {
        Heard(0)
    }

    /// Whether a host that goes on has still to hear of a failure. `device`: what the block device has heard of, if there is one.
    #[inline]
    pub(super) fn are_owed(&self, device: Option<Heard>) -> bool {
        device.is_some_and(|heard| heard.0 != self.failures)
    }

    /// The answer to a flush that the volume has answered. `causes`: so many flushes of devices and losses there were so far.
    #[inline]
    pub(super) fn answer(
        &mut self,
        heard: &mut Heard,
        result: Result<(), RequestError>,
        causes: u64,
    ) -> Result<(), RequestError> {
        if result.is_ok() && heard.0 == self.failures {
            return Ok(());
        }
        // Several flushes that waited for the same one fail together.
        if result.is_err() && self.causes.is_none_or(|before| causes > before) {
            self.failures += 1;
            self.causes = Some(causes);
        }
        heard.0 = self.failures;
        Err(result.err().unwrap_or(RequestError::Device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Result<(), RequestError> = Err(RequestError::Device);

    #[test]
    fn who_goes_on_hears_that_an_earlier_server_has_left_no_records() {
        let mut errors = FlushErrors::new(true);
        let (mut device, mut new) = (errors.of_earlier(), errors.until_now());
        assert!(errors.are_owed(Some(device)) && !errors.are_owed(Some(new)) && !errors.are_owed(None));
        assert_eq!(errors.answer(&mut new, Ok(()), 0), Ok(()));
        assert_eq!(errors.answer(&mut device, Ok(()), 0), FAILED);
        assert_eq!(errors.answer(&mut device, Ok(()), 0), Ok(()));
        assert!(!errors.are_owed(Some(device)));
        let mut errors = FlushErrors::new(false);
        assert_eq!(errors.answer(&mut errors.of_earlier(), Ok(()), 0), Ok(()));
    }

    #[test]
    fn each_hears_once_whoever_flushes_first() {
        let mut errors = FlushErrors::new(false);
        let (mut writer, mut other) = (errors.until_now(), errors.until_now());
        assert_eq!(errors.answer(&mut writer, Ok(()), 0), Ok(()));
        assert_eq!(errors.answer(&mut other, FAILED, 1), FAILED);
        let mut late = errors.until_now();
        assert_eq!(errors.answer(&mut writer, Ok(()), 1), FAILED);
        for heard in [&mut writer, &mut other, &mut late] {
            assert_eq!(errors.answer(heard, Ok(()), 1), Ok(()));
        }
        // Two that wait for the same flush of a device.
        assert_eq!(errors.answer(&mut writer, FAILED, 2), FAILED);
        assert_eq!(errors.answer(&mut other, FAILED, 2), FAILED);
        assert_eq!(errors.answer(&mut late, Ok(()), 2), FAILED);
        for heard in [&mut writer, &mut other, &mut late] {
            assert_eq!(errors.answer(heard, Ok(()), 2), Ok(()));
        }
    }
}
