//! Who has heard of a failed flush. A flush covers what every client and the block device wrote, so each of them hears of its failure
//! by a flush of its own, once (as Linux's `errseq_t`): whoever flushes first takes nothing from the others.

use peryton_engine::RequestError;

/// How many failures one client, or the block device, has heard of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard(u64);

/// The failures that flushes of the host were told of.
#[derive(Debug, Default)]
pub(super) struct FlushErrors {
    /// Failures that may concern what the host wrote.
    failures: u64,
    /// How many of their causes there were when the last of these was found: flushes of devices that failed, and losses of what was answered.
    causes: u64,
}

impl FlushErrors {
    /// The failures until now, of which a new client need not be told.
    pub(super) fn until_now(&self) -> Heard {
        Heard(self.failures)
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
        if result.is_err() && (causes > self.causes || self.failures == 0) {
            self.failures += 1;
            self.causes = causes;
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
    fn each_hears_once_whoever_flushes_first() {
        let mut errors = FlushErrors::default();
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
