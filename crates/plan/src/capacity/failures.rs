//! Failures of devices: how many a year are to be expected, and how probable it is that data are lost.
//!
//! Devices fail independently of each other and at a constant rate, λ = −ln(1 − AFR) a year. An array of N devices is
//! rebuilt for R years after a failure, and loses data if more devices fail meanwhile than it survives (Patterson,
//! Gibson and Katz, SIGMOD 1988; Chen et al., ACM Computing Surveys 26, 1994):
//!
//! | | arrays that lose data, a year |
//! |---|---|
//! | none | Nλ |
//! | mirror | Nλ · λR |
//! | RAID 5 | Nλ · (N−1)λR |
//! | RAID 6 | Nλ · (N−1)λR · (N−2)λR |
//!
//! where each of the factors λR that is a probability is 1 − exp(−λR), exactly. Over T years the probability is 1 −
//! exp(−rate · T). Data can also go a sector at a time: a rebuild without redundancy left reads the other devices, and
//! one unreadable sector there is lost. That is a probability of its own.

use peryton_device::{Class, Origin, Profile};
use peryton_sim::Redundancy;
use peryton_units::{Bytes, SECONDS_PER_YEAR};
use serde::Serialize;

use super::{
    candidate::{Candidate, Member, Mode},
    catalogue::{Catalogue, Kind},
    protection::Protection,
};

/// Sectors that cannot be read, per bit read: what JEDEC JESD218 allows enterprise flash, and makers state of nearline
/// disks.
const UNREADABLE_PER_BIT_FLASH: f64 = 1e-16;
const UNREADABLE_PER_BIT_DISK: f64 = 1e-15;
/// The share of a device's sequential rate at which it is rebuilt, because the host goes on working.
const REBUILD_SHARE: f64 = 0.5;

/// The expected failures of a design.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failures {
    /// Devices that fail in a year, on average; absent if the rate of one is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_failures_per_year: Option<f64>,
    /// Years of the probabilities.
    pub years: f64,
    /// The probability that a tier loses more devices than it survives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_loss_probability: Option<f64>,
    /// The probability that a rebuild meets an unreadable sector and has no redundancy left to restore it (designs with
    /// redundancy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sector_loss_probability: Option<f64>,
    /// The tiers.
    pub tiers: Vec<TierFailures>,
}

/// The expected failures of the devices of one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierFailures {
    /// The role in the design.
    pub role: String,
    /// The profile's name.
    pub profile: String,
    /// The number of devices, spares excluded.
    pub devices: u32,
    /// How they survive failures.
    pub redundancy: Redundancy,
    /// Devices that may fail, whichever they are, before data are lost.
    pub survives_failures: u32,
    /// What is lost when more of them fail.
    pub loses: &'static str,
    /// The annual failure rate of a device, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub afr: Option<f64>,
    /// Whether that rate is an estimate: neither the maker nor the user said it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub afr_estimated: bool,
    /// Devices that fail in a year, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_failures_per_year: Option<f64>,
    /// Hours of a rebuild (tiers with redundancy).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild_hours: Option<f64>,
    /// Hours from the failure of a device to the end of its rebuild.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposed_hours: Option<f64>,
    /// The probability that more devices fail than it survives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_loss_probability: Option<f64>,
    /// The probability that a rebuild meets an unreadable sector and has no redundancy left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sector_loss_probability: Option<f64>,
}

impl Failures {
    pub(super) fn of(candidate: &Candidate, catalogue: &Catalogue, protection: &Protection, years: f64) -> Failures {
        let tiers = tiers(candidate, catalogue, protection, years);
        let any = |of: fn(&TierFailures) -> Option<f64>| {
            let lossy = tiers.iter().filter(|tier| tier.loses != COPIES);
            lossy.map(of).try_fold(1.0, |none, one| Some(none * (1.0 - one?))).map(|none| 1.0 - none)
        };
        let redundant = tiers.iter().any(|tier| tier.redundancy != Redundancy::None);
        Failures {
            device_failures_per_year: tiers.iter().map(|tier| tier.device_failures_per_year).sum(),
            years,
            data_loss_probability: any(|tier| tier.data_loss_probability),
            // A tier without redundancy has no rebuild in which a sector could be lost.
            sector_loss_probability: any(|tier| {
                if tier.redundancy == Redundancy::None { Some(0.0) } else { tier.sector_loss_probability }
            })
            .filter(|_| redundant),
            tiers,
        }
    }
}

/// In the order of the candidate's devices.
fn tiers(candidate: &Candidate, catalogue: &Catalogue, protection: &Protection, years: f64) -> Vec<TierFailures> {
    let tier = |(role, member): (&'static str, Member)| {
        tier(candidate.mode, role, member, &catalogue.kinds[member.kind], protection, years)
    };
    let mut all: Vec<TierFailures> = candidate.own().map(tier).collect();
    let inside = candidate.drive().map(|drive| tiers(drive, catalogue, protection, years));
    for (tier, (role, _)) in inside.into_iter().flatten().zip(candidate.members().into_iter().skip(all.len())) {
        all.push(TierFailures { role, ..tier });
    }
    all
}

const COPIES: &str = "nothing: it holds copies";

/// What is lost with a tier.
fn loses(mode: Mode, role: &str) -> &'static str {
    match (mode, role) {
        (Mode::CachingThrough, "fast") => COPIES,
        (Mode::CachingBack | Mode::Partitioned, "fast") => "the newest version of dirty data",
        (Mode::Tiering, "fast") => "the data on the fast tier",
        (Mode::Tiering, _) => "the data on the slow tier",
        (Mode::Logging, "log") => "the writes since the last migration",
        (Mode::Single, _) => "all data",
        _ => "all data that no other tier holds",
    }
}

fn tier(
    mode: Mode,
    role: &'static str,
    member: Member,
    kind: &Kind,
    protection: &Protection,
    years: f64,
) -> TierFailures {
    let Member { count, redundancy, spares, .. } = member;
    let rebuild_hours = rebuild_hours(&kind.profile, kind.capacity(member)).filter(|_| redundancy != Redundancy::None);
    let exposed_hours = rebuild_hours.map(|hours| hours + protection.replaced_after(spares).as_s_f64() / 3600.0);
    // Failures per year of one device.
    let rate = kind.profile.afr.map(|afr| -(-afr).ln_1p());
    let exposed = exposed_hours.map(|hours| hours * 3600.0 / SECONDS_PER_YEAR);
    let over = |rate: f64| -(-rate * years).exp_m1();
    let n = f64::from(count);
    // The probability that one of so many fails within the time of exposure.
    let meanwhile = |others: f64| Some(-(-others * rate? * exposed?).exp_m1());
    let lost = || {
        let first = n * rate?;
        Some(match redundancy {
            Redundancy::None => first,
            Redundancy::Mirror => first * meanwhile(1.0)?,
            Redundancy::Raid5 => first * meanwhile(n - 1.0)?,
            Redundancy::Raid6 => first * meanwhile(n - 1.0)? * meanwhile(n - 2.0)?,
        })
    };
    let sector = || {
        let per_bit = if kind.profile.class == Class::Hdd { UNREADABLE_PER_BIT_DISK } else { UNREADABLE_PER_BIT_FLASH };
        let read = |devices: f64| -(-per_bit * devices * kind.capacity(member).0 as f64 * 8.0).exp_m1();
        let first = n * rate?;
        Some(match redundancy {
            Redundancy::None => return None,
            Redundancy::Mirror => first * read(1.0),
            Redundancy::Raid5 => first * read(n - 1.0),
            Redundancy::Raid6 => first * meanwhile(n - 1.0)? * read(n - 2.0),
        })
    };
    TierFailures {
        role: role.to_owned(),
        profile: kind.profile.name.clone(),
        devices: count,
        redundancy,
        survives_failures: redundancy.survives(),
        loses: loses(mode, role),
        afr: kind.profile.afr,
        afr_estimated: !kind.afr_given
            && kind.profile.provenance.of("afr").is_some_and(|said| said.origin == Origin::Estimated),
        device_failures_per_year: rate.map(|rate| n * rate),
        rebuild_hours,
        exposed_hours,
        data_loss_probability: lost().map(over),
        sector_loss_probability: sector().map(over),
    }
}

/// How long it takes to write a whole device.
fn rebuild_hours(profile: &Profile, capacity: Bytes) -> Option<f64> {
    let (measured, sheet) = (&profile.measured, &profile.data_sheet);
    let write = measured.seq_write_mb_per_s.or(sheet.seq_write_mb_per_s);
    let read = measured.seq_read_mb_per_s.or(sheet.seq_read_mb_per_s);
    let sequential = [write, read].into_iter().flatten().min_by(f64::total_cmp)?;
    (sequential > 0.0).then(|| capacity.0 as f64 / 1e6 / (sequential * REBUILD_SHARE) / 3600.0)
}

/// What the probabilities assume.
pub(super) fn assumptions(protection: &Protection, years: f64) -> Vec<String> {
    let replaced = match protection.replace_within {
        Some(time) => format!("{time} after a failure (--replace-within)"),
        None => "a day after a failure where there are spares, a week where not (--replace-within)".to_owned(),
    };
    vec![
        format!(
            "devices fail independently, each at its annual failure rate (afr of its profile, --afr) throughout the {years} years; \
             devices of one batch, one power supply or one firmware fail together, and rates in the field are often twice \
             to ten times those of data sheets: take a probability of loss as a lower bound"
        ),
        format!(
            "a rebuild begins {replaced} and writes a device at half of its sequential rate; it meets an unreadable sector \
             once in 10^15 bits of a disk and 10^16 of flash. Neither failed devices nor rebuilds are simulated"
        ),
    ]
}
