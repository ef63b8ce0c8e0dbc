//! Which candidates need no simulation where there are too many: those with devices that others are as good as by their data sheets, for no
//! more money.

use std::collections::{BTreeMap, BTreeSet};

use peryton_device::{Class, Model};

use super::{
    candidate::{Candidate, Member, Mode, Slow},
    catalogue::{AS_GOOD, Catalogue, Kind},
};

/// What a set of devices is for: only sets for the same are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// They hold all data.
    All,
    /// They hold a part, and more room is better.
    Part,
    /// They hold what the fast ones do not.
    Rest,
    /// They take a log.
    Log,
}

/// What a set of devices costs, and what it gives: more of each is better.
struct Figures {
    usd: f64,
    gives: [f64; 5],
}

impl Figures {
    fn of(kind: &Kind, member: Member, role: Role) -> Figures {
        let count = f64::from(member.count);
        let rated = kind.profile.endurance.written.or(kind.profile.endurance.workload());
        // Without a rating none is taken to be worse.
        let endurance = rated.map_or(f64::INFINITY, |bytes| bytes.0 as f64 * count);
        let room = if role == Role::Part { kind.capacity(member).0 as f64 * count } else { 0.0 };
        let [reads, parallel, writes] = match &kind.profile.model {
            Model::Flash(flash) => {
                let dies = f64::from(flash.channels) * f64::from(flash.dies_per_channel);
                let programmed = f64::from(flash.planes) * flash.page.0 as f64 / flash.program.0.max(1) as f64;
                [1.0 / kind.read_time().0.max(1) as f64, dies / flash.read.0.max(1) as f64, dies * programmed]
            }
            Model::Disk(disk) => {
                let rate = disk.tracks.as_ref().map_or(0.0, |tracks| tracks.outer_mb_per_s);
                let shingled = if disk.shingled.is_some() { 0.0 } else { rate };
                [disk.rpm, f64::from(disk.actuators), shingled]
            }
            Model::Fixed(fixed) => [fixed.read, fixed.read, fixed.write].map(|time| 1.0 / time.0.max(1) as f64),
        };
        Figures { usd: kind.dollars(member), gives: [room, endurance, reads, parallel * count, writes * count] }
    }

    fn is_as_good_as(&self, other: &Figures) -> bool {
        self.usd <= other.usd && self.gives.iter().zip(&other.gives).all(|(mine, theirs)| *mine >= theirs * AS_GOOD)
    }
}

/// Leaves out the candidates that have a set of devices for which there is another one of the same class, as good and no dearer. The devices
/// of a drive inside are not looked at.
pub(super) fn left_out(candidates: &mut Vec<Candidate>, catalogue: &Catalogue) {
    let roles = |candidate: &Candidate| {
        let (first, second) = match candidate.mode {
            Mode::Single => (Role::All, Role::Rest),
            Mode::Logging => (Role::All, Role::Log),
            _ => (Role::Part, Role::Rest),
        };
        let slow = if let Some(Slow::Devices(slow)) = candidate.slow { Some((second, slow)) } else { None };
        [Some((first, candidate.fast)), slow].into_iter().flatten()
    };
    let mut all: BTreeMap<(Role, bool), BTreeSet<Member>> = BTreeMap::new();
    for (role, member) in candidates.iter().flat_map(roles) {
        let is_disk = catalogue.kinds[member.kind].profile.class == Class::Hdd;
        all.entry((role, is_disk)).or_default().insert(member);
    }
    let mut kept: BTreeSet<(Role, Member)> = BTreeSet::new();
    for ((role, _), members) in all {
        let mut sets: Vec<(Figures, Member)> = members
            .into_iter()
            .map(|member| (Figures::of(&catalogue.kinds[member.kind], member, role), member))
            .collect();
        sets.sort_by(|a, b| a.0.usd.total_cmp(&b.0.usd).then_with(|| a.1.cmp(&b.1)));
        let mut best: Vec<(Figures, Member)> = Vec::new();
        for (figures, member) in sets {
            if !best.iter().any(|(other, _)| other.is_as_good_as(&figures)) {
                best.push((figures, member));
            }
        }
        kept.extend(best.into_iter().map(|(_, member)| (role, member)));
    }
    candidates.retain(|candidate| roles(candidate).all(|set| kept.contains(&set)));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_device::{Era, PriceList};
    use peryton_units::Bytes;

    use super::{
        super::{Enumerate, Protection, flash::Flash},
        *,
    };

    /// The fear: of the many devices that are sold, the cheapest combinations alone are tried, and none that lives long enough.
    #[test]
    fn what_is_left_of_the_catalogue_has_every_kind_of_device() {
        let catalogue = Catalogue::named(&[], &PriceList::default(), &Era::default()).unwrap();
        let ask = Enumerate {
            capacity: Bytes(40_000_000_000_000),
            most: 8,
            spin_down: false,
            protection: Protection::default(),
            flash: Flash::Whole,
        };
        let all = Candidate::all(&catalogue, &ask);
        assert!(all.len() < super::super::candidate::MOST_CANDIDATES, "{}", all.len());
        let hybrids: BTreeSet<Member> = all.iter().filter(|one| one.is_hybrid()).map(|one| one.fast).collect();
        let writes = |member: &Member| {
            let rated = catalogue.kinds[member.kind].profile.endurance.written.map_or(0.0, |bytes| bytes.0 as f64);
            rated * f64::from(member.count) / 1e15
        };
        let most = hybrids.iter().map(writes).fold(0.0, f64::max);
        let least = hybrids.iter().map(writes).fold(f64::INFINITY, f64::min);
        assert!(least < 1.0 && most > 20.0, "petabytes that may be written: {least} to {most}");
        // No set is as good as another one that is kept, and dearer.
        let figures: Vec<Figures> =
            hybrids.iter().map(|member| Figures::of(&catalogue.kinds[member.kind], *member, Role::Part)).collect();
        for (index, one) in figures.iter().enumerate() {
            let better = figures.iter().enumerate().filter(|(other, _)| *other != index);
            assert!(better.clone().all(|(_, other)| other.usd >= one.usd || !other.is_as_good_as(one)));
        }
    }
}
