//! The figures of a model under simple workloads, as data sheets give them.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use crate::{Accepted, Device, Io, Model, PowerState, Profile, ProfileError, Tag, flash::FtlStats};

/// A simple workload: requests of one size, closed loop.
///
/// ```
/// use peryton_device::{ClosedLoop, Profile, run};
/// use peryton_units::{Bytes, Nanos};
///
/// let mut device = Profile::named("fixed")?.build(Some(Bytes::gib(1)), 1)?;
/// let reads = ClosedLoop {
///     read_share: 1.0,
///     size: Bytes::kib(4),
///     random: true,
///     from: Bytes::ZERO,
///     span: Bytes::gib(1),
///     queue_depth: 1,
///     requests: 1000,
/// };
/// let (throughput, _) = run(&mut device, &reads, Nanos::ZERO, 1);
/// assert!((throughput.mean_ms - 0.04).abs() < 1e-9);
/// # Ok::<(), peryton_device::ProfileError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedLoop {
    /// Share of reads; the others are writes.
    pub read_share: f64,
    /// Bytes of each request.
    pub size: Bytes,
    /// At random multiples of the size, or one after the other.
    pub random: bool,
    /// Start of the addressed part.
    pub from: Bytes,
    /// Length of the addressed part.
    pub span: Bytes,
    /// Requests in flight.
    pub queue_depth: u32,
    /// Requests in all.
    pub requests: u64,
}

/// The results of a [`ClosedLoop`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Throughput {
    /// MB (10⁶ bytes) per second.
    pub mb_per_s: f64,
    /// Requests per second.
    pub iops: f64,
    /// Mean time of a request, in ms.
    pub mean_ms: f64,
    /// Mean power, in watts.
    pub mean_w: f64,
}

/// Runs a workload from `now` on, closed loop: a request is submitted when one ends. Returns when the last one ended.
///
/// # Panics
/// If the workload does not fit on the device.
pub fn run(device: &mut Device, workload: &ClosedLoop, now: Nanos, seed: u64) -> (Throughput, Nanos) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let places = workload.span.0 / workload.size.0;
    assert!(places > 0 && workload.from.0 + workload.span.0 <= device.capacity().0, "{workload:?} fits on the device");
    device.reset_stats(now);
    let begin = now;
    let mut now = now;
    let mut submitted = 0;
    let mut in_flight = 0;
    let mut latency = 0.0;
    // Ends that are known at submission, and those that the device reported.
    let mut ends: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
    let mut began = vec![Nanos::ZERO; workload.queue_depth as usize];
    let mut idle_tags: Vec<u32> = (0..workload.queue_depth).collect();
    let mut reports = Vec::new();
    loop {
        while submitted < workload.requests
            && let Some(tag) = idle_tags.pop()
        {
            // One stream on each actuator is what their makers measure.
            let streams = if workload.random { 1 } else { device.actuators() };
            let place = match workload.random {
                true => random.random_range(0..places),
                false => (submitted / streams + submitted % streams * (places / streams)) % places,
            };
            let reads = workload.read_share >= 1.0
                || (workload.read_share > 0.0 && random.random_bool(workload.read_share.min(1.0)));
            let op = if reads { Op::Read } else { Op::Write };
            let at = Bytes(workload.from.0 + place * workload.size.0);
            began[tag as usize] = now;
            match device.submit(now, Tag(tag), Io { op, at, len: workload.size }) {
                Accepted::At(end) => ends.push(Reverse((end.0, u64::from(tag)))),
                Accepted::Queued => {}
            }
            submitted += 1;
            in_flight += 1;
        }
        if in_flight == 0 {
            break;
        }
        let known = ends.peek().map(|Reverse((end, _))| Nanos(*end));
        let event = device.next_event();
        now = match (known, event) {
            (Some(end), Some(event)) => end.min(event),
            (Some(time), None) | (None, Some(time)) => time,
            (None, None) => panic!("{in_flight} requests are in flight, but the device knows of none"),
        }
        .max(now);
        device.advance(now, &mut reports);
        while let Some(&Reverse((end, tag))) = ends.peek() {
            if end > now.0 {
                break;
            }
            ends.pop();
            reports.push((Tag(tag as u32), Nanos(end)));
        }
        for (tag, end) in reports.drain(..) {
            latency += end.saturating_sub(began[tag.0 as usize]).as_s_f64() * 1e3;
            idle_tags.push(tag.0);
            in_flight -= 1;
        }
    }
    let seconds = now.saturating_sub(begin).as_s_f64().max(1e-12);
    let requests = workload.requests as f64;
    let throughput = Throughput {
        mb_per_s: requests * workload.size.0 as f64 / 1e6 / seconds,
        iops: requests / seconds,
        mean_ms: latency / requests.max(1.0),
        mean_w: device.stats(now).energy_j / seconds,
    };
    (throughput, now)
}

/// The modelled counterpart of a [`DataSheet`](crate::DataSheet). A figure that the model does not give is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelFigures {
    /// Sequential reads of 1 MiB from the start of the device, queue depth 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_read: Option<Throughput>,
    /// The same at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_read_tail: Option<Throughput>,
    /// Sequential writes of 1 MiB from the start of the device, queue depth 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_write: Option<Throughput>,
    /// Random reads of 4 KiB, queue depth 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_qd1: Option<Throughput>,
    /// Random reads of 4 KiB, at the queue depth that the data sheet names; else 32, or 256 for NVMe (an interface beyond
    /// 1000 MB/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read: Option<Throughput>,
    /// Random writes of 4 KiB, queue depth 1, on a fresh device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_qd1: Option<Throughput>,
    /// Random writes at the deep queue, on a fresh device; of the size that the data sheet names, or 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_fresh: Option<Throughput>,
    /// The same in steady state (flash, and shingled disks whose cache is full).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_steady: Option<Throughput>,
    /// Bytes programmed per byte written in that (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification_steady: Option<f64>,
    /// The work of its translation layer meanwhile, and the fragmentation of the data at the end (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ftl_steady: Option<FtlStats>,
    /// Random reads of 1 MiB, queue depth 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_large: Option<Throughput>,
    /// Random reads and writes (1:1) of 1 MiB, queue depth 1; on flash half of which is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_mixed_large: Option<Throughput>,
    /// Watts when idle for ten seconds.
    pub idle_w: f64,
    /// Watts in standby, once reached.
    pub standby_w: f64,
}

/// A slice of this size of a flash device has as many blocks on a die, and units in a block, as cleaning needs to show
/// its steady state.
fn slice(profile: &Profile) -> Bytes {
    const MOST_UNITS: u64 = 1 << 21;
    match &profile.model {
        Model::Flash(flash) => {
            let stripe = flash.page.0 * u64::from(flash.planes);
            let unit = flash.mapping_unit.map_or(4096, |unit| unit.0);
            let dies = u64::from(flash.channels) * u64::from(flash.dies_per_channel);
            let block = stripe * (64 * unit).div_ceil(stripe).max(4);
            Bytes((dies * block * 256).clamp(Bytes::gib(1).0, MOST_UNITS * unit).min(profile.capacity.0))
        }
        _ => profile.capacity,
    }
}

/// The bytes of a disk's write cache.
fn write_cache(profile: &Profile) -> Bytes {
    match &profile.model {
        Model::Disk(disk) => disk.buffer.write_cache.unwrap_or(Bytes::ZERO),
        Model::Flash(_) | Model::Fixed(_) => Bytes::ZERO,
    }
}

/// Most rounds of a workload until a write cache is full, and the share of a round's bytes that it may still grow by.
const MOST_ROUNDS: u64 = 64;
const STILL_GROWS: f64 = 0.005;
/// A long range leaves the write cache in pieces of an eighth of it. A round of sequential writes, and the measurement
/// after it, write this many times the cache, so that a piece more or less makes no difference.
const CACHES: u64 = 32;
const PIECES: u64 = 8;

/// Runs a workload from `now` on until later measurements do not depend on how long it has run: as much leaves the
/// write cache as enters it, and the free blocks of flash have been used (for random writes). Returns the workload to
/// measure, which continues where this one ended, and the time.
fn settle(device: &mut Device, profile: &Profile, workload: ClosedLoop, now: Nanos) -> (ClosedLoop, Nanos) {
    let (size, cache) = (workload.size.0, write_cache(profile).0);
    let warm = ClosedLoop { requests: (workload.requests / 4).max(1), ..workload };
    if workload.read_share >= 1.0 {
        return (workload, run(device, &warm, now, 5).1);
    }
    if cache == 0 {
        let cleaned = workload.random && matches!(profile.model, Model::Flash(_));
        let requests = if cleaned { warm.requests.max(device.capacity().0 / size) } else { warm.requests };
        return (workload, run(device, &ClosedLoop { requests, ..workload }, now, 5).1);
    }
    // Sequential requests continue where the earlier ones ended; otherwise data that is still in the cache would be
    // overwritten.
    let places = workload.span.0 / size;
    let ahead = |from: u64, requests: u64| {
        let from = if workload.random || from + 2 * requests > places { 0 } else { from };
        let span = if workload.random { workload.span } else { Bytes(workload.span.0 - from * size) };
        (from, ClosedLoop { from: Bytes(workload.from.0 + from * size), span, requests, ..workload })
    };
    let caches = if workload.random { 1 } else { CACHES };
    let requests = warm.requests.max(caches * cache / size).min(places);
    let piece = if workload.random { 0 } else { cache / PIECES };
    let (mut now, mut from) = (now, 0);
    for round in 0..MOST_ROUNDS {
        let before = device.unwritten(now).0;
        let (begins, workload) = ahead(from, requests);
        (_, now) = run(device, &workload, now, 5 + round);
        from = begins + requests;
        let grown = device.unwritten(now).0.saturating_sub(before);
        if grown as f64 <= (STILL_GROWS * (requests * size) as f64).max(piece as f64) {
            break;
        }
    }
    let pieces = if workload.random { 0 } else { CACHES * cache / size };
    let requests = workload.requests.max(pieces).min(places);
    (ahead(from, requests).1, now)
}

/// Fills the cache in front of shingled tracks: scattered writes are quick only until then.
fn fill(device: &mut Device, workload: ClosedLoop, now: Nanos) -> Nanos {
    match device {
        Device::Shingled(disk) if workload.random && workload.read_share < 1.0 => {
            let requests = disk.writes_to_fill(workload.size);
            run(device, &ClosedLoop { requests, read_share: 0.0, ..workload }, now, 4).1
        }
        _ => now,
    }
}

/// Writes the data in a device's RAM to its medium and lets it become idle, so that no workload pays for the one before
/// it and no idle time is disturbed by it.
fn quiesce(device: &mut Device, now: Nanos) -> Nanos {
    let mut done = match device.submit(now, Tag(0), Io { op: Op::Flush, at: Bytes::ZERO, len: Bytes::ZERO }) {
        Accepted::At(end) => end,
        Accepted::Queued => now,
    };
    let mut reports = Vec::new();
    while let Some(event) = device.next_event() {
        device.advance(event, &mut reports);
        done = done.max(event);
    }
    // Shingled zones are put in order, too.
    if let Device::Shingled(disk) = device {
        done = disk.clean_all(done);
    }
    done + Nanos::from_s(10)
}

/// The device, or a slice of it if it is flash, preconditioned to `state`.
fn preconditioned(profile: &Profile, state: &str) -> Result<Device, ProfileError> {
    let used = Some(slice(profile));
    if !matches!(profile.model, Model::Flash(_)) {
        return profile.build(used, 1);
    }
    let overrides = toml::Table::from_iter([("precondition".to_owned(), toml::Value::from(state))]);
    profile.clone().with_model(&overrides)?.build(used, 1)
}

/// After this time every spindle has stopped.
const STANDBY_REACHED: Nanos = Nanos::from_s(60);

/// A model under one workload, and at rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtWork {
    /// Under the workload.
    pub busy: Throughput,
    /// Watts when idle.
    pub idle_w: f64,
    /// Watts in standby, once reached.
    pub standby_w: f64,
}

/// Measures the model of a profile under a workload on all of it (`from` and `span` are set here): from its start where
/// requests follow each other. Of flash a slice is used, half of it given back where requests write, as on a drive that
/// is not full.
///
/// # Errors
/// Parameters that the model refuses.
pub fn at_work(profile: &Profile, workload: ClosedLoop) -> Result<AtWork, ProfileError> {
    // Reading data that was never written costs nothing.
    let state = if workload.read_share > 0.0 || workload.random { "sequential" } else { "fresh" };
    let mut device = preconditioned(profile, state)?;
    let mut span = device.capacity();
    let mut now = Nanos::from_s(1);
    if matches!(profile.model, Model::Flash(_)) && workload.read_share < 1.0 && workload.random {
        let half = Bytes((span.0 / 2).max(workload.size.0).min(span.0));
        device.submit(now, Tag(0), Io { op: Op::Discard, at: half, len: Bytes(span.0 - half.0) });
        span = half;
    }
    let whole = match workload.span {
        Bytes::ZERO => ClosedLoop { from: Bytes::ZERO, span, ..workload },
        _ => workload,
    };
    let filled = fill(&mut device, whole, now);
    let (whole, began) = settle(&mut device, profile, whole, filled);
    let (busy, end) = run(&mut device, &whole, began, 7);
    now = quiesce(&mut device, end);
    let mut at_rest = |device: &mut Device| {
        device.advance(now, &mut Vec::new());
        device.reset_stats(now);
        now += Nanos::from_s(10);
        device.advance(now, &mut Vec::new());
        device.stats(now).energy_j / 10.0
    };
    let idle_w = at_rest(&mut device);
    device.set_power(now, PowerState::Standby);
    let down = now + STANDBY_REACHED;
    device.advance(down, &mut Vec::new());
    device.reset_stats(down);
    let end = down + Nanos::from_s(10);
    device.advance(end, &mut Vec::new());
    let standby_w = device.stats(end).energy_j / 10.0;
    Ok(AtWork { busy, idle_w, standby_w })
}

impl ModelFigures {
    /// Power in watts of the workload that draws most, among those that drives are rated with: sequential reads and
    /// writes, and random reads and writes at a deep queue (for flash, in steady state).
    pub fn most_w(&self) -> Option<f64> {
        let random_writes = self.rand_write_steady.or(self.rand_write_fresh);
        let rated = [self.seq_read, self.seq_write, self.rand_read, random_writes];
        rated.into_iter().flatten().map(|throughput| throughput.mean_w).max_by(f64::total_cmp)
    }
}

/// The deepest queue that is measured.
const MOST_DEPTH: u32 = 1024;

/// Measures the model of a profile with short, seeded workloads. Figures that do not apply to the device are `None`.
///
/// ```
/// use peryton_device::{Profile, characterise};
///
/// let profile = Profile::named("ibm-ultrastar-36z15")?;
/// let figures = characterise(&profile)?;
/// let (model, sheet) = (figures.seq_read.expect("a disk can be read").mb_per_s, profile.data_sheet.seq_read_mb_per_s);
/// println!("sequential reads: {model:.0} MB/s, according to the data sheet {sheet:?}");
/// assert!((30.0..80.0).contains(&model), "{model}");
/// assert!(figures.rand_write_steady.is_none(), "only flash and shingled disks have a steady state");
/// # Ok::<(), peryton_device::ProfileError>(())
/// ```
///
/// # Errors
/// Parameters that the model refuses.
pub fn characterise(profile: &Profile) -> Result<ModelFigures, ProfileError> {
    let with = |state: &str| preconditioned(profile, state);
    let mut device = with("sequential")?;
    let used = device.capacity();
    let flash = match &profile.model {
        Model::Flash(flash) => Some(flash),
        _ => None,
    };
    let deep = if flash.is_some_and(|flash| flash.interface_mb_per_s > 1000.0) { 256 } else { 32 };
    let size = profile.data_sheet.rand_write_size.unwrap_or(Bytes::kib(4));
    let (small, large) = if flash.is_some() { (40_000, 1000) } else { (2000, 300) };
    let whole = ClosedLoop {
        read_share: 1.0,
        size: Bytes::kib(4),
        random: true,
        from: Bytes::ZERO,
        span: used,
        queue_depth: 1,
        requests: small,
    };
    let mib = ClosedLoop { size: Bytes::mib(1), requests: large, ..whole };
    let sequential = ClosedLoop { random: false, queue_depth: 8, ..mib };
    let tail = Bytes(used.0.saturating_sub(large << 20) >> 20 << 20);
    let mut measured = ModelFigures::default();

    let mut now = Nanos::from_s(1);
    let mut measure = |device: &mut Device, workload: ClosedLoop| {
        // An idle time in between, so that no workload pays for the one before it.
        let (throughput, end) = run(device, &workload, now, 7);
        now = quiesce(device, end);
        Some(throughput)
    };
    measured.seq_read = measure(&mut device, sequential);
    measured.seq_read_tail =
        measure(&mut device, ClosedLoop { from: tail, span: Bytes(used.0 - tail.0), ..sequential });
    measured.rand_read_qd1 = measure(&mut device, ClosedLoop { requests: 2000, ..whole });
    let reads = profile.data_sheet.rand_read_depth.unwrap_or(deep).clamp(1, MOST_DEPTH);
    measured.rand_read = measure(&mut device, ClosedLoop { queue_depth: reads, ..whole });
    measured.rand_read_large = measure(&mut device, ClosedLoop { requests: large / 2, ..mib });
    // Half of a flash device is discarded first, as on a drive that is not full, because cleaning is measured below. A
    // disk's seeks cover all of it.
    let half = if flash.is_some() { Bytes(used.0 / 2) } else { used };
    device.submit(now, Tag(0), Io { op: Op::Discard, at: half, len: Bytes(used.0 - half.0) });
    let mixed = ClosedLoop { read_share: 0.5, span: half, requests: large / 2, ..mib };
    // For a disk, the rate of writes to the surface counts; flash has room, as on a drive that is not full.
    let (mixed, began) = if flash.is_some() { (mixed, now) } else { settle(&mut device, profile, mixed, now) };
    let (throughput, end) = run(&mut device, &mixed, began, 7);
    measured.rand_mixed_large = Some(throughput);
    now = quiesce(&mut device, end);
    measured.idle_w = {
        device.reset_stats(now);
        now += Nanos::from_s(10);
        device.stats(now).energy_j / 10.0
    };
    measured.standby_w = {
        device.set_power(now, PowerState::Standby);
        now += STANDBY_REACHED;
        device.advance(now, &mut Vec::new());
        device.reset_stats(now);
        now += Nanos::from_s(10);
        device.stats(now).energy_j / 10.0
    };

    let writes = ClosedLoop { read_share: 0.0, size, ..whole };
    let fresh = |workload: ClosedLoop| -> Result<Option<Throughput>, ProfileError> {
        let mut device = with("fresh")?;
        // Short writes are what is stated of a drive with a cache in single-level mode: they stay in it.
        let cached = flash.and_then(|flash| flash.slc_cache.as_ref());
        let workload = cached.map_or(workload, |slc| {
            let part = device.capacity().0 as f64 / profile.capacity.0 as f64;
            let most = (slc.size.0 as f64 * part / 2.0) as u64 / workload.size.0;
            ClosedLoop { requests: workload.requests.min(most.max(1)), ..workload }
        });
        // The buffer is full and the dies are busy before the count begins; fresh flash is not cleaned.
        let (workload, now) = if flash.is_some() {
            let warm = ClosedLoop { requests: workload.requests / 2, ..workload };
            (workload, run(&mut device, &warm, Nanos::from_s(1), 5).1)
        } else {
            settle(&mut device, profile, workload, Nanos::from_s(1))
        };
        Ok(Some(run(&mut device, &workload, now, 6).0))
    };
    measured.seq_write = fresh(ClosedLoop { read_share: 0.0, ..sequential })?;
    measured.rand_write_qd1 = fresh(ClosedLoop { requests: 2000, size: Bytes::kib(4), ..writes })?;
    measured.rand_write_fresh = fresh(ClosedLoop { queue_depth: deep, ..writes })?;
    if flash.is_some() {
        let mut device = with("random")?;
        let steady = ClosedLoop { queue_depth: deep, requests: small * 4, ..writes };
        let (_, now) = run(&mut device, &steady, Nanos::from_s(1), 5);
        let (throughput, now) = run(&mut device, &steady, now, 6);
        let stats = device.stats(now);
        measured.rand_write_steady = Some(throughput);
        measured.write_amplification_steady =
            stats.nand_bytes_written.map(|programmed| programmed.0 as f64 / stats.bytes_written.0.max(1) as f64);
        measured.ftl_steady = stats.ftl;
    }
    if let Device::Shingled(_) = device {
        let mut device = with("fresh")?;
        let steady = ClosedLoop { queue_depth: deep, ..writes };
        let filled = fill(&mut device, steady, Nanos::from_s(1));
        let (steady, now) = settle(&mut device, profile, steady, filled);
        measured.rand_write_steady = Some(run(&mut device, &steady, now, 6).0);
    }
    Ok(measured)
}
