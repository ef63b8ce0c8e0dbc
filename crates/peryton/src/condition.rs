//! The condition of a volume that is not being served: whether it was closed, and what of it is dirty, damaged and lost. Each is a thing of
//! its own, with a count and a bit of the exit code.

use peryton_engine::{Inspection, Metadata, Opened};
use serde_json::{Value, json};

use crate::{exit_code, failure::Failure};

/// The loss of a log that was gone before the volume was opened.
pub const WHAT_IS_NOT_KNOWN: &str = "the data that only that device had; their amount is not known";

/// The condition of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Commits that opening the volume replays, if it was not closed in good order.
    pub not_closed: Option<u64>,
    /// Extents, of a log blocks, of which the slow device (the primary) does not have the newest data.
    pub dirty: u64,
    /// Copies of metadata that are damaged; at least one if the volume cannot be opened.
    pub damaged: u64,
    /// Extents whose data are lost.
    pub lost: u64,
    /// Whether more may be lost, and nothing says what.
    pub is_loss_unknown: bool,
}

impl Condition {
    /// That of a volume that was inspected; `None` if it was not seen.
    pub fn of(found: &Inspection) -> Option<Condition> {
        let findings = found.findings.len() as u64;
        match &found.opened {
            _ if found.metadata == Metadata::Unseen => None,
            Err(_) => Some(Condition { damaged: findings.max(1), ..Condition::default() }),
            Ok(opened) => {
                let known = Condition::of_opened(opened);
                // Damage that opening does not count, such as that of a superblock.
                let is_uncounted = found.metadata != Metadata::Whole && opened.clean && opened.repaired == 0;
                Some(if is_uncounted { Condition { damaged: findings.max(1), ..known } } else { known })
            }
        }
    }

    /// That of a volume before it was opened.
    pub fn of_opened(opened: &Opened) -> Condition {
        Condition {
            not_closed: (!opened.clean).then_some(opened.commits),
            dirty: opened.dirty,
            damaged: opened.repaired,
            lost: opened.lost,
            is_loss_unknown: opened.is_loss_unknown,
        }
    }

    /// That of the same volume once it was repaired: it is closed, and nothing of it is damaged.
    pub fn repaired(self) -> Condition {
        Condition { not_closed: None, damaged: 0, ..self }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        let bits = [
            (self.not_closed.is_some(), exit_code::NOT_CLOSED),
            (self.dirty > 0, exit_code::DIRTY),
            (self.damaged > 0, exit_code::DAMAGED),
            (self.lost > 0 || self.is_loss_unknown, exit_code::LOST),
        ];
        bits.into_iter().filter(|(holds, _)| *holds).map(|(_, bit)| bit).sum()
    }

    /// The end of a verb that has printed it.
    pub fn end(&self) -> Result<(), Failure> {
        match self.code() {
            exit_code::DONE => Ok(()),
            code => Err(Failure::quietly(code)),
        }
    }

    /// The condition in words; `unit` is what is counted.
    pub fn words(&self, unit: &str) -> String {
        let closed = match self.not_closed {
            None => "closed".to_owned(),
            Some(1) => "not closed (1 commit to replay)".to_owned(),
            Some(commits) => format!("not closed ({commits} commits to replay)"),
        };
        let Condition { dirty, damaged, lost, .. } = self;
        let lost = match self.is_loss_unknown {
            false => format!("{lost} {unit} lost"),
            true => "the loss is not known".to_owned(),
        };
        format!("{closed}; {dirty} {unit} dirty, {damaged} copies of metadata damaged, {lost}")
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        json!({
            "closed": self.not_closed.is_none(),
            "commits_to_replay": self.not_closed.unwrap_or(0),
            "dirty": self.dirty,
            "damaged": self.damaged,
            "lost": self.lost,
            "is_loss_unknown": self.is_loss_unknown,
            "exit_code": self.code(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: what is lost hides behind a volume that was closed in good order, or one thing behind another.
    #[test]
    fn each_thing_has_a_bit_of_its_own_and_a_count() {
        let opened = Opened { clean: true, lost: 12, ..Opened::default() };
        let lost = Condition::of_opened(&opened);
        assert_eq!(lost.code(), exit_code::LOST);
        assert!(lost.words("extents").contains("12 extents lost") && !lost.words("extents").contains("clean"));
        let opened = Opened { clean: false, commits: 3, dirty: 4, repaired: 5, lost: 6, ..Opened::default() };
        let all = Condition::of_opened(&opened);
        assert_eq!(all.code(), exit_code::NOT_CLOSED + exit_code::DIRTY + exit_code::DAMAGED + exit_code::LOST);
        assert_eq!(all.repaired().code(), exit_code::DIRTY + exit_code::LOST);
        assert_eq!(Condition::default().code(), exit_code::DONE);
        let unknown = Condition::of_opened(&Opened { clean: true, is_loss_unknown: true, ..Opened::default() });
        assert!(unknown.code() == exit_code::LOST && unknown.words("blocks").ends_with("the loss is not known"));
        // No sum of bits is the code of a failure.
        let failures = [exit_code::FAILED, exit_code::BAD_INPUT, exit_code::NOT_SERVED];
        assert!(failures.iter().all(|code| code & all.code() == 0), "{failures:?}");
    }
}
