//! A device with constant latencies: all reads take the same time, and all writes do; or times that are drawn from a distribution, which is
//! what is left to say of a device whose mechanics cannot be seen (a virtual disk, memory).

use peryton_units::{Bytes, Nanos, Op};
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{RngCore, SeedableRng},
};
use serde::Deserialize;

use crate::{
    Accepted, BuildError, DeviceStats, Io, PowerState, Tag, WearCounts,
    meter::{Draw, Meter},
};

/// Erases are counted in blocks of this size, because the model has no blocks.
const ERASE_BLOCK: Bytes = Bytes::kib(256);

/// A bound on `parallelism`, so that a typing error does not become a scan over millions of servers per command.
const MAX_PARALLELISM: u32 = 1024;

/// Bounds on a spread.
const MOST_POINTS: usize = 256;
const MOST_FACTOR: f64 = 1e6;

/// A factor of a spread that has two points or more.
fn drawn(spread: &[(f64, f64)], random: &mut Xoshiro256PlusPlus) -> f64 {
    let share = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let after = spread.partition_point(|point| point.0 <= share).clamp(1, spread.len() - 1);
    let ((from, low), (to, high)) = (spread[after - 1], spread[after]);
    low + (high - low) * (share - from) / (to - from)
}

/// The parameters of a device with constant latencies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FixedParameters {
    /// Service time of a read, whatever its size, unless `read_mb_per_s` is given.
    pub read: Nanos,
    /// Service time of a write.
    pub write: Nanos,
    /// Addressable bytes.
    pub capacity: Bytes,
    /// Program-erase cycles per cell; without it no wear is reported.
    pub cycles: Option<u32>,
    /// Bytes programmed per byte written.
    #[serde(default = "one")]
    pub write_amplification: f64,
    /// Commands served at the same time; more wait their turn.
    #[serde(default = "one_server")]
    pub parallelism: u32,
    /// Adds length / rate to a read, in MB (10⁶ bytes) per second.
    pub read_mb_per_s: Option<f64>,
    /// Adds length / rate to a write, in MB (10⁶ bytes) per second.
    pub write_mb_per_s: Option<f64>,
    /// Time after a read begins before the device begins another command, whatever its `parallelism`: it bounds the rate of small reads.
    #[serde(default)]
    pub read_interval: Nanos,
    /// The same after a write.
    #[serde(default)]
    pub write_interval: Nanos,
    /// How long a flush takes after everything before it.
    #[serde(default)]
    pub flush: Nanos,
    /// Rate of what all commands share, such as a link or a limit on bandwidth, in MB (10⁶ bytes) per second; absent: there is none.
    pub shared_mb_per_s: Option<f64>,
    /// The same rate for writes, if theirs differs.
    pub shared_write_mb_per_s: Option<f64>,
    /// How much longer or shorter than `read` single reads take, as a distribution: (share of the reads, factor), rising in both.
    /// Each read draws its factor; between two points, factors are spread evenly. Empty: all take the same time.
    #[serde(default)]
    pub read_spread: Vec<(f64, f64)>,
    /// The same for writes.
    #[serde(default)]
    pub write_spread: Vec<(f64, f64)>,
    /// Watts while a command is in service.
    #[serde(default)]
    pub active_w: f64,
    /// Watts without one.
    #[serde(default)]
    pub idle_w: f64,
    /// Watts in standby.
    #[serde(default)]
    pub standby_w: f64,
}

fn one() -> f64 {
    1.0
}
fn one_server() -> u32 {
    1
}

/// A device with constant service times; see [`FixedParameters`].
///
/// ```
/// use peryton_device::{Accepted, Fixed, Io, Tag, fixed::FixedParameters};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let parameters: FixedParameters = toml::from_str("read = '50us'\nwrite = '150us'\ncapacity = '1GiB'")?;
/// let mut device = Fixed::new(&parameters)?;
/// let write = Io { op: Op::Write, at: Bytes::ZERO, len: Bytes::kib(4) };
/// assert_eq!(device.submit(Nanos::ZERO, Tag(0), write), Accepted::At(Nanos::from_us(150)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fixed {
    parameters: FixedParameters,
    /// Whether each read takes the same time, and each write.
    is_plain: bool,
    meter: Meter,
    /// Bytes programmed into a block before this account began.
    begun: u64,
    /// When each server is free.
    free: Vec<u64>,
    /// When the device can begin another command.
    next: u64,
    random: Xoshiro256PlusPlus,
}

impl Fixed {
    /// # Errors
    /// A parameter out of its range.
    pub fn new(parameters: &FixedParameters) -> Result<Fixed, BuildError> {
        Fixed::with_seed(parameters, 1)
    }

    /// As [`Fixed::new`]; what is drawn from a spread comes from `seed`.
    ///
    /// # Errors
    /// A parameter out of its range.
    pub fn with_seed(parameters: &FixedParameters, seed: u64) -> Result<Fixed, BuildError> {
        let p = parameters;
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        if p.capacity == Bytes::ZERO {
            return range("capacity", p.capacity.to_string(), "more than nothing");
        }
        if p.parallelism == 0 || p.parallelism > MAX_PARALLELISM {
            return range("parallelism", p.parallelism.to_string(), "1 to 1024");
        }
        if !(p.write_amplification >= 1.0 && p.write_amplification.is_finite()) {
            return range("write_amplification", p.write_amplification.to_string(), "a number from 1 up");
        }
        let rates = [
            ("read_mb_per_s", p.read_mb_per_s),
            ("write_mb_per_s", p.write_mb_per_s),
            ("shared_mb_per_s", p.shared_mb_per_s),
            ("shared_write_mb_per_s", p.shared_write_mb_per_s),
        ];
        for (key, spread) in [("read_spread", &p.read_spread), ("write_spread", &p.write_spread)] {
            let rising = spread.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
            let whole =
                spread.first().is_none_or(|first| first.0 == 0.0) && spread.last().is_none_or(|last| last.0 == 1.0);
            let factors = spread.iter().all(|(_, factor)| (0.0..=MOST_FACTOR).contains(factor));
            if !(rising && whole && factors && spread.len() != 1 && spread.len() <= MOST_POINTS) {
                let expected =
                    "at most 256 pairs (share, factor) that rise from share 0 to share 1, with factors of at most 1e6";
                return range(key, "something else".into(), expected);
            }
        }
        for (key, value) in rates {
            if value.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
                return range(key, value.unwrap_or_default().to_string(), "a number above 0");
            }
        }
        for (key, watts) in [("active_w", p.active_w), ("idle_w", p.idle_w), ("standby_w", p.standby_w)] {
            if !(watts >= 0.0 && watts.is_finite()) {
                return range(key, watts.to_string(), "watts from 0 up");
            }
        }
        let draw = Draw { idle_w: p.idle_w, busy_w: p.active_w - p.idle_w, standby_w: p.standby_w, linger: 0 };
        let is_plain =
            rates.iter().all(|(_, rate)| rate.is_none()) && p.read_spread.is_empty() && p.write_spread.is_empty();
        Ok(Fixed {
            is_plain,
            parameters: p.clone(),
            meter: Meter::new(draw),
            begun: 0,
            free: vec![0; p.parallelism as usize],
            next: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        })
    }

    /// Serves first-come; a flush waits for everything before it and takes its own time then, a discard takes no time.
    #[inline(never)]
    pub fn submit(&mut self, now: Nanos, _tag: Tag, io: Io) -> Accepted {
        self.meter.wake(now.0);
        self.meter.command(io);
        let p = &self.parameters;
        let (base, interval) = match io.op {
            Op::Read => (p.read.0, p.read_interval.0),
            Op::Write => (p.write.0, p.write_interval.0),
            Op::Discard => return Accepted::At(now),
            Op::Flush => return Accepted::At(Nanos(self.meter.busy_until().max(now.0)).saturating_add(p.flush)),
        };
        let (base, transfer, shared) = if self.is_plain { (base, 0, 0) } else { self.varied(io, base) };
        let server = match &mut self.free[..] {
            [only] => only,
            several => several.iter_mut().min().expect("there is at least one server"),
        };
        let begin = (*server).max(now.0).max(self.next);
        self.next = begin + interval + shared;
        let end = begin + shared + base + transfer;
        *server = end;
        self.meter.busy(now.0, end);
        Accepted::At(Nanos(end))
    }

    /// The latency of a read or write, drawn if it varies, and how long it occupies its own server and what all share.
    #[inline(never)]
    fn varied(&mut self, io: Io, base: u64) -> (u64, u64, u64) {
        let p = &self.parameters;
        let (rate, shared, spread) = match io.op {
            Op::Write => (p.write_mb_per_s, p.shared_write_mb_per_s.or(p.shared_mb_per_s), &p.write_spread),
            _ => (p.read_mb_per_s, p.shared_mb_per_s, &p.read_spread),
        };
        let base = if spread.is_empty() { base } else { (base as f64 * drawn(spread, &mut self.random)) as u64 };
        let at_rate = |rate: Option<f64>| rate.map_or(0, |rate| (io.len.0 as f64 * 1e3 / rate).round() as u64);
        (base, at_rate(rate), at_rate(shared))
    }

    /// Asks for a power state; standby begins when the commands in service have ended.
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        match state {
            PowerState::Active => {
                self.meter.wake(now.0);
            }
            PowerState::Standby => self.meter.sleep(now.0),
        }
    }

    /// The account up to `now`.
    pub fn stats(&self, now: Nanos) -> DeviceStats {
        let mut stats = self.meter.stats(now.0);
        if let Some(cycles) = self.parameters.cycles {
            let programmed = (stats.bytes_written.0 as f64 * self.parameters.write_amplification).round() as u64;
            stats.nand_bytes_written = Some(Bytes(programmed));
            // A block that is half written when an account ends is part of the next.
            stats.erases = Some((self.begun + programmed) / ERASE_BLOCK.0);
            stats.rated_erases = Some(self.parameters.capacity.0.div_ceil(ERASE_BLOCK.0) * u64::from(cycles));
            stats.bytes_erased = stats.erases.map(|erases| Bytes(erases * ERASE_BLOCK.0));
            stats.programmable = Some(self.parameters.capacity.saturating_mul(u64::from(cycles)));
            stats.modelled = Some(self.parameters.capacity);
        }
        stats
    }

    /// What has worn it so far in the account.
    pub fn wear(&self) -> WearCounts {
        let counts = self.meter.wear();
        if self.parameters.cycles.is_none() {
            return counts;
        }
        let programmed = (counts.bytes_written.0 as f64 * self.parameters.write_amplification).round() as u64;
        let erased = (self.begun + programmed) / ERASE_BLOCK.0 * ERASE_BLOCK.0;
        WearCounts { nand_bytes_written: Some(Bytes(programmed)), bytes_erased: Some(Bytes(erased)), ..counts }
    }

    /// Starts a new account.
    pub fn reset_stats(&mut self, now: Nanos) {
        let programmed = self.stats(now).nand_bytes_written.map_or(0, |bytes| bytes.0);
        self.begun = (self.begun + programmed) % ERASE_BLOCK.0;
        self.meter.reset(now.0);
    }

    /// Addressable bytes.
    pub fn capacity(&self) -> Bytes {
        self.parameters.capacity
    }

    /// The next time that [`Fixed::advance`] has something to do: never, because every end is known at submission.
    pub fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// Does nothing; see [`Fixed::next_event`].
    pub fn advance(&mut self, _now: Nanos, _completed: &mut Vec<(Tag, Nanos)>) {}
}
