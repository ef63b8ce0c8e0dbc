//! Write amplification from published models, as small numeric references that share no code with the simulated device.
//!
//! In all of them `spare` is α, physical over logical slots, a block has `pages` pages, and of the data a share `hot` (f) takes a
//! share `traffic` (r) of the writes, each part uniformly. Time is measured in writes of as many pages as the device has, so a hot
//! page dies at rate r/f and a cold one at rate (1 − r)/(1 − f).

/// Hot and cold data: a share of the data that takes a share of the writes.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Share of the data that is hot, above 0 and below 1.
    pub hot: f64,
    /// Share of the writes that go to it.
    pub traffic: f64,
}

/// All data alike, as a mix of two equal halves.
pub const UNIFORM: Mix = Mix { hot: 0.5, traffic: 0.5 };

impl Mix {
    fn rates(self) -> (f64, f64) {
        (self.traffic / self.hot, (1.0 - self.traffic) / (1.0 - self.hot))
    }
}

/// Cleaning in the order of writing, which Desnoyers calls LRU ("Analytic modeling of SSD write performance", SYSTOR 2012, and
/// "Analytic models of SSD write performance", TOS 2014, the sections on LRU and on non-uniform traffic): every page waits for the
/// same time between being written and being cleaned. The log of α slots is written once around in α/A, after which a page of rate λ
/// is still valid with probability p = exp(−λ α/A). A page is copied p/(1 − p) times for each write by the host, so that
/// A = Σ r/(1 − p). For one class this is A = 1/(1 − exp(−α/A)).
pub fn fifo(spare: f64, mix: Mix) -> f64 {
    let (hot, cold) = mix.rates();
    let written = |amplification: f64| {
        let gone = |rate: f64| 1.0 - (-rate * spare / amplification).exp();
        mix.traffic / gone(hot) + (1.0 - mix.traffic) / gone(cold)
    };
    // `written` grows more slowly than A at the solution.
    let (mut low, mut high) = (1.0, 1e6);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if written(middle) > middle { low = middle } else { high = middle }
    }
    low
}

/// The least valid of `choices` random blocks (Van Houdt, "A mean field model for a class of garbage collection algorithms in
/// flash-based solid state drives", SIGMETRICS 2013), with hot and cold data and separate blocks for what the host writes and for what
/// is moved, the second of the two write frontiers of Van Houdt, "Performance of garbage collection algorithms for flash-based solid
/// state drives with hot/cold data", Performance Evaluation 70, 2013. As `choices` grows it tends to greedy cleaning.
///
/// The fixed point of the mean field limit. A block's state is its number of valid hot and of valid cold pages. States only lose pages
/// until the block is cleaned, so that one pass from full to empty blocks finds how many there are of each. Cleaning takes blocks with
/// j valid pages with probability S(j)ᵈ − S(j + 1)ᵈ, where S(j) is the share of blocks with j valid pages or more. The blocks of the
/// host begin with a binomial share r of hot pages. Those of moved pages begin as one victim after the other fills them: the pages of a
/// victim are alike (mostly cold, if its block was itself of moved pages), so that their blocks differ more than binomially. The
/// amplification and the content of moved blocks are those which reproduce themselves.
pub fn choices(spare: f64, pages: usize, choices: f64, mix: Mix) -> f64 {
    let mut by_moves = binomial(pages, mix.hot);
    let mut carried = vec![vec![0.0; pages + 1]; pages + 1];
    carried[0][0] = 1.0;
    // What victims hold beyond the amplification that is assumed, once the content of moved blocks reproduces itself.
    let mut beyond = |amplification: f64| {
        let mut moved = 0.0;
        for _ in 0..100 {
            let victims = victims(spare, pages, choices, mix, amplification, &by_moves);
            moved = victims.iter().map(|victim| victim.share * (victim.hot + victim.cold) as f64).sum();
            let content = filled(&victims, &mut carried, pages);
            let change: f64 = by_moves.iter().zip(&content).map(|(share, next)| (next - share).abs()).sum();
            by_moves = content;
            if change < 1e-5 {
                break;
            }
        }
        1.0 + moved - amplification
    };
    let (mut low, mut high) = (1.0, 1.1 * fifo(spare, mix).max(spare / (spare - 1.0)));
    while high / low > 1.0002 {
        let middle = f64::sqrt(low * high);
        if beyond(middle) > 0.0 { low = middle } else { high = middle }
    }
    low
}

/// Victims with these valid pages, and how many there are in a unit of time for each page of the device (or their share).
#[derive(Clone, Copy, Debug)]
struct Victim {
    hot: usize,
    cold: usize,
    share: f64,
}

fn victims(spare: f64, pages: usize, choices: f64, mix: Mix, amplification: f64, by_moves: &[f64]) -> Vec<Victim> {
    let (hot_rate, cold_rate) = mix.rates();
    let blocks = spare / pages as f64;
    let cleaned = amplification / pages as f64;
    // What enters the states of a level (a number of valid pages), by their number of hot pages.
    let mut entering: Vec<f64> = binomial(pages, mix.traffic)
        .iter()
        .zip(by_moves)
        .map(|(host, moves)| (host + moves * (amplification - 1.0)) / pages as f64)
        .collect();
    let (mut found, mut fuller) = (Vec::new(), 0.0f64);
    for valid in (0..=pages).rev() {
        let dying: Vec<f64> =
            (0..=valid).map(|hot| hot as f64 * hot_rate + (valid - hot) as f64 * cold_rate).collect();
        // The rate at which a block of this level is cleaned, if the level has a share `here` of all blocks.
        let picked = |here: f64| cleaned * ((fuller + here).powf(choices) - fuller.powf(choices)) / (blocks * here);
        let held = |here: f64| {
            let rate = picked(here);
            entering.iter().zip(&dying).map(|(entering, dying)| entering / (dying + rate)).sum::<f64>() / blocks
        };
        let (mut low, mut high) = (0.0, 1.0 - fuller);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if held(middle) > middle { low = middle } else { high = middle }
        }
        let here = (low + high) / 2.0;
        let rate = if here > 0.0 { picked(here) } else { 0.0 };
        let mut below = vec![0.0; valid.max(1)];
        for (hot, (&entering, &dying)) in entering.iter().zip(&dying).enumerate() {
            let there = entering / (dying + rate).max(f64::MIN_POSITIVE);
            if valid > 0 {
                found.push(Victim { hot, cold: valid - hot, share: there * rate });
            }
            if hot > 0 {
                below[hot - 1] += there * hot as f64 * hot_rate;
            }
            if hot < valid {
                below[hot] += there * (valid - hot) as f64 * cold_rate;
            }
        }
        fuller = (fuller + here).min(1.0);
        entering = below;
    }
    found
}

/// The distribution of the hot pages in blocks that are filled by one victim after the other. What does not fit of the last one is
/// carried to the next block: `carried` is the distribution of that, by hot and by cold pages. It is replaced by half only: where
/// victims have equally many pages, what is left goes around in a circle, of which the mean is wanted.
fn filled(victims: &[Victim], carried: &mut [Vec<f64>], pages: usize) -> Vec<f64> {
    const NEGLIGIBLE: f64 = 1e-7;
    let all: f64 = victims.iter().map(|victim| victim.share).sum();
    let victims: Vec<Victim> = victims
        .iter()
        .map(|victim| Victim { share: victim.share / all, ..*victim })
        .filter(|victim| victim.share > 1e-5)
        .collect();
    let kept: f64 = victims.iter().map(|victim| victim.share).sum();
    // By pages in the block and how many of them are hot.
    let mut partly = vec![vec![0.0; pages + 1]; pages];
    let mut full = vec![0.0; pages + 1];
    let mut left = vec![vec![0.0; pages + 1]; pages + 1];
    for (hot, row) in carried.iter().enumerate() {
        for (cold, &share) in row.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            partly[hot + cold][hot] += share;
        }
    }
    for before in 0..pages {
        for hot_before in 0..=before {
            let share = partly[before][hot_before];
            if share < NEGLIGIBLE {
                continue;
            }
            for victim in &victims {
                let share = share * victim.share / kept;
                let fits = pages - before;
                if victim.hot + victim.cold < fits {
                    partly[before + victim.hot + victim.cold][hot_before + victim.hot] += share;
                    continue;
                }
                for hot in fits.saturating_sub(victim.cold)..=victim.hot.min(fits) {
                    let share = share * drawn(victim.hot, victim.cold, fits, hot);
                    full[hot_before + hot] += share;
                    left[victim.hot - hot][victim.cold - (fits - hot)] += share;
                }
            }
        }
    }
    let sum: f64 = full.iter().sum();
    full.iter_mut().for_each(|share| *share /= sum);
    for (old, new) in carried.iter_mut().flatten().zip(left.iter().flatten()) {
        *old = (*old + new / sum) / 2.0;
    }
    full
}

/// The probability that of `fits` pages, drawn from `hot` and `cold` ones, `chosen` are hot.
fn drawn(hot: usize, cold: usize, fits: usize, chosen: usize) -> f64 {
    ways(hot, chosen) * ways(cold, fits - chosen) / ways(hot + cold, fits)
}

fn ways(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// The distribution of the number of successes in `n` trials.
fn binomial(n: usize, p: f64) -> Vec<f64> {
    let mut row = vec![1.0];
    for _ in 0..n {
        let mut next = vec![0.0; row.len() + 1];
        for (successes, &share) in row.iter().enumerate() {
            next[successes] += share * (1.0 - p);
            next[successes + 1] += share * p;
        }
        row = next;
    }
    row
}
