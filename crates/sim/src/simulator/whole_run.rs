//! A whole run: puts the event loop together for what is asked of it, replays the trace, and sees that there is something to report.

use peryton_engine::Commands;
use peryton_units::Nanos;

use super::{Host, MOST_IN_FLIGHT, Simulator, above::Above, lanes::Lanes, measuring, measuring::Uses};
use crate::{
    Design, Options, Replay, SimError,
    intervals::Intervals,
    machine::{Machine, Volume},
    outcome::Outcome,
    page_cache::PageCache,
    queue::Completions,
    request_source::RequestSource,
    wear_parts::WearParts,
};

/// Replays the trace and returns the measurements. `ahead`: another thread reads the trace.
pub(crate) fn simulate(
    design: &Design,
    mut machine: Machine,
    mut source: RequestSource<'_>,
    options: &Options,
    ahead: bool,
) -> Result<Outcome, SimError> {
    let is_plain = machine.volumes.len() == 1 && !is_watched(design, &machine, options);
    // All requests of a plain run count from its start, so what they access is noted batch by batch.
    if let Some(touched) = machine.volumes[0].touched.take_if(|_| is_plain) {
        source.note(touched);
    }
    if ahead {
        source = source.read_ahead();
    }
    match machine.volumes.len() {
        1 if is_plain => simulate_volumes::<false, false>(design, machine, source, options),
        1 => simulate_volumes::<false, true>(design, machine, source, options),
        _ => simulate_volumes::<true, true>(design, machine, source, options),
    }
}

/// Whether something is noted or changed during the run besides what every report has.
fn is_watched(design: &Design, machine: &Machine, options: &Options) -> bool {
    let is_more = |volume: &Volume| volume.bounds.is_some() || volume.host.is_some();
    machine.watch.0.is_some()
        || machine.volumes.iter().any(is_more)
        || design.page_cache.is_some()
        || options.picture
        || options.interval.is_some()
        || options.replications.is_some()
        || options.warm_up_requests > 0
        || options.recorded.is_some()
        || matches!(options.replay, Replay::Thinking { .. })
}

fn simulate_volumes<const SEVERAL: bool, const WATCHED: bool>(
    design: &Design,
    machine: Machine,
    source: RequestSource<'_>,
    options: &Options,
) -> Result<Outcome, SimError> {
    let volumes = machine.volumes.len();
    let mut intervals = Vec::new();
    if let Some(length) = options.interval {
        if length == Nanos::ZERO {
            return Err(SimError::NoInterval);
        }
        intervals.push(Intervals::new(length, machine.members()));
    }
    if options.picture {
        intervals.push(Intervals::course(machine.members()));
    }
    // One engine may have several volumes of the trace.
    let of_engine = design.stream.map_or(1, |stream| stream.count);
    let (depth, speed) = match options.replay {
        Replay::Sync => (of_engine, None),
        // A closed loop keeps its depth on each volume.
        Replay::Depth(depth) | Replay::Thinking { depth, .. } => (depth.saturating_mul(of_engine), None),
        Replay::Timed { speed } => (MOST_IN_FLIGHT, Some(speed)),
    };
    let think = if let Replay::Thinking { think, .. } = options.replay { Some(think) } else { None };
    let recorded = options.recorded.as_deref();
    let changes: Vec<_> = recorded.map(|recorded| recorded.changes.iter().rev().cloned().collect()).unwrap_or_default();
    let mut simulator = Simulator::<SEVERAL, WATCHED> {
        until: recorded.map_or(Nanos::ZERO, |recorded| recorded.until),
        recorded: options.recorded.clone(),
        next_change: changes.last().map_or(Nanos::MAX, |(at, _)| *at),
        changes,
        hosts: (0..volumes).map(|_| Host::new(think.map(|think| Box::new(Lanes::new(depth, think))))).collect(),
        volume_bits: volumes.next_power_of_two().trailing_zeros(),
        machine,
        source,
        depth,
        speed,
        now: Nanos::ZERO,
        commands: Commands::new(),
        completions: Completions::default(),
        ids: Vec::new(),
        device_event: Nanos::MAX,
        finished: Vec::new(),
        in_flight: 0,
        deepest: 0,
        warm_up_left: options.warm_up_requests,
        since: Nanos::ZERO,
        last_arrival: Nanos::ZERO,
        last_reply: Nanos::ZERO,
        bytes: 0,
        wear: WearParts::from(Nanos::ZERO),
        replies_count: options.warm_up_requests > 0 || !intervals.is_empty() || options.replications.is_some(),
        arrivals: 0,
        parts: options.replications.map(|_| Box::default()),
        intervals,
        uses: options.picture.then(|| Box::new(Uses::new(design))),
        // A recording is of what reached the drive.
        above: design
            .page_cache
            .filter(|_| recorded.is_none())
            .map(|cache| Above::new(PageCache::new(&cache, volumes, design.volume))),
        interval_end: measuring::LAST,
    };
    simulator.begin_uses();
    if options.warm_up_requests == 0 {
        simulator.begin_intervals();
    }
    simulator.replay()?;
    if let Some(touched) = simulator.source.take_touched() {
        simulator.machine.volumes[0].touched = Some(touched);
    }
    let answered = simulator.hosts.iter().map(|host| host.times.count()).sum();
    if answered == 0 && options.warm_up_requests > 0 && simulator.warm_up_left == 0 {
        let wanted = options.warm_up_requests;
        return Err(SimError::WarmUpTooLong { wanted, answered: wanted });
    }
    if simulator.warm_up_left > 0 {
        return Err(SimError::WarmUpTooLong { wanted: options.warm_up_requests, answered });
    }
    if answered == 0 {
        return Err(SimError::NoRequests { skipped: simulator.source.skipped() });
    }
    let seen = simulator.source.volumes_seen();
    let wanted = volumes * of_engine as usize;
    if !simulator.machine.same_requests && seen < wanted {
        return Err(SimError::TooFewVolumes { found: seen, wanted });
    }
    simulator.outcome(answered, options)
}
