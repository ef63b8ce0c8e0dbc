//! Flash modelled from its parts: channels and dies with their own clocks, and a translation layer that controls them.

mod array;
mod block_map;
mod block_pool;
mod blocks;
mod buffer;
mod cached_map;
mod counts;
mod disorder;
mod divisor;
mod fast_map;
mod ideal;
mod images;
mod layer;
mod levelling;
mod open_stripe;
mod page_layer;
mod page_map;
mod parameters;
mod precondition;
mod queue;
mod segmented_lru;
mod slc_cache;
mod timeline;
mod translation_pages;

use std::{cmp::Reverse, collections::BinaryHeap};

use array::{Array, Operations, Tried};
use buffer::{Buffer, Held};
pub use counts::{Fragmentation, FtlStats, Levelling, MappingStats, Merges};
use disorder::Disorder;
pub use images::Images;
use layer::Layer;
use open_stripe::Programmed;
use parameters::Geometry;
pub use parameters::{Collection, FlashParameters, LevelWear, Mapping, Placement, Precondition};
use peryton_units::{Bytes, Nanos, Op};
use queue::Queue;
use slc_cache::SlcCache;
pub use slc_cache::SlcParameters;
use timeline::Timeline;

use crate::{
    Accepted, BuildError, DeviceStats, Io, PowerState, Tag, WearCounts,
    meter::{Draw, Meter},
};

/// A solid-state drive. [`FlashParameters`] describes its parts, and `docs/flash-model.md` its behaviour.
///
/// ```
/// use peryton_device::{Accepted, Flash, Io, Model, Profile, Tag};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let profile = Profile::named("intel-320-300gb")?;
/// let Model::Flash(parameters) = &profile.model else { panic!("it is flash") };
/// // The first GiB of its capacity is modelled.
/// let mut flash = Flash::new(parameters, profile.capacity, Bytes::gib(1), 1)?;
/// let mut now = Nanos::ZERO;
/// for number in 0..10_000_u64 {
///     // Spread over the GiB, so that garbage collection has to copy.
///     let at = Bytes::kib(4 * (number * 40_503 % (1 << 18)));
///     let Accepted::At(end) = flash.submit(now, Tag(0), Io { op: Op::Write, at, len: Bytes::kib(4) }) else {
///         panic!("flash serves in order of arrival");
///     };
///     now = end;
/// }
/// let stats = flash.stats(now);
/// assert_eq!(stats.bytes_written, Bytes::kib(40_000));
/// let programmed = stats.nand_bytes_written.expect("flash counts programs");
/// println!("write amplification {:.2}", programmed.0 as f64 / stats.bytes_written.0 as f64);
/// # assert!(programmed > Bytes::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flash {
    geometry: Geometry,
    used: Bytes,
    array: Array,
    layer: Layer,
    buffer: Option<Buffer>,
    power_loss_protection: bool,
    meter: Meter,
    /// The host interface, towards the device and from it; half duplex uses the first for both.
    to_device: Timeline,
    to_host: Timeline,
    full_duplex: bool,
    read_ns_per_byte: f64,
    write_ns_per_byte: f64,
    read_overhead: u64,
    write_overhead: u64,
    read_interval: u64,
    write_interval: u64,
    /// The time when the controller can begin another command.
    controller_free: u64,
    /// The same for writes, if they go before reads.
    writes_free: Option<u64>,
    /// The ends of the commands that the drive has taken, where it takes a bounded number.
    queue: Option<Queue>,
    background_after: u64,
    /// How many units were free when the account began.
    free_before: u64,
    /// Erases and programmed units of work that the account's commands have left to do.
    owed: (u64, u64),
    /// The dies that work in the present idle time, with the start times of their next steps; kept to reuse its memory.
    turns: BinaryHeap<Reverse<(u64, u32)>>,
    wake: u64,
    /// When the drive is or was awake again; before that, commands wait for it and not for each other.
    awake_at: u64,
    /// How waits differ, if commands overtake each other.
    disorder: Option<Box<Disorder>>,
    nap_after: u64,
    nap_exit: u64,
    /// What the buffer holds, if it serves reads.
    held: Option<Box<Held>>,
    /// The time when all programs so far will have ended.
    programmed_at: u64,
    /// The time when the programs of the present command will have ended.
    own_programs_end: u64,
    rated_erases: u64,
    /// Bytes that can be programmed into its blocks during their life.
    programmable: u64,
    /// Addressable bytes of the geometry: more than `used` if a small part is modelled.
    modelled: Bytes,
    planes: u32,
}

impl Flash {
    /// A device of `capacity`, of which the first `used` bytes are modelled, preconditioned; `seed` draws the random
    /// overwrites.
    ///
    /// # Errors
    /// A parameter out of its range, or more than the tables can hold.
    pub fn new(p: &FlashParameters, capacity: Bytes, used: Bytes, seed: u64) -> Result<Flash, BuildError> {
        Flash::from_image(p, (capacity, used), (seed, seed), None)
    }

    /// Does the same as [`Flash::new`], but preconditions only if there is no image of an equal device. The first seed draws the state
    /// that it begins in, the second all else.
    ///
    /// # Errors
    /// As [`Flash::new`].
    pub fn from_image(
        p: &FlashParameters,
        (capacity, used): (Bytes, Bytes),
        (state, seed): (u64, u64),
        images: Option<&Images>,
    ) -> Result<Flash, BuildError> {
        if used == Bytes::ZERO || used > capacity {
            return Err(BuildError::Used { used, capacity });
        }
        let modelled = p.modelled(capacity, used);
        let geometry = p.geometry(capacity, modelled)?;
        let buffer_units = p.write_buffer.0 / geometry.unit;
        if p.write_buffer.0 > 0 && buffer_units < 2 * u64::from(geometry.stripe_units) {
            return Err(BuildError::Range {
                key: "write_buffer",
                found: p.write_buffer.to_string(),
                expected: "0, or at least twice page × planes",
            });
        }
        // The tables are zeroed memory that is not allocated until it is used, but the system may refuse even to
        // reserve it.
        let cached = if p.ftl == Mapping::DemandCached { geometry.units as usize } else { 0 };
        let entries = geometry.units as usize + geometry.slots() as usize + cached;
        // Each table is reserved separately, as in use, because the system decides on each allocation separately.
        for entries in [geometry.units as usize, geometry.slots() as usize, cached] {
            let mut table = Vec::<u32>::new();
            // Without the black box an optimiser may remove the allocation and assume its success.
            if std::hint::black_box(&mut table).try_reserve_exact(entries).is_err() {
                return Err(BuildError::NoMemory { used, bytes: Bytes(entries as u64 * 4) });
            }
            drop(std::hint::black_box(table));
        }
        let make = || {
            let mut layer = Layer::new(p, geometry);
            precondition::run(&mut layer, p.precondition, &geometry, state, p.background_after.is_some());
            layer
        };
        // What was written in order takes no time to make, and no memory until it is copied.
        let is_quick = p.precondition == Precondition::Fresh
            || (p.precondition == Precondition::Sequential && p.ftl == Mapping::Page);
        let layer = match images.filter(|_| !is_quick) {
            // The sizes are exact here, since the text for people is rounded.
            Some(images) => {
                images.take(format!("{} {} {state} {p:?}", modelled.0, capacity.0), entries as u64 * 4, make)
            }
            None => make(),
        };
        let write_rate = p.interface_write_mb_per_s.unwrap_or(p.interface_mb_per_s);
        let physical_blocks = u64::from(geometry.blocks() + layer.extra_blocks()) * u64::from(p.planes);
        let held = if p.precondition == Precondition::Fresh { 0 } else { u64::from(geometry.units) };
        let share = modelled.0 as f64 / capacity.0 as f64;
        let slc = p.slc_cache.as_ref().map(|slc| Box::new(SlcCache::new(slc, &geometry, share, (held, p.cycles))));
        Ok(Flash {
            array: Array::new(p, geometry, slc),
            buffer: (buffer_units > 0)
                .then(|| Buffer::new(buffer_units.min(u64::from(u32::MAX / 2)) as u32, geometry.stripe_units)),
            power_loss_protection: p.power_loss_protection,
            meter: Meter::new(Draw { idle_w: p.idle_w, busy_w: p.busy_w, standby_w: p.standby_w, linger: p.linger.0 }),
            to_device: Timeline::default(),
            to_host: Timeline::default(),
            full_duplex: p.full_duplex,
            read_ns_per_byte: 1e3 / p.interface_mb_per_s,
            write_ns_per_byte: 1e3 / write_rate,
            read_overhead: p.read_overhead.0,
            write_overhead: p.write_overhead.0,
            read_interval: p.read_interval.0,
            write_interval: p.write_interval.0,
            controller_free: 0,
            writes_free: p.writes_first.then_some(0),
            queue: p.queue_depth.map(Queue::new),
            background_after: p.background_after.map_or(u64::MAX, |after| after.0),
            free_before: layer.cleaning().free,
            owed: (0, 0),
            turns: BinaryHeap::new(),
            wake: p.wake.0,
            awake_at: 0,
            disorder: Disorder::new(p.out_of_order, seed).map(Box::new),
            nap_after: p.nap_after.map_or(u64::MAX, |after| after.0),
            nap_exit: p.nap_exit.0,
            held: (p.buffer_serves_reads && buffer_units > 0).then(Box::default),
            programmed_at: 0,
            own_programs_end: 0,
            rated_erases: (physical_blocks as f64 * geometry.block_scale).round() as u64 * u64::from(p.cycles),
            programmable: u64::from(geometry.blocks() + layer.extra_blocks())
                .saturating_mul(u64::from(geometry.block_units) * geometry.unit)
                .saturating_mul(u64::from(p.cycles)),
            modelled,
            planes: p.planes,
            used,
            geometry,
            layer,
        })
    }

    /// Carries a command out. Its end is known at once, because each die and channel serves in order of arrival.
    ///
    /// # Panics
    /// If the command reaches past [`Flash::capacity`].
    #[inline(never)]
    pub fn submit(&mut self, now: Nanos, _tag: Tag, io: Io) -> Accepted {
        let now = now.0;
        let fits = io.at.0.checked_add(io.len.0).is_some_and(|end| end <= self.used.0);
        assert!(io.op == Op::Flush || fits, "{io:?} reaches past the end of the device at {}", self.used);
        self.background(now);
        let is_read = io.op == Op::Read;
        let free = self.writes_free.filter(|_| !is_read).unwrap_or(self.controller_free);
        let mut begin = now.max(free).max(self.awake_at);
        if let Some(queue) = &mut self.queue {
            begin = queue.taken(begin);
        }
        if self.meter.wake(now) {
            begin += self.wake;
            self.awake_at = begin;
        } else if now >= self.meter.busy_until().saturating_add(self.nap_after) {
            begin += self.nap_exit;
            self.awake_at = begin;
        }
        let interval = if is_read { self.read_interval } else { self.write_interval };
        match &mut self.writes_free {
            // It takes its time from the reads that wait.
            Some(writes_free) if !is_read => {
                *writes_free = begin + interval;
                self.controller_free = self.controller_free.max(begin) + interval;
            }
            _ => self.controller_free = begin + interval,
        }
        self.array.now = now;
        self.meter.command(io);
        let end = match io.op {
            Op::Read => self.read(begin, io),
            Op::Write => self.write(begin, io),
            Op::Discard => self.discard(begin, io),
            Op::Flush => self.flush(begin),
        };
        let end = match &mut self.disorder {
            Some(disorder) if io.op != Op::Flush => {
                let waited = begin - now.max(self.awake_at);
                end - waited + disorder.wait(waited)
            }
            _ => end,
        };
        if let Some(queue) = &mut self.queue {
            queue.ends_at(end);
        }
        self.meter.busy(now, end);
        Accepted::At(Nanos(end))
    }

    fn read(&mut self, begin: u64, io: Io) -> u64 {
        let unit = self.geometry.unit;
        let (from, to) = (io.at.0, io.at.0 + io.len.0);
        let mut at = from;
        let begin = if at < to { self.translate(at, to, false, begin) } else { begin };
        let mut end = begin;
        while at < to {
            let first = self.geometry.unit_of(at) as u32;
            let (source, units) = self.run_of(first, self.geometry.unit_of(to - 1) as u32 + 1 - first);
            let until = ((u64::from(first) + u64::from(units)) * unit).min(to);
            let ready = match source {
                Some((die, stripe)) => self.array.read(die, stripe, until - at, begin),
                None => begin,
            };
            let transfer = ((until - at) as f64 * self.read_ns_per_byte) as u64;
            let line = if self.full_duplex { &mut self.to_host } else { &mut self.to_device };
            end = end.max(line.reserve(self.array.now, ready, transfer));
            at = until;
        }
        end + self.read_overhead
    }

    /// The time when the places of the bytes from `from` to before `to` are known; `continues`: others of their command were looked up
    /// before.
    #[inline]
    fn translate(&mut self, from: u64, to: u64, continues: bool, begin: u64) -> u64 {
        let first = self.geometry.unit_of(from) as u32;
        let units = self.geometry.unit_of(to - 1) as u32 + 1 - first;
        self.layer.translate(first, units, continues, begin, &mut self.array)
    }

    /// Number of units from `first` on that one access reads (with its die and stripe), or that need no access.
    #[inline]
    fn run_of(&self, first: u32, most: u32) -> (Option<(u32, u32)>, u32) {
        let stripe_of = |unit| {
            let held = self.held.as_ref().is_some_and(|held| held.has(unit, self.array.now));
            self.layer.locate(unit).filter(|_| !held).map(|slot| self.geometry.stripe_of(slot))
        };
        let stripe = stripe_of(first);
        let mut units = 1;
        while units < most
            && stripe_of(first + units) == stripe
            && (stripe.is_some() || units < self.geometry.stripe_units)
        {
            units += 1;
        }
        (stripe.map(|stripe| (self.layer.die_of(stripe * self.geometry.stripe_units), stripe)), units)
    }

    fn write(&mut self, begin: u64, io: Io) -> u64 {
        let unit = self.geometry.unit;
        let (from, to) = (io.at.0, io.at.0 + io.len.0);
        let mut at = from;
        let mut end = begin;
        self.own_programs_end = begin;
        while at < to {
            let first = self.geometry.unit_of(at) as u32;
            let until = ((u64::from(first) + u64::from(self.geometry.stripe_units)) * unit).min(to);
            let units = self.geometry.unit_of(until - 1) as u32 + 1 - first;
            let room = self.buffer.as_mut().map_or(begin, |buffer| buffer.take(units, begin));
            let transfer = ((until - at) as f64 * self.write_ns_per_byte) as u64;
            let arrived = self.to_device.reserve(self.array.now, room, transfer);
            end = end.max(arrived);
            let known = self.translate(at, until, at > from, begin);
            let merged = self.merge_edges(at, until, known);
            self.array.ready = arrived.max(merged);
            for unit in first..first + units {
                self.write_unit(unit);
            }
            at = until;
        }
        if self.buffer.is_none() && io.len.0 > 0 {
            self.program_begun();
            end = end.max(self.own_programs_end);
        }
        end + self.write_overhead
    }

    /// A write that covers a unit in part needs a read of the rest, unless that is still in RAM: read, modify, write.
    /// Returns the time when the last of it has been read.
    #[inline]
    fn merge_edges(&mut self, from: u64, to: u64, begin: u64) -> u64 {
        let unit = self.geometry.unit;
        if (from | to) & (unit - 1) == 0 {
            return begin;
        }
        let head = (!from.is_multiple_of(unit)).then_some(from / unit);
        let tail = (!to.is_multiple_of(unit) && to != self.used.0).then_some(to / unit);
        let mut ready = begin;
        for partial in [head, tail.filter(|_| tail != head)].into_iter().flatten() {
            if let Some(slot) = self.layer.locate(partial as u32) {
                let die = self.layer.die_of(slot);
                ready = ready.max(self.array.read(die, self.geometry.stripe_of(slot), unit, begin));
            }
        }
        ready
    }

    #[inline]
    fn write_unit(&mut self, unit: u32) {
        if let Some(slc) = &mut self.array.slc {
            slc.written(unit, self.layer.holds(unit));
        }
        let before = self.layer.pending();
        let programmed = self.layer.write(unit, &mut self.array);
        if let Some(held) = &mut self.held {
            held.written(unit);
        }
        if programmed.is_none() && self.layer.pending() == before {
            // An overwrite of buffered data takes no further space in the buffer.
            if let Some(buffer) = &mut self.buffer {
                buffer.give_back(1);
            }
        }
        self.programming(programmed);
    }

    #[inline]
    fn programming(&mut self, programmed: Programmed) {
        let Some((end, units)) = programmed else { return };
        if let Some(held) = &mut self.held {
            held.programming(self.array.now, end);
        }
        self.programmed_at = self.programmed_at.max(end);
        self.own_programs_end = self.own_programs_end.max(end);
        if let Some(buffer) = &mut self.buffer {
            buffer.programming(end, units);
        }
    }

    fn program_begun(&mut self) {
        let programmed = self.layer.flush(&mut self.array);
        self.programming(programmed);
    }

    fn discard(&mut self, begin: u64, io: Io) -> u64 {
        let unit = self.geometry.unit;
        let first = io.at.0.div_ceil(unit);
        let end = io.at.0 + io.len.0;
        let last = if end == self.used.0 { end.div_ceil(unit) } else { end / unit };
        if first < last {
            if let Some(slc) = &mut self.array.slc {
                let held = (first as u32..last as u32).filter(|&unit| self.layer.holds(unit));
                held.for_each(|unit| slc.discarded(unit));
            }
            self.layer.discard(first as u32..last as u32, &mut self.array);
        }
        begin + self.write_overhead
    }

    fn flush(&mut self, begin: u64) -> u64 {
        if self.buffer.is_none() || self.power_loss_protection {
            return begin + self.write_overhead;
        }
        self.array.ready = begin;
        self.program_begun();
        begin.max(self.programmed_at) + self.write_overhead
    }

    /// Does the background work of the time since the device was last busy. The dies' steps run in the order of their
    /// start times, so the result does not depend on how often this is called in one idle time.
    fn background(&mut self, now: u64) {
        let folding = self.array.slc.as_ref().is_some_and(|slc| slc.wants_folding());
        if !self.layer.background_wanted() && !folding {
            return;
        }
        let begin = self.meter.busy_until().saturating_add(self.background_after);
        let until = self.meter.asleep_from().unwrap_or(now).min(now);
        if begin >= until {
            return;
        }
        self.turns.clear();
        for die in (0..self.geometry.dies).filter(|&die| folding || self.layer.wants_background(die)) {
            self.array.idle_until(die, begin);
            self.turns.push(Reverse((self.array.free_at(die), die)));
        }
        while let Some(Reverse((at, die))) = self.turns.pop() {
            if at >= until {
                break;
            }
            let free = self.array.free_at(die);
            // Cleaning on another die may have kept this one busy.
            let more = free > at
                || (self.layer.wants_background(die) && self.layer.collect_in_background(die, 0, &mut self.array))
                || self.array.fold(die);
            if more {
                self.turns.push(Reverse((self.array.free_at(die), die)));
            }
        }
    }

    /// Changes the power state; standby begins when the commands in service have ended.
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        self.background(now.0);
        match state {
            PowerState::Active => {
                if self.meter.wake(now.0) {
                    self.controller_free = now.0 + self.wake;
                    self.writes_free = self.writes_free.map(|_| now.0 + self.wake);
                }
            }
            PowerState::Standby => self.meter.sleep(now.0),
        }
    }

    /// The statistics up to `now` without the state of the translation layer, and without the background work since the last
    /// command. Energy of flash operations is counted when they are scheduled, so operations in the near future are included.
    pub(crate) fn counts(&self, now: Nanos) -> DeviceStats {
        let mut stats = self.meter.stats(now.0);
        stats.energy_j += self.array.spent_j;
        stats.erases = Some(self.whole(self.array.erases));
        stats.nand_bytes_written = Some(Bytes(self.array.programmed_units * self.geometry.unit));
        stats.rated_erases = Some(self.rated_erases);
        let block = u64::from(self.geometry.block_units) * self.geometry.unit;
        stats.bytes_erased = Some(Bytes(self.array.erases * block));
        stats.nand_bytes_owed = Some(Bytes(self.owed.1 * self.geometry.unit));
        stats.bytes_erased_owed = Some(Bytes(self.owed.0 * block));
        stats.programmable = Some(Bytes(self.programmable));
        stats.modelled = Some(self.modelled);
        stats.flash_worn = Some(self.worn());
        stats
    }

    /// Before the first erase only programmed bytes are known. Erased bytes are more if erased blocks were not full, or were filled earlier.
    fn worn(&self) -> Bytes {
        let (slc_units, slc_erases) = (self.array.slc_units, self.array.slc_erases);
        let (units, erases) = self.array.slc.as_ref().map_or((0, 0), |slc| slc.spared(slc_units, slc_erases));
        let programmed = (self.array.programmed_units + self.owed.1).saturating_add_signed(-units);
        let erased = (self.array.erases + self.owed.0).saturating_sub(erases) * u64::from(self.geometry.block_units);
        Bytes(programmed.max(erased) * self.geometry.unit)
    }

    /// Erases of the device that the modelled blocks stand for.
    fn whole(&self, erases: u64) -> u64 {
        let real = f64::from(self.planes) * self.geometry.block_scale;
        (erases as f64 * real).round() as u64
    }

    /// The statistics up to `now`.
    pub fn stats(&mut self, now: Nanos) -> DeviceStats {
        self.background(now.0);
        let mut stats = self.counts(now);
        stats.erase_count_min_max = Some(self.layer.wear());
        let mut ftl = self.layer.stats();
        ftl.slc_cache_used = self.array.slc.as_ref().map(|slc| Bytes(slc.used() * self.geometry.unit));
        if let Some(mapping) = &mut ftl.mapping {
            mapping.erases = self.whole(mapping.erases);
        }
        if let Some(levelling) = &mut ftl.levelling {
            levelling.erases = self.whole(levelling.erases);
            levelling.bytes_moved = Bytes(levelling.bytes_moved.0 * self.geometry.unit);
        }
        stats.ftl = Some(ftl);
        stats
    }

    /// What has worn it so far in the account.
    pub fn wear(&self) -> WearCounts {
        WearCounts { flash_worn: Some(self.worn()), ..self.meter.wear() }
    }

    /// Resets the statistics, except wear.
    pub fn reset_stats(&mut self, now: Nanos) {
        self.background(now.0);
        self.meter.reset(now.0);
        self.array.spent_j = 0.0;
        self.array.programmed_units = 0;
        self.array.erases = 0;
        (self.array.slc_units, self.array.slc_erases) = (0, 0);
        self.layer.reset_counts();
        self.free_before = self.layer.cleaning().free;
        self.owed = (0, 0);
    }

    /// Finds out how much idle work the commands of the account have left to do, for [`DeviceStats::nand_bytes_owed`]. They have used
    /// up free units, and freeing as many again wears the flash after the end of the account. The cost is tried with a block of each die.
    /// A drive without work in idle time has none left.
    ///
    /// All cleaning, in the account and tried, frees units at some price. The units that the host has written have to be freed at that price,
    /// less what the account has already spent. Units that were moved out of blocks that are not empty yet have freed nothing so far.
    /// It is tried on a copy: what the drive does next is the same with and without this.
    pub fn settle(&mut self, now: Nanos) {
        self.background(now.0);
        let done = self.layer.cleaning();
        let to_have = self.free_before.min(done.free_at_rest);
        self.owed = (0, 0);
        if self.background_after == u64::MAX || done.free >= to_have {
            return;
        }
        let (mut layer, mut array) = (self.layer.clone(), self.array.clone());
        let mut tried = Tried { array: &mut array, erases: 0, programmed_units: 0 };
        for die in 0..self.geometry.dies {
            while layer.collect_in_background(die, 1, &mut tried) {}
        }
        let free = layer.cleaning().free;
        let provided = (free + done.written).saturating_sub(self.free_before);
        let needed = (to_have + done.written).saturating_sub(self.free_before);
        let share = if provided == 0 { 0.0 } else { needed as f64 / provided as f64 };
        let owed = |done: u64, tried: u64| ((done + tried) as f64 * share - done as f64).round().max(0.0) as u64;
        self.owed = (owed(done.erased, tried.erases), owed(done.moved, tried.programmed_units));
    }

    /// Addressable bytes.
    pub fn capacity(&self) -> Bytes {
        self.used
    }

    /// The time of the next call of [`Flash::advance`]: none, since every end is known at submission.
    pub fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// Does nothing; see [`Flash::next_event`].
    pub fn advance(&mut self, _now: Nanos, _completed: &mut Vec<(Tag, Nanos)>) {}

    /// Whether the mapping unit at this address was written and not discarded since.
    pub fn holds(&self, at: Bytes) -> bool {
        at < self.used && self.layer.holds((at.0 / self.geometry.unit) as u32)
    }

    /// Panics if the translation layer has lost or duplicated a unit. For tests; takes time in proportion to the
    /// device.
    pub fn check(&self) {
        self.layer.check();
    }
}
