//! The sizes to simulate: where the miss-ratio curve falls, and evenly in between.

use std::str::FromStr;

use peryton_sim::Design;
use peryton_units::Bytes;

use super::{Ask, SizeError, fast::Fast, misses::Misses};

/// The most sizes of a curve.
pub const MOST_POINTS: u32 = 64;
/// The smallest size that is chosen, in extents, and the least share of the largest one.
pub(crate) const LEAST_EXTENTS: u64 = 16;
const LEAST_SHARE: u64 = 4096;
/// The extents that the fast device needs in each of the eight parts of a sample that are simulated alone, for the error
/// (docs/sampling.md).
const SAMPLED_EXTENTS: f64 = 8.0 * 64.0;
/// A sample that leaves no sizes below this share of the largest one is not taken.
const LEAST_RANGE: u64 = 16;
/// Sizes to choose from for each doubling. They are as many sixteenths of a power of two, so that people can read them.
const STEPS: u64 = 8;
/// The part of its data by which the largest size is larger than what the trace touches: room for what moves.
pub(crate) const ROOM_SHARE: u64 = 64;

/// Which sizes to simulate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// From hardly any to the size from which on nothing has to leave, or to the device's capacity.
    #[default]
    Chosen,
    /// Chosen between these two, which are simulated as well.
    Between(Bytes, Bytes),
    /// These.
    Given(Vec<Bytes>),
}

impl FromStr for Sizes {
    type Err = String;
    /// `1GiB,2GiB` or `1GiB..64GiB`.
    fn from_str(text: &str) -> Result<Sizes, String> {
        let size = |text: &str| text.trim().parse::<Bytes>().map_err(|error| error.to_string());
        match text.split_once("..") {
            Some((from, to)) => Ok(Sizes::Between(size(from)?, size(to)?)),
            None => text.split(',').map(size).collect::<Result<_, _>>().map(Sizes::Given),
        }
    }
}

impl Sizes {
    pub(super) fn check(&self) -> Result<(), SizeError> {
        let wrong = |problem: &str| Err(SizeError::Setting { problem: format!("--sizes: {problem}") });
        match self {
            Sizes::Between(from, to) if *from == Bytes::ZERO || from >= to => {
                wrong("give a range from a smaller size to a larger one, such as 64MiB..4GiB")
            }
            Sizes::Given(sizes) if sizes.len() > MOST_POINTS as usize => {
                wrong(&format!("give at most {MOST_POINTS} sizes"))
            }
            Sizes::Given(sizes) if sizes.is_empty() || sizes.contains(&Bytes::ZERO) => {
                wrong("give sizes above 0, such as 1GiB,2GiB")
            }
            _ => Ok(()),
        }
    }
}

/// The smallest size that is chosen: of a sample, one that each of its parts can have.
fn least(extent: Bytes, most: Bytes, sample: Option<f64>) -> Bytes {
    let least = Bytes(most.0 / LEAST_SHARE).max(extent * LEAST_EXTENTS);
    let sampled = sample.map(|share| extent * (SAMPLED_EXTENTS / share).ceil() as u64);
    sampled.filter(|sampled| sampled.0 <= most.0 / LEAST_RANGE).map_or(least, |sampled| sampled.max(least))
}

/// The sizes to simulate, in ascending order; `sample`: the share of the trace that is to be simulated, if not all of it.
pub(super) fn sizes(
    ask: &Ask,
    fast: &Fast,
    base: &Design,
    misses: &Misses,
    sample: Option<f64>,
) -> Result<Vec<Bytes>, SizeError> {
    let (least, most, ends) = match &ask.sizes {
        Sizes::Given(sizes) => {
            let mut sizes: Vec<Bytes> = sizes.iter().map(|size| whole(*size, fast.extent)).collect();
            sizes.sort_unstable();
            sizes.dedup();
            return Ok(sizes);
        }
        Sizes::Between(from, to) => (*from, *to, vec![*from, *to]),
        Sizes::Chosen => {
            let most = largest(ask, fast, base, misses);
            // What is simulated is smaller, and has a least size of its own.
            let extent = fast.extent * (1.0 / misses.load).ceil() as u64;
            let simulated = base.load.map_or(Bytes::ZERO, |_| fast.least_simulated(base, misses.load));
            (least(extent, most, sample).max(simulated).min(most), most, vec![fast.now])
        }
    };
    let mut candidates = steps(least, most, fast.extent);
    candidates.extend(ends.into_iter().map(|size| whole(size, fast.extent)).filter(|size| *size <= most.max(fast.now)));
    candidates.sort_unstable();
    candidates.dedup();
    let mut refused = None;
    candidates.retain(|size| ask.at(fast, *size).map_err(|error| refused = Some(error)).is_ok());
    if candidates.is_empty() {
        let source = refused.expect("there was a candidate at least");
        let (design, device) = (base.name.clone(), fast.name.clone());
        return Err(SizeError::NoSize { design, device, least, most, source: Box::new(source) });
    }
    let misses = misses.at(&candidates);
    let own = candidates.iter().position(|size| *size == fast.now);
    Ok(spread(&candidates, &misses, ask.points as usize, own))
}

/// A size of whole extents, at least one.
fn whole(size: Bytes, extent: Bytes) -> Bytes {
    size.0.max(1).checked_next_multiple_of(extent.0).map_or(size, Bytes)
}

/// The size from which on nothing has to leave, or as much as there can be.
fn largest(ask: &Ask, fast: &Fast, base: &Design, misses: &Misses) -> Bytes {
    let extents = |design: &Design| {
        let tuning = &design.tuning;
        let free = u64::from(tuning.demotion_high) + u64::from(tuning.max_moves);
        let touched = misses.extents();
        touched.saturating_add(touched / ROOM_SHARE).saturating_add(free)
    };
    let size = |extents: u64| rounded(Bytes(extents.saturating_mul(fast.extent.0)), fast.extent);
    // How many extents are kept free may depend on the size.
    let first = size(extents(base)).min(fast.most());
    let again = ask.at(fast, first).map_or(first, |design| size(extents(&design)));
    first.max(again).min(fast.most())
}

/// The next size that is a whole number of extents and of sixteenths of the power of two below it.
fn rounded(size: Bytes, extent: Bytes) -> Bytes {
    let power = 1u64 << size.0.max(1).ilog2();
    let step = (power / (2 * STEPS)).max(1);
    whole(Bytes(size.0.checked_next_multiple_of(step).unwrap_or(size.0)), extent)
}

/// Sizes from one to another, eight for each doubling.
pub(crate) fn steps(least: Bytes, most: Bytes, extent: Bytes) -> Vec<Bytes> {
    let factor = (1.0 / STEPS as f64).exp2();
    let mut sizes = vec![whole(most, extent)];
    let mut size = least.0.max(1) as f64;
    while size < most.0 as f64 {
        sizes.push(rounded(Bytes(size as u64), extent).min(most));
        size *= factor;
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Chooses so many of the candidates: the first, the last and `own`, and then again and again the middle of the widest gap. A
/// gap is as wide as its share of the doublings and its share of the misses, so that neither a cliff nor a plain is left out.
pub(crate) fn spread(candidates: &[Bytes], misses: &[f64], points: usize, own: Option<usize>) -> Vec<Bytes> {
    let last = candidates.len() - 1;
    let doublings = (candidates[last].0 as f64 / candidates[0].0 as f64).ln();
    let fall = misses[0] - misses[last];
    let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    // How far along the curve each candidate is.
    let mut along = vec![0.0; candidates.len()];
    for index in 1..candidates.len() {
        let wide = (candidates[index].0 as f64 / candidates[index - 1].0 as f64).ln();
        let deep = misses[index - 1] - misses[index];
        along[index] = along[index - 1] + share(wide, doublings) + share(deep, fall);
    }
    let mut chosen: Vec<usize> = [Some(0), own, Some(last)].into_iter().flatten().collect();
    chosen.sort_unstable();
    chosen.dedup();
    while chosen.len() < points {
        let gaps = chosen.windows(2).filter(|gap| gap[1] > gap[0] + 1);
        let Some(gap) = gaps.max_by(|a, b| (along[a[1]] - along[a[0]]).total_cmp(&(along[b[1]] - along[b[0]]))) else {
            break;
        };
        let (from, to) = (gap[0], gap[1]);
        let middle = (along[from] + along[to]) / 2.0;
        let nearest = (from + 1..to).min_by(|a, b| (along[*a] - middle).abs().total_cmp(&(along[*b] - middle).abs()));
        chosen.push(nearest.expect("there is one between them"));
        chosen.sort_unstable();
    }
    chosen.into_iter().map(|index| candidates[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: all sizes lie on a plain, and the cliff between two of them is missed.
    #[test]
    fn sizes_are_where_the_curve_falls_and_in_between() {
        let extent = Bytes::kib(64);
        let candidates = steps(Bytes::mib(1), Bytes::gib(4), extent);
        assert!((90..=100).contains(&candidates.len()), "{}", candidates.len());
        assert!(candidates.iter().all(|size| size.is_multiple_of(extent)));
        let misses: Vec<f64> = candidates.iter().map(|size| if *size < Bytes::mib(100) { 0.9 } else { 0.1 }).collect();
        let chosen = spread(&candidates, &misses, 12, None);
        assert_eq!((chosen.len(), chosen[0], chosen[11]), (12, Bytes::mib(1), Bytes::gib(4)));
        let cliff = chosen.iter().position(|size| *size >= Bytes::mib(100)).unwrap_or(0);
        let (below, above) = (chosen[cliff - 1].0 as f64, chosen[cliff].0 as f64);
        assert!(above / below < 1.2, "the cliff at 100 MiB lies between {below} and {above}");
        let widest = chosen.windows(2).map(|gap| gap[1].0 as f64 / gap[0].0 as f64).fold(0.0, f64::max);
        assert!(widest < 6.0, "{widest}");
        // A curve that does not fall is divided evenly; the design's own size is always there.
        let chosen = spread(&candidates, &vec![0.5; candidates.len()], 5, Some(3));
        assert!(chosen.len() == 5 && chosen.contains(&candidates[3]));
        assert_eq!(spread(&candidates[..2], &misses[..2], 12, None).len(), 2);
    }

    /// The fear: the smallest size is none in a slice of the sample, so that the whole trace is simulated for its sake.
    #[test]
    fn the_smallest_size_of_a_sample_has_extents_in_each_slice() {
        let (extent, most) = (Bytes::kib(16), Bytes::gib(1));
        assert_eq!(least(extent, most, None), Bytes::kib(256));
        let sampled = least(extent, most, Some(0.25));
        assert_eq!(sampled, extent * (64 * 8 * 4));
        // Of so little data no sample is worth its range of sizes.
        assert_eq!(least(extent, Bytes::mib(64), Some(0.25)), Bytes::kib(256));
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        let bad = [
            Sizes::Between(Bytes::gib(2), Bytes::gib(1)),
            Sizes::Between(Bytes::ZERO, Bytes::gib(1)),
            Sizes::Given(vec![]),
            Sizes::Given(vec![Bytes::ZERO]),
            Sizes::Given(vec![Bytes::gib(1); 65]),
        ];
        for sizes in bad {
            let error = sizes.check().expect_err("it is refused").to_string();
            assert!(error.starts_with("--sizes: give"), "{error}");
        }
        assert_eq!("1GiB..2GiB".parse(), Ok(Sizes::Between(Bytes::gib(1), Bytes::gib(2))));
        assert_eq!("1GiB, 2MiB".parse(), Ok(Sizes::Given(vec![Bytes::gib(1), Bytes::mib(2)])));
        for text in ["", "1GiB..", "1GiB,,2GiB", "large"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
        assert!(Sizes::Between(Bytes::gib(1), Bytes::gib(2)).check().is_ok() && Sizes::Chosen.check().is_ok());
    }
}
