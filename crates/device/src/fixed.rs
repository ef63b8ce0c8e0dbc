//! A device with constant latencies, one for reads and one for writes, or with times that are drawn from a distribution. It models devices
//! whose mechanics cannot be seen: a virtual disk, memory.

use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use crate::{
    Accepted, BuildError, DeviceStats, Io, PowerState, Tag, WearCounts,
    meter::{Draw, Meter},
};

/// Erases are counted in blocks of this size, because the model has no blocks.
const ERASE_BLOCK: Bytes = Bytes::kib(256);

/// A bound on `parallelism`, so that a typing error does not become a scan over millions of servers per command.
const MAX_PARALLELISM: u32 = 1024;

/// Bounds on a spread, and on the points of `rests`.
const MOST_POINTS: usize = 256;
const MOST_FACTOR: f64 = 1e6;

/// A factor of a spread that has two points or more.
fn drawn(spread: &[(f64, f64)], random: &mut Pcg64Mcg) -> f64 {
    let share = random.random::<f64>();
    let after = spread.partition_point(|point| point.0 <= share).clamp(1, spread.len() - 1);
    let ((from, low), (to, high)) = (spread[after - 1], spread[after]);
    low + (high - low) * (share - from) / (to - from)
}

/// What a rest of this length adds to the command that ends it.
fn after(rest: u64, rests: &[(Nanos, Nanos)]) -> u64 {
    let place = rests.partition_point(|(point, _)| point.0 <= rest);
    let (from, low) = if place == 0 { (0, 0) } else { (rests[place - 1].0.0, rests[place - 1].1.0) };
    let Some(&(Nanos(to), Nanos(high))) = rests.get(place) else { return low };
    (low as f64 + (high as f64 - low as f64) * ((rest - from) as f64 / (to - from) as f64)) as u64
}

/// Commands that a device which gathers them does together.
#[derive(Clone, Copy, Debug, Default)]
struct Together {
    /// When it begins with them.
    begins: u64,
    /// How far those that are known have moved it on.
    work: u64,
    /// When all of them are done.
    ends: u64,
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
    /// The same time after a write.
    #[serde(default)]
    pub write_interval: Nanos,
    /// Time of a flush, after the end of all commands before it.
    #[serde(default)]
    pub flush: Nanos,
    /// Rate that all commands share, such as that of a link, in MB (10⁶ bytes) per second. Absent: no such limit.
    pub shared_mb_per_s: Option<f64>,
    /// The same rate for writes, if theirs differs.
    pub shared_write_mb_per_s: Option<f64>,
    /// The distribution of the factor by which the time of a read differs from `read`: points (share of the reads, factor),
    /// rising in both. Each read draws its factor; between two points, factors are spread evenly. Empty: all reads take the
    /// same time.
    #[serde(default)]
    pub read_spread: Vec<(f64, f64)>,
    /// The same distribution for `write`.
    #[serde(default)]
    pub write_spread: Vec<(f64, f64)>,
    /// The time that idle time adds to the next command: pairs of idle time and added time, with rising idle times. The line
    /// through the pairs starts at zero, is straight between pairs, and stays level after the last. Empty: idle time adds
    /// nothing.
    #[serde(default)]
    pub rests: Vec<(Nanos, Nanos)>,
    /// Whether commands that arrive during others wait for the end of these, and form one batch, as on the host of a virtual
    /// disk. In a batch each command moves the next one back by `read_interval` or `write_interval`, and takes `read` or
    /// `write`. `parallelism` has then no effect.
    #[serde(default)]
    pub gathers: bool,
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
    /// Whether each read takes the same time, and each write, whatever was before.
    is_plain: bool,
    meter: Meter,
    /// Bytes programmed into a block before this account began.
    begun: u64,
    /// When each server is free.
    free: Vec<u64>,
    /// When the device can begin another command.
    next: u64,
    together: Together,
    /// When it has done all that it was given, flushes too.
    done: u64,
    random: Pcg64Mcg,
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
        let rests_rise = p.rests.windows(2).all(|two| two[0].0 < two[1].0);
        if !rests_rise || p.rests.len() > MOST_POINTS || p.rests.first().is_some_and(|first| first.0 == Nanos::ZERO) {
            let expected = "at most 256 pairs (rest, what it adds) whose rests rise, from more than 0 on";
            return range("rests", "something else".into(), expected);
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
        let varies = !(p.read_spread.is_empty() && p.write_spread.is_empty() && p.rests.is_empty());
        let is_plain = rates.iter().all(|(_, rate)| rate.is_none()) && !varies && !p.gathers;
        Ok(Fixed {
            is_plain,
            parameters: p.clone(),
            meter: Meter::new(draw),
            begun: 0,
            free: vec![0; p.parallelism as usize],
            next: 0,
            together: Together::default(),
            done: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
        })
    }

    /// Serves first-come; a flush waits for everything before it and takes its own time then, a discard takes no time.
    #[inline(never)]
    pub fn submit(&mut self, now: Nanos, _tag: Tag, io: Io) -> Accepted {
        self.meter.wake(now.0);
        self.meter.command(io);
        if !self.is_plain {
            return self.submit_varied(now.0, io);
        }
        let p = &self.parameters;
        let (base, interval) = match io.op {
            Op::Read => (p.read.0, p.read_interval.0),
            Op::Write => (p.write.0, p.write_interval.0),
            Op::Discard => return Accepted::At(now),
            Op::Flush => return Accepted::At(Nanos(self.meter.busy_until().max(now.0)).saturating_add(p.flush)),
        };
        let end = self.serve(now.0, (base, 0), (interval, 0));
        self.meter.busy(now.0, end);
        Accepted::At(Nanos(end))
    }

    /// Gives a command to the server that is free first. Returns when it ends.
    fn serve(&mut self, now: u64, (base, transfer): (u64, u64), (interval, shared): (u64, u64)) -> u64 {
        let server = match &mut self.free[..] {
            [only] => only,
            several => several.iter_mut().min().expect("there is at least one server"),
        };
        let begin = (*server).max(now).max(self.next);
        self.next = begin + interval + shared;
        let end = begin + shared + base + transfer;
        *server = end;
        end
    }

    /// Has a command done together with those that wait. Returns when it ends.
    fn gather(&mut self, now: u64, own: u64, moves_on: u64) -> u64 {
        let together = &mut self.together;
        if now > together.begins {
            *together = Together { begins: together.ends.max(now), ..Together::default() };
        }
        together.work += moves_on;
        let end = together.begins + together.work + own;
        together.ends = together.ends.max(end);
        end
    }

    /// As [`Fixed::submit`], for times that differ.
    #[inline(never)]
    fn submit_varied(&mut self, now: u64, io: Io) -> Accepted {
        let p = &self.parameters;
        let (base, interval) = match io.op {
            Op::Read => (p.read.0, p.read_interval.0),
            Op::Write => (p.write.0, p.write_interval.0),
            Op::Flush => (0, 0),
            Op::Discard => return Accepted::At(Nanos(now)),
        };
        let ready = now + now.checked_sub(self.done).map_or(0, |rest| after(rest, &p.rests));
        let end = if io.op == Op::Flush {
            self.meter.busy_until().max(ready).saturating_add(p.flush.0)
        } else {
            let gathers = p.gathers;
            let (base, transfer, shared) = self.varied(io, base);
            let end = match gathers {
                true => self.gather(ready, base + transfer, interval + shared),
                false => self.serve(ready, (base, transfer), (interval, shared)),
            };
            self.meter.busy(now, end);
            end
        };
        self.done = self.done.max(end);
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
            stats.flash_worn = Some(Bytes(programmed).max(stats.bytes_erased.unwrap_or_default()));
        }
        stats
    }

    /// What has worn it so far in the account.
    pub fn wear(&self) -> WearCounts {
        let counts = self.meter.wear();
        let programmed = counts.bytes_written.0 as f64 * self.parameters.write_amplification;
        let programmed = self.parameters.cycles.map(|_| programmed.round() as u64);
        let erased = |programmed: u64| (self.begun + programmed) / ERASE_BLOCK.0 * ERASE_BLOCK.0;
        WearCounts { flash_worn: programmed.map(|bytes| Bytes(bytes.max(erased(bytes)))), ..counts }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn device(more: &str) -> Fixed {
        let parameters = format!("read = '100us'\nwrite = '200us'\ncapacity = '1GiB'\n{more}");
        Fixed::new(&toml::from_str(&parameters).expect("a model")).expect("in range")
    }

    fn ends(device: &mut Fixed, at_us: u64, op: Op) -> u64 {
        let len = if op == Op::Flush { Bytes::ZERO } else { Bytes::kib(4) };
        match device.submit(Nanos::from_us(at_us), Tag(0), Io { op, at: Bytes::ZERO, len }) {
            Accepted::At(end) => end.0 / 1000,
            Accepted::Queued => unreachable!("ends are known"),
        }
    }

    #[test]
    fn a_rest_adds_what_lies_between_its_points_to_the_command_that_ends_it() {
        let mut device = device("flush = '1ms'\nparallelism = 4\nrests = [['1ms', '10us'], ['11ms', '30us']]");
        let last = ends(&mut device, 50_000, Op::Read);
        assert_eq!(last, 50_000 + 100 + 30, "longer than the last point");
        assert_eq!(ends(&mut device, last, Op::Read), last + 100, "no rest");
        assert_eq!(ends(&mut device, last + 40, Op::Write), last + 240, "beside another");
        let last = last + 240;
        assert_eq!(ends(&mut device, last + 500, Op::Read), last + 500 + 100 + 5, "half way to the first point");
        let last = last + 605;
        assert_eq!(ends(&mut device, last + 6_000, Op::Flush), last + 6_000 + 1_000 + 20, "a flush ends a rest");
        assert_eq!(ends(&mut device, last + 7_020, Op::Read), last + 7_120, "and is work");
    }

    #[test]
    fn commands_that_wait_are_done_together_after_those_before_them() {
        let mut device = device("gathers = true\nread_interval = '10us'\nwrite_interval = '20us'");
        assert_eq!(ends(&mut device, 0, Op::Read), 110);
        assert_eq!(ends(&mut device, 0, Op::Write), 10 + 20 + 200, "it came at the same time");
        assert_eq!(ends(&mut device, 50, Op::Read), 230 + 110, "it waits for both");
        assert_eq!(ends(&mut device, 229, Op::Read), 230 + 120, "as does this one, and comes after the one before");
        assert_eq!(ends(&mut device, 231, Op::Read), 350 + 110);
        assert_eq!(ends(&mut device, 600, Op::Read), 710, "nothing is before it");
    }

    #[test]
    fn with_so_many_in_flight_all_the_time_each_takes_its_own_time_and_all_the_intervals() {
        let mut device = device("gathers = true\nread_interval = '10us'");
        for depth in [1usize, 4, 16] {
            let mut due = vec![1_000_000 * depth as u64; depth];
            let mut took = 0;
            for _ in 0..100 * depth {
                let (slot, at) = due.iter().copied().enumerate().min_by_key(|&(_, at)| at).expect("one");
                due[slot] = ends(&mut device, at, Op::Read);
                took = due[slot] - at;
            }
            assert_eq!(took, 100 + 10 * depth as u64);
        }
    }

    #[test]
    fn rests_that_do_not_rise_are_refused() {
        for rests in ["[['2ms', '1us'], ['1ms', '2us']]", "[['0us', '1us']]"] {
            let text = format!("read = '1us'\nwrite = '1us'\ncapacity = '1MiB'\nrests = {rests}");
            let refused = Fixed::new(&toml::from_str(&text).expect("a model"));
            assert!(matches!(refused, Err(BuildError::Range { key: "rests", .. })), "{rests}");
        }
    }
}
