//! Which devices need the least for a workload: the question of `peryton energy`, and its answer.

use std::collections::BTreeMap;

use peryton_device::{Class, Era, Profile, ProfileError, is_price};
use peryton_sim::TraceFactory;
use peryton_trace::{Hashed, RequestHash, TraceError};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};
use rayon::prelude::*;
use serde::Serialize;
use thiserror::Error;

use super::{
    Decisive, Demand, DemandError, DominantNeed, Emerald, Figures, FiguresError, Fleet, FleetError, MeasuredDemand,
    Objective, Order, Ownership, Pattern, Policy, Prices, Ranked, Segment, Span, Terms, Zone, decisive, fleet,
    ownership::Household, rank, sort_by_cost,
};

/// How data are accessed, if no trace says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accesses {
    /// Sequential reads.
    #[default]
    SeqRead,
    /// Sequential writes.
    SeqWrite,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random reads and writes, equally many.
    RandMixed,
}

/// The state of the devices that the average bandwidth does not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unneeded {
    /// Random accesses: all active, since the data are spread; sequential: idle or standby, whichever needs less.
    #[default]
    Best,
    /// This one.
    Always(Policy),
}

/// A workload, the devices to choose from, and prices.
///
/// ```
/// use peryton_plan::energy::{Accesses, Question};
/// use peryton_units::Bytes;
///
/// let question = Question {
///     peak: Some(Bytes(50_000_000)),
///     average: Some(Bytes(50_000_000)),
///     capacity: Some(Bytes(12_000_000_000_000)),
///     accesses: Accesses::SeqWrite,
///     ..Question::default()
/// };
/// let answer = question.answer(None)?;
/// println!("{} × {}", answer.devices[0].devices, answer.devices[0].figures.device);
/// # assert!(answer.devices.len() > 5);
/// # Ok::<(), peryton_plan::energy::QuestionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Question {
    /// Peak bandwidth, in bytes per second; absent = the trace's, like the next two.
    pub peak: Option<Bytes>,
    /// Average bandwidth, in bytes per second.
    pub average: Option<Bytes>,
    /// Amount of data to be stored.
    pub capacity: Option<Bytes>,
    /// How the data are accessed, without a trace.
    pub accesses: Accesses,
    /// Where sequential accesses lie on a disk.
    pub zone: Zone,
    /// Size of a request; absent = the trace's, or 1 MiB as in the paper.
    pub request_size: Option<Bytes>,
    /// Number of requests in flight on a device; absent = 1 for random accesses, 8 for sequential ones, 32 for a trace's
    /// random accesses.
    pub queue_depth: Option<u32>,
    /// Devices: names of profiles, or paths; empty = every profile of the era with power figures.
    pub devices: Vec<String>,
    /// The years of the devices, if none is named.
    pub era: Era,
    /// Purchase prices in USD in place of the profiles'.
    pub prices: Vec<(String, f64)>,
    /// Annual failure rates, as shares, in place of the profiles'.
    pub failure_rates: Vec<(String, f64)>,
    /// Power management efficiency: the number of active devices for each that is needed.
    pub alpha: f64,
    /// The state of the devices that the average bandwidth does not need.
    pub unneeded: Unneeded,
    /// Run time; absent = until the data have been moved once, or a year if bandwidth decides or accesses are random.
    pub run_for: Option<Nanos>,
    /// Price of electricity, USD per kWh.
    pub usd_per_kwh: f64,
    /// Power of the shelf for each device (fans, expanders, losses of power supplies), in watts.
    pub shelf_w_per_device: f64,
    /// Also compute the ratios of SNIA's Emerald.
    pub emerald: bool,
    /// Order of the list.
    pub order: Order,
    /// Use bandwidth and busy power of Peryton's models even if published figures exist.
    pub model: bool,
    /// Also find the best mix of devices.
    pub mixed: bool,
}

impl Default for Question {
    fn default() -> Question {
        Question {
            peak: None,
            average: None,
            capacity: None,
            accesses: Accesses::default(),
            zone: Zone::default(),
            request_size: None,
            queue_depth: None,
            devices: Vec::new(),
            era: Era::default(),
            prices: Vec::new(),
            failure_rates: Vec::new(),
            alpha: 1.0,
            unneeded: Unneeded::default(),
            run_for: None,
            usd_per_kwh: 0.12,
            shelf_w_per_device: 0.0,
            emerald: false,
            order: Order::Energy,
            model: false,
            mixed: false,
        }
    }
}

/// The devices, ranked, and what the ranking rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The version of Peryton.
    pub peryton_version: &'static str,
    /// The command that gives this answer again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The trace on which the workload was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<MeasuredTrace>,
    /// What was not given and is taken to be so.
    pub assumptions: Vec<String>,
    /// The workload.
    pub demand: Demand,
    /// Its accesses.
    pub pattern: Pattern,
    /// All that was measured on the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredDemand>,
    /// The run time.
    pub run_time_s: f64,
    /// Power management efficiency.
    pub alpha: f64,
    /// Price of electricity.
    pub electricity_usd_per_kwh: f64,
    /// The devices in the order asked for.
    pub devices: Vec<Ranked>,
    /// Power of the shelf for each device, in watts. It counts in `ownership` and `emerald`.
    pub shelf_w_per_device: f64,
    /// The cost of each kind of device over five years; those that would be worn out all the time are left out.
    pub ownership: BTreeMap<String, Ownership>,
    /// The ratios of SNIA's Emerald for each device.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub emerald: BTreeMap<String, Emerald>,
    /// How many it takes with requests of other sizes, where none was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_request_sizes: Vec<OtherSize>,
    /// The best mixes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fleets: Vec<Fleet>,
    /// The parts of the data, by how often they are accessed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
    /// Figures resting on estimates that would put another device first if they were 30 % off.
    pub decisive_estimates: Vec<Decisive>,
    /// Devices that take no part, and why.
    pub left_out: Vec<String>,
    /// Why there is no best mix for an objective.
    #[serde(skip)]
    pub no_fleet: Vec<String>,
}

/// Which trace was measured.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredTrace {
    /// Its name.
    pub name: String,
    /// The hash of its requests.
    pub hash: RequestHash,
    /// Their number.
    pub requests: u64,
}

/// How many devices of each kind requests of another size need.
#[derive(Clone, Debug, Serialize)]
pub struct OtherSize {
    /// The size.
    pub request: Bytes,
    /// The number of each device.
    pub devices: BTreeMap<String, u64>,
}

/// The reason why there is no answer. Every message is one line.
#[derive(Debug, Error)]
pub enum QuestionError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The demand is not one.
    #[error(transparent)]
    Demand(#[from] DemandError),
    /// A device that was named has no figures.
    #[error(transparent)]
    Figures(#[from] FiguresError),
    /// The data cannot be divided.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A setting is out of its range.
    #[error("{0}")]
    Setting(String),
    /// No device is left.
    #[error("no device can take part in this: {left_out}")]
    NoDevice {
        /// Why not.
        left_out: String,
    },
}

/// Further sizes of random requests, if neither the question nor a trace gives the size.
const OTHER_SIZES: [Bytes; 2] = [Bytes::kib(64), Bytes::kib(4)];

/// The name of a trace, and a function that opens it.
pub type NamedTrace<'a> = (&'a str, &'a TraceFactory<'a>);

impl Question {
    /// Checks the settings that need no trace.
    ///
    /// # Errors
    /// A setting that is out of its range.
    pub fn check(&self) -> Result<(), QuestionError> {
        if !(self.alpha >= 1.0 && self.alpha.is_finite()) {
            let alpha = self.alpha;
            return Err(QuestionError::Setting(format!(
                "--alpha {alpha}: use 1 (only what is needed is active) or more"
            )));
        }
        if !(self.usd_per_kwh >= 0.0 && self.usd_per_kwh.is_finite()) {
            let price = self.usd_per_kwh;
            return Err(QuestionError::Setting(format!("--electricity {price}: use a price such as 0.12")));
        }
        if !(self.shelf_w_per_device >= 0.0 && self.shelf_w_per_device.is_finite()) {
            let watts = self.shelf_w_per_device;
            return Err(QuestionError::Setting(format!("--shelf-power {watts}: use watts for each device, such as 3")));
        }
        Ok(())
    }

    /// Ranks the devices; with a trace, for the workload that is measured on it, where nothing else is given. A search for
    /// mixes reads the trace twice.
    ///
    /// # Errors
    /// The trace or a profile cannot be read, a setting is out of its range, or no device can take part.
    pub fn answer(&self, trace: Option<NamedTrace<'_>>) -> Result<Answer, QuestionError> {
        self.check()?;
        let (measured, segments, traced) = self.measure(trace)?;
        let (demand, pattern) = self.asked(measured)?;
        let (figures, left_out) = self.catalogue(&pattern)?;
        let policies = self.policies(&pattern);
        let prices = Prices { usd_per_kwh: self.usd_per_kwh };
        let span = self.span(&demand, &pattern, &figures, trace.is_some());
        let terms = Terms { demand: &demand, alpha: self.alpha, policies, span, prices };
        let mut devices = rank(&figures, &terms);
        let Some(run_time_s) = devices.first().map(|first| first.run_time_s) else {
            return Err(QuestionError::NoDevice { left_out: left_out.join("; ") });
        };
        let assumed = self.request_size.is_none() && trace.is_none();
        let mut other_request_sizes = Vec::new();
        if assumed && pattern.random {
            for request in OTHER_SIZES {
                let (figures, _) = self.catalogue(&Pattern { request, ..pattern })?;
                let ranked = rank(&figures, &terms);
                let devices = ranked.into_iter().map(|row| (row.figures.device, row.devices)).collect();
                other_request_sizes.push(OtherSize { request, devices });
            }
        }
        if self.order == Order::Cost {
            sort_by_cost(&mut devices);
        }
        let household = Household { usd_per_kwh: self.usd_per_kwh, shelf_w_per_device: self.shelf_w_per_device };
        let owned = |row: &Ranked| {
            let cost = Ownership::of(&row.figures, (&demand, &pattern), row.devices, row.mean_power_w, household)?;
            Some((row.figures.device.clone(), cost))
        };
        let ownership: BTreeMap<String, Ownership> = devices.iter().filter_map(owned).collect();
        let emerald = if self.emerald { self.emerald(&devices)? } else { BTreeMap::new() };
        let decisive_estimates = decisive(&figures, &terms, self.order);
        let (mut fleets, mut no_fleet) = (Vec::new(), Vec::new());
        if self.mixed {
            for objective in [Objective::Energy, Objective::Cost] {
                match best_fleet(&figures, &segments, &terms, run_time_s, objective) {
                    Ok(fleet) => fleets.push(fleet),
                    Err(error) => no_fleet.push(error.to_string()),
                }
            }
        }
        Ok(Answer {
            peryton_version: peryton_sim::build().version,
            command: None,
            trace: traced,
            assumptions: self.assumptions(&pattern, assumed),
            demand,
            pattern,
            measured,
            run_time_s,
            alpha: self.alpha,
            electricity_usd_per_kwh: self.usd_per_kwh,
            shelf_w_per_device: self.shelf_w_per_device,
            ownership,
            emerald,
            devices,
            other_request_sizes,
            fleets,
            segments: if self.mixed { segments } else { Vec::new() },
            decisive_estimates,
            left_out,
            no_fleet,
        })
    }

    /// What figures rest on that the user did not say.
    fn assumptions(&self, pattern: &Pattern, assumed: bool) -> Vec<String> {
        let mut all = Vec::new();
        if assumed {
            all.push(format!(
                "requests of {}, as in the paper: the speed of random accesses depends mostly on this size (--request-size)",
                pattern.request
            ));
        }
        if self.unneeded == Unneeded::Best && pattern.random {
            all.push("random requests keep all devices active (--policy)".to_owned());
        }
        if self.shelf_w_per_device == 0.0 {
            all.push(
                "shelves, fans and power supplies take no power in the cost of ownership (--shelf-power)".to_owned(),
            );
        }
        if self.queue_depth.is_none() {
            let depth = pattern.queue_depth;
            let requests = if depth == 1 { "one request".to_owned() } else { format!("{depth} requests") };
            all.push(format!("devices are given {requests} at a time (--queue-depth)"));
        }
        all
    }

    fn measure(&self, trace: Option<NamedTrace<'_>>) -> Result<FromTrace, QuestionError> {
        let Some((name, trace)) = trace else { return Ok((None, vec![Segment::WHOLE], None)) };
        let mut source = Hashed::new(trace()?);
        let measured = MeasuredDemand::of(&mut source)?;
        let hash = source.hash();
        drop(source);
        let traced = MeasuredTrace { name: name.to_owned(), hash, requests: hash.requests() };
        if !self.mixed {
            return Ok((Some(measured), vec![Segment::WHOLE], Some(traced)));
        }
        let segments = Segment::of(&mut *trace()?, measured.demand.capacity_mb)?;
        Ok((Some(measured), segments, Some(traced)))
    }

    /// What was given, else what was measured.
    fn asked(&self, measured: Option<MeasuredDemand>) -> Result<(Demand, Pattern), QuestionError> {
        let mb = |bytes: Bytes| bytes.0 as f64 / 1e6;
        let given = |of: Option<Bytes>, measured: Option<f64>| of.map(mb).or(measured).unwrap_or(0.0);
        let demand = measured.map(|measured| measured.demand);
        let demand = Demand::new(
            given(self.peak, demand.map(|d| d.peak_mb_per_s)),
            given(self.average, demand.map(|d| d.average_mb_per_s)),
            given(self.capacity, demand.map(|d| d.capacity_mb)),
        )?;
        let mut pattern = measured.map_or_else(
            || match self.accesses {
                Accesses::SeqRead => Pattern::large(false, 1.0),
                Accesses::SeqWrite => Pattern::large(false, 0.0),
                Accesses::RandRead => Pattern::large(true, 1.0),
                Accesses::RandWrite => Pattern::large(true, 0.0),
                Accesses::RandMixed => Pattern::large(true, 0.5),
            },
            |measured| measured.pattern,
        );
        if let Some(request) = self.request_size {
            pattern.request = request;
        }
        if let Some(depth) = self.queue_depth {
            pattern.queue_depth = depth;
        }
        if self.zone == Zone::Tail && pattern.random {
            return Err(QuestionError::Setting(
                "--zone tail: random accesses reach over the whole disk; leave it out, or use sequential accesses"
                    .to_owned(),
            ));
        }
        pattern.zone = self.zone;
        if pattern.request == Bytes::ZERO || !pattern.request.is_multiple_of(Bytes(512)) {
            let size = pattern.request;
            return Err(QuestionError::Setting(format!("--request-size {size}: use a multiple of 512B, such as 1MiB")));
        }
        if !(1..=1024).contains(&pattern.queue_depth) {
            return Err(QuestionError::Setting(format!("--queue-depth {}: use 1 to 1024", pattern.queue_depth)));
        }
        Ok((demand, pattern))
    }

    fn emerald(&self, devices: &[Ranked]) -> Result<BTreeMap<String, Emerald>, QuestionError> {
        let chosen = |profile: &Profile| devices.iter().any(|row| row.figures.device == profile.name);
        let profiles: Vec<Profile> = self.profiles()?.into_iter().filter(chosen).collect();
        let of = |profile: &Profile| Ok((profile.name.clone(), Emerald::of(profile, self.shelf_w_per_device)?));
        profiles.par_iter().map(of).collect()
    }

    /// The devices to choose from, with the prices and failure rates that were given.
    fn profiles(&self) -> Result<Vec<Profile>, QuestionError> {
        let chosen = !self.devices.is_empty();
        let names: Vec<String> =
            if chosen { self.devices.clone() } else { Profile::shipped().map(str::to_owned).collect() };
        let mut profiles = names.iter().map(|name| Profile::named(name)).collect::<Result<Vec<_>, _>>()?;
        // The models of analytic work are no devices that one could buy.
        profiles.retain(|profile| chosen || (profile.class != Class::Fixed && self.era.has(profile)));
        for (name, usd) in &self.prices {
            let profile =
                profiles.iter_mut().find(|profile| profile.name == *name).filter(|_| *usd == 0.0 || is_price(*usd));
            let Some(profile) = profile else {
                return Err(QuestionError::Setting(format!(
                    "--price {name}={usd:?}: write a device of the list and its price, at most a billion USD, such as intel-320-300gb=529"
                )));
            };
            profile.price_usd = Some(*usd);
        }
        for (name, afr) in &self.failure_rates {
            let profile =
                profiles.iter_mut().find(|profile| profile.name == *name).filter(|_| *afr > 0.0 && *afr < 1.0);
            let Some(profile) = profile else {
                return Err(QuestionError::Setting(format!(
                    "--afr {name}={}%: write a device of the list and its annual failure rate above 0% and below 100%, such as \
                     seagate-exos-x20-20tb=1.5%",
                    afr * 100.0
                )));
            };
            profile.afr = Some(*afr);
        }
        Ok(profiles)
    }

    /// The figures of each device, and why some have none.
    fn catalogue(&self, pattern: &Pattern) -> Result<(Vec<Figures>, Vec<String>), QuestionError> {
        let chosen = !self.devices.is_empty();
        let profiles = self.profiles()?;
        let of = if self.model { Figures::modelled } else { Figures::of };
        let results: Vec<Result<Figures, FiguresError>> =
            profiles.par_iter().map(|profile| of(profile, pattern)).collect();
        let (mut figures, mut left_out) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(found) => figures.push(found),
                Err(error) if chosen => return Err(error.into()),
                Err(error) => left_out.push(error.to_string()),
            }
        }
        Ok((figures, left_out))
    }

    fn policies(&self, pattern: &Pattern) -> &'static [Policy] {
        match self.unneeded {
            Unneeded::Best if pattern.random => &[Policy::AllActive],
            Unneeded::Best => &[Policy::Idle, Policy::Standby],
            Unneeded::Always(Policy::Idle) => &[Policy::Idle],
            Unneeded::Always(Policy::Standby) => &[Policy::Standby],
            Unneeded::Always(Policy::AllActive) => &[Policy::AllActive],
        }
    }

    fn span(&self, demand: &Demand, pattern: &Pattern, figures: &[Figures], traced: bool) -> Span {
        if let Some(time) = self.run_for {
            return Span::Seconds(time.as_s_f64());
        }
        let capacity = figures.iter().all(|one| one.kind(demand) == DominantNeed::Capacity);
        match demand.time_to_finish_s() {
            Some(_) if capacity && !pattern.random && !traced => Span::Once,
            _ => Span::Seconds(SECONDS_PER_YEAR),
        }
    }
}

/// What the trace says, of what, and from where.
type FromTrace = (Option<MeasuredDemand>, Vec<Segment>, Option<MeasuredTrace>);

/// Of the fleets under each policy that may be used, the best.
fn best_fleet(
    figures: &[Figures],
    segments: &[Segment],
    terms: &Terms<'_>,
    run_time_s: f64,
    objective: Objective,
) -> Result<Fleet, FleetError> {
    let mut best: Result<Fleet, _> = Err(FleetError::NoDevices);
    for policy in terms.policies {
        let Terms { demand, alpha, prices, .. } = *terms;
        let found = fleet(figures, demand, segments, alpha, *policy, run_time_s, prices, objective);
        let value = |fleet: &Fleet| match objective {
            Objective::Energy => fleet.energy_j,
            Objective::Cost => fleet.total_usd.unwrap_or(f64::INFINITY),
        };
        best = match (best, found) {
            (Ok(a), Ok(b)) => Ok(if value(&b) < value(&a) { b } else { a }),
            (Err(_), found) => found,
            (found, Err(_)) => found,
        };
    }
    best
}
