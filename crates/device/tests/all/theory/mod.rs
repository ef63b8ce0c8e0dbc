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
/// state drives with hot/cold data", Performance Evaluation 70, 2013.
///
/// The fixed point of the mean field limit. A block's state is its number of valid hot and of valid cold pages. States only lose pages
/// until the block is cleaned, so that one pass from full to empty blocks finds how many there are of each. Cleaning takes blocks with
/// j valid pages with probability S(j)ᵈ − S(j + 1)ᵈ, where S(j) is the share of blocks with j valid pages or more. The blocks of the
/// host begin with a binomial share r of hot pages. Those of moved pages begin as one victim after the other fills them: the pages of a
/// victim are alike (mostly cold, if its block was itself of moved pages), so that their blocks differ more than binomially. The
/// amplification and the content of moved blocks are those which reproduce themselves.
pub fn choices(spare: f64, pages: usize, choices: f64, mix: Mix) -> f64 {
    reproduced(spare, pages, mix, |amplification, by_moves| {
        least_of(choices, Blocks { spare, pages, mix, amplification, by_moves })
    })
}

/// The same where the block with the least valid pages of all is taken: the greedy limit of many choices. Here a share
/// of the blocks is taken as soon as they reach a level, and the others a page later, as if the first by number always came first. Where
/// equals are drawn among, as above, those that wait longest for their next loss (with cold pages) are taken more often, which costs less.
pub fn greedy(spare: f64, pages: usize, mix: Mix) -> f64 {
    reproduced(spare, pages, mix, |amplification, by_moves| {
        let blocks = Blocks { spare, pages, mix, amplification, by_moves };
        let (mut low, mut high) = (0.0, pages as f64);
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if at_level(middle, blocks).1 > 1.0 { low = middle } else { high = middle }
        }
        at_level(high, blocks).0
    })
}

/// The amplification with which victims are found to hold as many pages as are moved, once the content of moved blocks reproduces itself.
fn reproduced(spare: f64, pages: usize, mix: Mix, victims: impl Fn(f64, &[f64]) -> Vec<Victim>) -> f64 {
    let mut by_moves = binomial(pages, mix.hot);
    let mut carried = vec![vec![0.0; pages + 1]; pages + 1];
    carried[0][0] = 1.0;
    // What victims hold beyond the amplification that is assumed.
    let mut beyond = |amplification: f64| {
        let mut moved = 0.0;
        for _ in 0..100 {
            let victims = victims(amplification, &by_moves);
            moved = victims.iter().map(|victim| victim.share * (victim.hot + victim.cold) as f64).sum();
            let content = filled(&victims, &mut carried, pages);
            let change: f64 = by_moves.iter().zip(&content).map(|(share, next)| (next - share).abs()).sum();
            by_moves = content;
            if change < 3e-5 {
                break;
            }
        }
        1.0 + moved - amplification
    };
    let (mut low, mut high) = (1.0, 1.1 * fifo(spare, mix).max(spare / (spare - 1.0)));
    while high / low > 1.0005 {
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

/// The blocks of a device, in units of its pages, and what they begin with: with binomially many hot pages if the host writes them, and
/// with this distribution if moved pages do.
#[derive(Clone, Copy)]
struct Blocks<'a> {
    spare: f64,
    pages: usize,
    mix: Mix,
    amplification: f64,
    by_moves: &'a [f64],
}

impl Blocks<'_> {
    /// Blocks that begin in a unit of time, by their number of hot pages.
    fn beginning(self) -> Vec<f64> {
        let host = binomial(self.pages, self.mix.traffic);
        let moves = self.by_moves.iter().map(|share| share * (self.amplification - 1.0));
        host.iter().zip(moves).map(|(host, moves)| (host + moves) / self.pages as f64).collect()
    }

    /// The rates at which blocks with this many valid pages lose one, by their number of hot pages.
    fn dying(self, valid: usize) -> Vec<f64> {
        let (hot_rate, cold_rate) = self.mix.rates();
        (0..=valid).map(|hot| hot as f64 * hot_rate + (valid - hot) as f64 * cold_rate).collect()
    }

    /// What enters the next level of `there` blocks, by their number of hot pages.
    fn below(self, there: &[f64]) -> Vec<f64> {
        let (hot_rate, cold_rate) = self.mix.rates();
        let valid = there.len() - 1;
        let mut below = vec![0.0; valid.max(1)];
        for (hot, &there) in there.iter().enumerate() {
            if hot > 0 {
                below[hot - 1] += there * hot as f64 * hot_rate;
            }
            if hot < valid {
                below[hot] += there * (valid - hot) as f64 * cold_rate;
            }
        }
        below
    }

    /// How many there are, for each page of the device.
    fn count(self) -> f64 {
        self.spare / self.pages as f64
    }
}

/// The victims if each is the least valid of `choices`.
fn least_of(choices: f64, blocks: Blocks) -> Vec<Victim> {
    let cleaned = blocks.amplification / blocks.pages as f64;
    let mut entering = blocks.beginning();
    let (mut found, mut fuller) = (Vec::new(), 0.0f64);
    for valid in (0..=blocks.pages).rev() {
        let dying = blocks.dying(valid);
        // The rate at which a block of this level is cleaned, if the level has a share `here` of all blocks.
        let picked =
            |here: f64| cleaned * ((fuller + here).powf(choices) - fuller.powf(choices)) / (blocks.count() * here);
        let held = |here: f64| {
            let rate = picked(here);
            entering.iter().zip(&dying).map(|(entering, dying)| entering / (dying + rate)).sum::<f64>() / blocks.count()
        };
        let (mut low, mut high) = (0.0, 1.0 - fuller);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if held(middle) > middle { low = middle } else { high = middle }
        }
        let here = (low + high) / 2.0;
        let rate = if here > 0.0 { picked(here) } else { 0.0 };
        let stay = |(entering, dying): (&f64, &f64)| entering / (dying + rate).max(f64::MIN_POSITIVE);
        let there: Vec<f64> = entering.iter().zip(&dying).map(stay).collect();
        if valid > 0 {
            found.extend(there.iter().enumerate().map(|(hot, there)| Victim {
                hot,
                cold: valid - hot,
                share: there * rate,
            }));
        }
        fuller = (fuller + here).min(1.0);
        entering = blocks.below(&there);
    }
    found
}

/// The victims if blocks are taken when their valid pages come down to `level`; a share of them, its fraction, one page
/// earlier. Also how many blocks that leaves on the device, as a share of those it has.
fn at_level(level: f64, blocks: Blocks) -> (Vec<Victim>, f64) {
    let last = level as usize;
    let mut entering = blocks.beginning();
    let (mut found, mut held) = (Vec::new(), 0.0);
    for valid in (last..=blocks.pages).rev() {
        // Blocks of the level that is taken in part: the fraction that is taken as soon as it comes there.
        let taken = if valid == last {
            1.0
        } else if valid == last + 1 {
            level - last as f64
        } else {
            0.0
        };
        if taken > 0.0 {
            found.extend(entering.iter().enumerate().map(|(hot, entering)| Victim {
                hot,
                cold: valid - hot,
                share: entering * taken,
            }));
        }
        if valid == last {
            break;
        }
        let stay = |(entering, dying): (&f64, &f64)| entering * (1.0 - taken) / dying;
        let there: Vec<f64> = entering.iter().zip(&blocks.dying(valid)).map(stay).collect();
        held += there.iter().sum::<f64>();
        entering = blocks.below(&there);
    }
    (found, held / blocks.count())
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
