//! Decides which parts of a reading become events.

use super::report::{DriveHealth, Warning};

/// The shares of a drive's life, in per cent, at which its owner should think of its replacement.
const STEPS: [u32; 3] = [80, 90, 100];

/// Something that the owner of a volume should know about a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Concern {
    /// A warning's name, `percentage_used` or `media_errors`.
    pub(crate) about: &'static str,
    /// A sentence about the drive, without its name.
    pub(crate) text: String,
}

/// What is new in a reading. `before`: the last reading of the same server, if there is one; without it, everything is new that is bad by
/// itself, but errors are not, which may be years old.
pub(crate) fn judge(before: Option<&DriveHealth>, now: &DriveHealth) -> Vec<Concern> {
    let had = |warning: &Warning| before.is_some_and(|before| before.warnings.contains(warning));
    let new = now.warnings.iter().filter(|warning| !had(warning));
    let mut all: Vec<Concern> =
        new.map(|warning| Concern { about: warning.name(), text: warning.meaning().to_owned() }).collect();
    if let Some(used) = now.percentage_used {
        let was = before.and_then(|before| before.percentage_used).unwrap_or(0);
        if let Some(step) = STEPS.into_iter().rfind(|step| used >= *step && was < *step) {
            let then = if step >= 100 { "replace it" } else { "think of its replacement" };
            let text = format!("has used up {used} % of the life that its manufacturer expects: {then}");
            all.push(Concern { about: "percentage_used", text });
        }
    }
    let errors = before.and_then(|before| before.media_errors).zip(now.media_errors);
    if let Some((was, is)) = errors.filter(|(was, is)| is > was) {
        let text = format!("reports {} new errors of its medium, {is} in its life", is - was);
        all.push(Concern { about: "media_errors", text });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(used: u32, errors: u64, warnings: &[Warning]) -> DriveHealth {
        DriveHealth {
            percentage_used: Some(used),
            media_errors: Some(errors),
            warnings: warnings.to_vec(),
            ..DriveHealth::of("sda")
        }
    }

    fn told(before: Option<&DriveHealth>, now: &DriveHealth) -> Vec<&'static str> {
        judge(before, now).into_iter().map(|concern| concern.about).collect()
    }

    #[test]
    fn what_is_new_is_told_once() {
        let (well, hot) = (drive(79, 5, &[]), drive(79, 5, &[Warning::Temperature]));
        assert_eq!(told(None, &well), [""; 0], "errors of earlier years are no news");
        assert_eq!(told(None, &hot), ["temperature"]);
        assert_eq!(told(Some(&well), &hot), ["temperature"]);
        assert_eq!(told(Some(&hot), &hot), [""; 0]);
        assert_eq!(told(Some(&hot), &drive(79, 7, &[])), ["media_errors"]);
        assert!(judge(Some(&hot), &drive(79, 7, &[]))[0].text.contains("2 new errors"));
    }

    #[test]
    fn each_step_of_wear_is_told_once() {
        let steps: Vec<usize> =
            (78..103).map(|used| told(Some(&drive(used, 0, &[])), &drive(used + 1, 0, &[])).len()).collect();
        assert_eq!(steps.iter().sum::<usize>(), 3);
        assert_eq!((steps[1], steps[11], steps[21]), (1, 1, 1));
        assert_eq!(told(None, &drive(95, 0, &[])).len(), 1, "of several steps at once the last");
        assert!(judge(None, &drive(120, 0, &[]))[0].text.ends_with("replace it"));
    }
}
