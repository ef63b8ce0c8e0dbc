use peryton_units::{Bytes, Nanos, Op};

use super::{
    Address, Flush, OpSpec, Phase, Rewrite, SynthError, SynthSpec,
    address::AddressSampler,
    arrival::ArrivalSampler,
    error::{Wrong, share},
    random::{Random, mix},
    size::SizeSampler,
};
use crate::{BATCH, Request, Source, TraceError};

/// The most phases of a specification.
const MAX_PHASES: usize = 1000;
/// The most writes that a [`Rewrite`] remembers: 16 bytes each.
const MAX_RECENT: usize = 1 << 20;

/// Draws the requests of a [`SynthSpec`]. The first arrives at time zero.
///
/// ```
/// use peryton_trace::{Source, SynthSource, SynthSpec};
///
/// let text = "
///     requests = 1000
///     footprint = '64MiB'
///     read_share = 0.7
///     arrival = '1ms'
///     size = '4KiB'
///     address = 'uniform'";
/// let mut source = SynthSource::new(&SynthSpec::parse(text, "example")?, "example")?;
/// let mut batch = Vec::new();
/// source.next_batch(&mut batch)?;
/// assert_eq!(batch.len(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SynthSource {
    stretches: Vec<Stretch>,
    /// The phase that is being drawn, and the number of its requests that are left.
    stretch: usize,
    left: u64,
    requests: u64,
    start: u64,
    footprint: u64,
    volume: u32,
    random: Random,
    now: Nanos,
    /// The end of the last request.
    end: Option<u64>,
    op_end: [Option<u64>; 2],
    rest: Option<Rest>,
    recent: Recent,
    writes_since_flush: u64,
}

/// A phase, ready to be drawn from.
struct Stretch {
    requests: u64,
    read_share: f64,
    flush: Option<Flush>,
    rewrite: Option<Rewrite>,
    arrival: ArrivalSampler,
    /// Samplers by code of the operation.
    ops: [OpSampler; 2],
}

struct OpSampler {
    /// `None` if files are accessed whole.
    size: Option<SizeSampler>,
    address: AddressSampler,
    sequential_share: f64,
    /// Whether a sequential request follows the last one of its own operation instead of the last of all.
    after_own: bool,
}

/// The part of a file that remains to be accessed.
struct Rest {
    op: Op,
    offset: u64,
    end: u64,
    max_request: u64,
}

/// The last writes, in a ring buffer.
#[derive(Default)]
struct Recent {
    writes: Vec<(u64, u64)>,
    next: usize,
}

impl SynthSource {
    /// Checks the specification; `place` names it in messages.
    ///
    /// # Errors
    /// A value out of its range, or values that do not fit each other.
    pub fn new(spec: &SynthSpec, place: &str) -> Result<SynthSource, SynthError> {
        SynthSource::checked(spec).map_err(|wrong| wrong.in_file(place))
    }

    /// The total number of requests that will be drawn.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    fn checked(spec: &SynthSpec) -> Result<SynthSource, Wrong> {
        check_space(spec)?;
        match (spec.requests, spec.phases.len()) {
            (None, 0) => return Err(Wrong::new("requests", "is missing: write for example requests = 1000000")),
            (Some(_), 1..) => return Err(Wrong::new("requests", "phases have their own: remove it here")),
            (_, count) if count > MAX_PHASES => {
                return Err(Wrong::new("phases", format!("are {count}, expected at most {MAX_PHASES}")));
            }
            _ => {}
        }
        let mut cache = Vec::new();
        let mut stretches = Vec::new();
        for (index, phase) in spec.stretches().iter().enumerate() {
            let table = if spec.phases.is_empty() { String::new() } else { format!("phases[{index}]") };
            let stretch = Stretch::new(spec, index, phase, &mut cache).map_err(|wrong| wrong.under(&table))?;
            stretches.push(stretch);
        }
        let requests = stretches.iter().try_fold(0u64, |sum, stretch| sum.checked_add(stretch.requests));
        let requests = requests.ok_or_else(|| Wrong::new("phases", "have more than 2^64 requests: fewer"))?;
        let longest: f64 = stretches.iter().map(|s| s.requests as f64 * s.arrival.mean()).sum();
        if longest > MAX_SPAN_NS {
            let years = longest / 1e9 / 86_400.0 / 365.25;
            return Err(Wrong::new(
                "arrival",
                format!("makes a trace of {years:.0} years, expected at most 100: arrive faster"),
            ));
        }
        Ok(SynthSource {
            left: stretches[0].requests,
            stretches,
            stretch: 0,
            requests,
            start: spec.start.0,
            footprint: spec.footprint.0,
            volume: spec.volume,
            random: Random::new(spec.seed),
            now: Nanos::ZERO,
            end: None,
            op_end: [None; 2],
            rest: None,
            recent: Recent::default(),
            writes_since_flush: 0,
        })
    }

    fn draw(&mut self) -> Request {
        let stretch = &mut self.stretches[self.stretch];
        let at = self.now;
        self.now = self.now.saturating_add(stretch.arrival.gap(&mut self.random));
        let flush = match stretch.flush {
            Some(Flush::EveryWrites(writes)) => self.writes_since_flush >= writes,
            Some(Flush::Share(share)) => self.random.chance(share),
            None => false,
        };
        if flush {
            self.writes_since_flush = 0;
            return Request { at, offset: Bytes::ZERO, len: Bytes::ZERO, volume: self.volume, op: Op::Flush };
        }
        let (op, offset, len) = match self.rest.take() {
            Some(rest) => self.piece(rest),
            None => self.access(),
        };
        let end = offset + len;
        self.end = Some(end);
        self.op_end[op as usize] = Some(end);
        self.writes_since_flush += u64::from(op == Op::Write);
        Request { at, offset: Bytes(self.start + offset), len: Bytes(len), volume: self.volume, op }
    }

    /// The next request of a file.
    fn piece(&mut self, rest: Rest) -> (Op, u64, u64) {
        let len = rest.max_request.min(rest.end - rest.offset);
        let offset = rest.offset;
        if offset + len < rest.end {
            self.rest = Some(Rest { offset: offset + len, ..rest });
        }
        (rest.op, offset, len)
    }

    /// A request that does not continue a file.
    fn access(&mut self) -> (Op, u64, u64) {
        let random = &mut self.random;
        let stretch = &self.stretches[self.stretch];
        let op = if random.chance(stretch.read_share) { Op::Read } else { Op::Write };
        let sampler = &stretch.ops[op as usize];
        let len = sampler.size.as_ref().map_or(0, |size| size.draw(random));
        if random.chance(sampler.sequential_share) {
            let end = if sampler.after_own { self.op_end[op as usize] } else { self.end };
            // No request can follow the end of the footprint, so such a request goes to any place.
            if let Some(offset) = end.filter(|end| len <= self.footprint - end) {
                return (op, offset, len);
            }
        }
        let rewrite = stretch.rewrite.filter(|_| op == Op::Write);
        if let Some(rewrite) = rewrite
            && random.chance(rewrite.share)
            && let Some((offset, len)) = self.recent.draw(random)
        {
            return (op, offset, len);
        }
        let place = sampler.address.draw(len, random);
        if place.offset + place.len < place.file_end {
            let max_request = sampler.address.max_request();
            self.rest = Some(Rest { op, offset: place.offset + place.len, end: place.file_end, max_request });
        }
        if let Some(rewrite) = rewrite {
            self.recent.remember((place.offset, place.len), rewrite.recent);
        }
        (op, place.offset, place.len)
    }
}

impl Source for SynthSource {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < BATCH {
            if self.left == 0 {
                if self.stretch + 1 == self.stretches.len() {
                    break;
                }
                self.stretch += 1;
                self.left = self.stretches[self.stretch].requests;
                // An unfinished file of the old phase, and its writes, are not used in the new one.
                self.rest = None;
                self.recent = Recent::default();
                continue;
            }
            let count = self.left.min((BATCH - batch.len()) as u64);
            batch.extend((0..count).map(|_| self.draw()));
            self.left -= count;
        }
        Ok(())
    }
}

impl Recent {
    fn remember(&mut self, write: (u64, u64), most: usize) {
        if self.writes.len() < most {
            self.writes.push(write);
        } else {
            self.writes[self.next] = write;
            self.next = (self.next + 1) % most;
        }
    }

    fn draw(&self, random: &mut Random) -> Option<(u64, u64)> {
        let count = self.writes.len() as u64;
        (count > 0).then(|| self.writes[random.below(count) as usize])
    }
}

/// The longest trace, a hundred years: far from an overflow of nanoseconds.
const MAX_SPAN_NS: f64 = 100.0 * 365.25 * 86_400.0 * 1e9;

fn check_space(spec: &SynthSpec) -> Result<(), Wrong> {
    if spec.alignment.0 == 0 {
        return Err(Wrong::new("alignment", "is zero: write \"512B\" or \"4KiB\""));
    }
    for (key, bytes) in [("footprint", spec.footprint), ("start", spec.start)] {
        if !bytes.is_multiple_of(spec.alignment) {
            let what = format!("{bytes} is not a multiple of the alignment {}: change either", spec.alignment);
            return Err(Wrong::new(key, what));
        }
    }
    if spec.footprint.0 == 0 {
        return Err(Wrong::new("footprint", "is zero: write for example \"8GiB\""));
    }
    match spec.start.checked_add(spec.footprint) {
        Some(end) if end.0 <= i64::MAX as u64 => Ok(()),
        _ => Err(Wrong::new("footprint", "with start ends past 8 EiB: make either smaller")),
    }
}

/// Finished samplers, which phases share if they do not change their settings.
type Cache = Vec<(Address, u64, AddressSampler)>;

impl Stretch {
    fn new(spec: &SynthSpec, index: usize, phase: &Phase, cache: &mut Cache) -> Result<Stretch, Wrong> {
        let missing = |key: &str, example: &str| Wrong::new(key, format!("is missing: write for example {example}"));
        let read_share = phase.read_share.ok_or_else(|| missing("read_share", "read_share = 0.7"))?;
        let arrival = phase.arrival.ok_or_else(|| missing("arrival", "arrival = \"1ms\""))?;
        arrival.check()?;
        if let Some(rewrite) = phase.rewrite {
            share("rewrite.share", rewrite.share)?;
            if !(1..=MAX_RECENT).contains(&rewrite.recent) {
                let what = format!("is {}, expected 1 to {MAX_RECENT} writes", rewrite.recent);
                return Err(Wrong::new("rewrite.recent", what));
            }
        }
        match phase.flush {
            Some(Flush::Share(value)) => drop(share("flush.share", value)?),
            Some(Flush::EveryWrites(0)) => {
                return Err(Wrong::new("flush.every_writes", "is zero, expected at least 1"));
            }
            _ => {}
        }
        // An operation with its own table has its own popular places.
        let own = spec.phases.get(index);
        let owner = |redefined: bool| if redefined { index as u64 + 1 } else { 0 };
        let shared = owner(own.is_some_and(|phase| phase.address.is_some()));
        let read = owner(own.is_some_and(|phase| phase.read.is_some()));
        let write = owner(own.is_some_and(|phase| phase.write.is_some()));
        let ops = [
            OpSampler::new(spec, phase, phase.read.as_ref(), [shared, read, 1], cache)
                .map_err(|w| in_op(w, phase.read.as_ref(), "read"))?,
            OpSampler::new(spec, phase, phase.write.as_ref(), [shared, write, 2], cache)
                .map_err(|w| in_op(w, phase.write.as_ref(), "write"))?,
        ];
        Ok(Stretch {
            requests: phase.requests,
            read_share: share("read_share", read_share)?,
            flush: phase.flush,
            rewrite: phase.rewrite,
            arrival: ArrivalSampler::new(arrival),
            ops,
        })
    }
}

/// Names the operation's own table in the error if the key is in that table.
fn in_op(wrong: Wrong, own: Option<&OpSpec>, name: &str) -> Wrong {
    let key = wrong.key();
    let there = own.is_some_and(|own| match key.split('.').next() {
        Some("size") => own.size.is_some(),
        Some("address") => own.address.is_some(),
        _ => own.sequential_share.is_some(),
    });
    if there { wrong.under(name) } else { wrong }
}

impl OpSampler {
    fn new(
        spec: &SynthSpec,
        phase: &Phase,
        own: Option<&OpSpec>,
        [shared_owner, own_owner, code]: [u64; 3],
        cache: &mut Cache,
    ) -> Result<OpSampler, Wrong> {
        let own_address = own.and_then(|own| own.address.as_ref());
        let seed = match own_address {
            Some(_) => mix(&[spec.seed, own_owner, code]),
            None => mix(&[spec.seed, shared_owner, 0]),
        };
        let address = own_address.or(phase.address.as_ref()).unwrap_or(&Address::Uniform);
        let cached = cache.iter().find(|(known, known_seed, _)| known == address && *known_seed == seed);
        let address = match cached {
            Some((_, _, sampler)) => sampler.clone(),
            None => {
                let sampler = AddressSampler::new(address, spec.footprint, spec.alignment, seed)?;
                cache.push((address.clone(), seed, sampler.clone()));
                sampler
            }
        };
        let own_sequential = own.and_then(|own| own.sequential_share);
        let sequential_share = share("sequential_share", own_sequential.or(phase.sequential_share).unwrap_or(0.0))?;
        let size = if address.uses_size() {
            let size = own.and_then(|own| own.size.as_ref()).or(phase.size.as_ref());
            let size = size.ok_or_else(|| Wrong::new("size", "is missing: write for example size = \"4KiB\""))?;
            let sampler = SizeSampler::new(size, spec.alignment)?;
            if sampler.largest() > spec.footprint.0 {
                let what = format!(
                    "of up to {} exceeds the footprint {}: change either",
                    Bytes(sampler.largest()),
                    spec.footprint
                );
                return Err(Wrong::new("size", what));
            }
            Some(sampler)
        } else {
            if sequential_share > 0.0 {
                let what = "has no meaning where files are accessed whole: remove it, or write access = \"partial\"";
                return Err(Wrong::new("sequential_share", what));
            }
            None
        };
        Ok(OpSampler { size, address, sequential_share, after_own: own_sequential.is_some() })
    }
}
