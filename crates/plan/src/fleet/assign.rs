//! Which volumes share a drive, and of which kind it is, at the least cost.
//!
//! Up to [`EXACT`] volumes every partition is looked at: the best distribution of a set is the cheapest drive for a part of it that has its
//! first volume, and the best distribution of the rest (dynamic programming over subsets). For more, drives are filled one after the
//! other, each with the kind whose volumes cost least (greedy set cover; Chvátal, Mathematics of Operations Research 4, 1979), and then
//! drives are emptied into others, united and replaced by cheaper ones as long as that helps. A bound says how far that may be from the best.

use rayon::prelude::*;

/// The most volumes that are distributed exactly.
pub const EXACT: usize = 10;
/// The most passes of improvement.
const MOST_PASSES: usize = 4;
/// So many volumes in turn that do not fit end the filling of a drive.
const MOST_REFUSED: usize = 64;
/// Kinds of drives that are tried for each drive, after the first one: the best of that.
const TRIED: usize = 8;

/// What drives can carry.
pub(super) trait Carries: Sync {
    /// The number of volumes.
    fn volumes(&self) -> usize;
    /// The number of kinds of drives; those that cost least come first.
    fn kinds(&self) -> usize;
    /// The least that a drive costs.
    fn least_usd(&self, kind: usize) -> f64;
    /// What a drive costs that carries a group; `None` if it does not carry it.
    fn usd(&self, kind: usize, group: &[usize]) -> Option<f64>;
    /// The least share of a drive that a volume takes.
    fn weight(&self, kind: usize, volume: usize) -> f64;
}

/// A drive with its volumes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assigned {
    pub(super) kind: usize,
    pub(super) group: Vec<usize>,
    pub(super) usd: f64,
}

/// Distributes all volumes; `None` if one of them cannot be carried by any drive. `progress` gets the number of volumes that have a drive.
pub(super) fn assign(carries: &dyn Carries, progress: &(dyn Fn(u64, u64) + Sync)) -> Option<Vec<Assigned>> {
    let mut drives = match carries.volumes() {
        0 => Vec::new(),
        count if count <= EXACT => exact(carries)?,
        _ => improved(carries, greedy(carries, progress)?),
    };
    for drive in &mut drives {
        drive.group.sort_unstable();
    }
    drives.sort_by(|a, b| a.group.cmp(&b.group));
    Some(drives)
}

/// The cheapest drive that carries a group.
pub(super) fn cheapest(carries: &dyn Carries, group: &[usize]) -> Option<Assigned> {
    let mut best: Option<Assigned> = None;
    for kind in 0..carries.kinds() {
        if best.as_ref().is_some_and(|best| carries.least_usd(kind) >= best.usd) {
            continue;
        }
        if let Some(usd) = carries.usd(kind, group)
            && best.as_ref().is_none_or(|best| usd < best.usd)
        {
            best = Some(Assigned { kind, group: group.to_vec(), usd });
        }
    }
    best
}

fn members(set: usize) -> Vec<usize> {
    (0..usize::BITS as usize).filter(|bit| set >> bit & 1 == 1).collect()
}

fn exact(carries: &dyn Carries) -> Option<Vec<Assigned>> {
    let sets = 1usize << carries.volumes();
    let drives: Vec<Option<Assigned>> =
        (0..sets).into_par_iter().map(|set| if set == 0 { None } else { cheapest(carries, &members(set)) }).collect();
    // The least cost of each set, and the drive that has its first volume.
    let mut best: Vec<(f64, usize)> = vec![(f64::INFINITY, 0); sets];
    best[0] = (0.0, 0);
    for set in 1..sets {
        let first = set & set.wrapping_neg();
        let rest = set ^ first;
        let mut part = rest;
        loop {
            let group = part | first;
            if let Some(drive) = &drives[group] {
                let usd = drive.usd + best[set ^ group].0;
                if usd < best[set].0 {
                    best[set] = (usd, group);
                }
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & rest;
        }
    }
    let (mut set, mut found) = (sets - 1, Vec::new());
    while set != 0 {
        let group = best[set].1;
        found.push(drives[group].clone().filter(|_| group != 0)?);
        set ^= group;
    }
    Some(found)
}

/// Fills drives one after the other.
fn greedy(carries: &dyn Carries, progress: &(dyn Fn(u64, u64) + Sync)) -> Option<Vec<Assigned>> {
    let count = carries.volumes();
    // What each volume costs as a share of the drive that it takes the least of.
    let value = |volume: usize| {
        let share = |kind: usize| carries.least_usd(kind) * carries.weight(kind, volume);
        (0..carries.kinds()).map(share).fold(f64::INFINITY, f64::min)
    };
    let values: Vec<f64> = (0..count).into_par_iter().map(value).collect();
    let mut left: Vec<usize> = (0..count).collect();
    left.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
    let (mut drives, mut kinds): (Vec<Assigned>, Vec<usize>) = (Vec::new(), (0..carries.kinds()).collect());
    while !left.is_empty() {
        let per_value =
            |drive: &Assigned| drive.usd / drive.group.iter().map(|volume| values[*volume]).sum::<f64>().max(1e-12);
        let mut filled: Vec<Assigned> = kinds.par_iter().filter_map(|kind| fill(carries, *kind, &left)).collect();
        if filled.is_empty() && kinds.len() < carries.kinds() {
            kinds = (0..carries.kinds()).collect();
            continue;
        }
        filled.sort_by(|a, b| per_value(a).total_cmp(&per_value(b)).then(a.kind.cmp(&b.kind)));
        kinds = filled.iter().take(TRIED).map(|drive| drive.kind).collect();
        // The largest volume that is left is carried by none of them.
        let best = filled.into_iter().next()?;
        left.retain(|volume| !best.group.contains(volume));
        let best = cheapest(carries, &best.group).unwrap_or(best);
        drives.push(best);
        progress((count - left.len()) as u64, count as u64);
    }
    Some(drives)
}

/// A drive with the first volume that is left, and with others as long as they fit.
fn fill(carries: &dyn Carries, kind: usize, left: &[usize]) -> Option<Assigned> {
    let (mut group, mut refused) = (vec![left[0]], 0);
    let mut usd = carries.usd(kind, &group)?;
    for volume in &left[1..] {
        group.push(*volume);
        match carries.usd(kind, &group) {
            Some(more) => (usd, refused) = (more, 0),
            None => {
                group.pop();
                refused += 1;
                if refused == MOST_REFUSED {
                    break;
                }
            }
        }
    }
    Some(Assigned { kind, group, usd })
}

/// Empties drives into others, and unites them, as long as that costs less.
fn improved(carries: &dyn Carries, mut drives: Vec<Assigned>) -> Vec<Assigned> {
    for _ in 0..MOST_PASSES {
        let before: f64 = drives.iter().map(|drive| drive.usd).sum();
        // Those with the least on them are emptied first.
        drives.sort_by(|a, b| a.group.len().cmp(&b.group.len()).then(a.group.cmp(&b.group)));
        let mut at = 0;
        while at < drives.len() {
            match emptied(carries, &drives, at).or_else(|| united(carries, &drives, at)) {
                Some(fewer) => drives = fewer,
                None => at += 1,
            }
        }
        let after: f64 = drives.iter().map(|drive| drive.usd).sum();
        if after >= before {
            break;
        }
    }
    drives
}

/// The drives without one of them, whose volumes are on the others, if that costs less.
fn emptied(carries: &dyn Carries, drives: &[Assigned], at: usize) -> Option<Vec<Assigned>> {
    let mut others: Vec<Assigned> = drives.to_vec();
    let gone = others.remove(at);
    let mut more = 0.0;
    for volume in &gone.group {
        let place = |drive: &Assigned| -> Option<f64> {
            let group: Vec<usize> = drive.group.iter().chain([volume]).copied().collect();
            carries.usd(drive.kind, &group)
        };
        let found = others
            .par_iter()
            .map(place)
            .collect::<Vec<_>>()
            .into_iter()
            .enumerate()
            .filter_map(|(index, usd)| Some((index, usd?)));
        let (index, usd) =
            found.min_by(|a, b| (a.1 - others[a.0].usd).total_cmp(&(b.1 - others[b.0].usd)).then(a.0.cmp(&b.0)))?;
        more += usd - others[index].usd;
        if more >= gone.usd {
            return None;
        }
        others[index].usd = usd;
        others[index].group.push(*volume);
    }
    Some(others)
}

/// The drives with one of them united with another one on the cheapest drive that carries both, if that costs less.
fn united(carries: &dyn Carries, drives: &[Assigned], at: usize) -> Option<Vec<Assigned>> {
    let one = &drives[at];
    let with = |other: &Assigned| {
        let group: Vec<usize> = one.group.iter().chain(&other.group).copied().collect();
        cheapest(carries, &group).filter(|both| both.usd < one.usd + other.usd)
    };
    let both = drives[at + 1..]
        .par_iter()
        .map(with)
        .collect::<Vec<_>>()
        .into_iter()
        .enumerate()
        .find_map(|(place, both)| Some((at + 1 + place, both?)));
    let (index, both) = both?;
    let mut fewer = drives.to_vec();
    fewer.remove(index);
    fewer[at] = both;
    Some(fewer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    /// Volumes with two resources and drives with room for so much of both.
    #[derive(Debug)]
    struct Boxes {
        volumes: Vec<[f64; 2]>,
        /// Price and room, the cheapest first.
        kinds: Vec<(f64, [f64; 2])>,
    }

    impl Carries for Boxes {
        fn volumes(&self) -> usize {
            self.volumes.len()
        }
        fn kinds(&self) -> usize {
            self.kinds.len()
        }
        fn least_usd(&self, kind: usize) -> f64 {
            self.kinds[kind].0
        }
        fn usd(&self, kind: usize, group: &[usize]) -> Option<f64> {
            let (usd, room) = self.kinds[kind];
            let sum = |of: usize| group.iter().map(|volume| self.volumes[*volume][of]).sum::<f64>();
            (sum(0) <= room[0] && sum(1) <= room[1]).then_some(usd)
        }
        fn weight(&self, kind: usize, volume: usize) -> f64 {
            let room = self.kinds[kind].1;
            (0..2).map(|of| self.volumes[volume][of] / room[of]).fold(0.0, f64::max)
        }
    }

    /// Every partition, one volume after the other: into each group that there is, or a new one.
    fn brute_force(carries: &dyn Carries, volume: usize, groups: &mut Vec<Vec<usize>>) -> f64 {
        if volume == carries.volumes() {
            let usd = |group: &Vec<usize>| {
                let all = (0..carries.kinds()).filter_map(|kind| carries.usd(kind, group));
                all.fold(f64::INFINITY, f64::min)
            };
            return groups.iter().map(usd).sum();
        }
        let mut best = f64::INFINITY;
        for index in 0..groups.len() {
            groups[index].push(volume);
            best = best.min(brute_force(carries, volume + 1, groups));
            groups[index].pop();
        }
        groups.push(vec![volume]);
        best = best.min(brute_force(carries, volume + 1, groups));
        groups.pop();
        best
    }

    fn total(drives: &[Assigned]) -> f64 {
        drives.iter().map(|drive| drive.usd).sum()
    }

    fn complete(drives: &[Assigned], count: usize) {
        let mut all: Vec<usize> = drives.iter().flat_map(|drive| drive.group.clone()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..count).collect::<Vec<_>>(), "each volume is on one drive");
    }

    fn boxes(most: usize) -> impl Strategy<Value = Boxes> {
        let volumes = prop::collection::vec([1.0..60.0f64, 1.0..60.0f64], 1..=most);
        let kinds = prop::collection::vec((10.0..100.0f64, [60.0..150.0f64, 60.0..150.0f64]), 1..4);
        (volumes, kinds).prop_map(|(volumes, mut kinds)| {
            kinds.sort_by(|a, b| a.0.total_cmp(&b.0));
            Boxes { volumes, kinds }
        })
    }

    proptest! {
        #[test]
        fn few_volumes_are_distributed_as_brute_force_does(boxes in boxes(7)) {
            let drives = assign(&boxes, &|_, _| {}).unwrap();
            complete(&drives, boxes.volumes.len());
            let best = brute_force(&boxes, 0, &mut Vec::new());
            prop_assert!((total(&drives) - best).abs() < 1e-9, "{} against {best}", total(&drives));
        }

        #[test]
        fn what_is_filled_one_after_the_other_is_complete_and_at_most_a_drive_dearer(boxes in boxes(9)) {
            let drives = improved(&boxes, greedy(&boxes, &|_, _| {}).unwrap());
            complete(&drives, boxes.volumes.len());
            drives.iter().for_each(|drive| assert_eq!(boxes.usd(drive.kind, &drive.group), Some(drive.usd)));
            let best = total(&exact(&boxes).unwrap());
            let drive = drives.iter().map(|drive| drive.usd).fold(0.0, f64::max);
            prop_assert!(total(&drives) <= best + drive + 1e-9, "{} against {best}", total(&drives));
        }
    }

    #[test]
    fn a_volume_that_nothing_carries_has_no_distribution() {
        for count in [3, 30] {
            let mut volumes = vec![[1.0, 1.0]; count];
            volumes[1] = [1e9, 1.0];
            assert_eq!(assign(&Boxes { volumes, kinds: vec![(1.0, [10.0, 10.0])] }, &|_, _| {}), None);
        }
    }
}
