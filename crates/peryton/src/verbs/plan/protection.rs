//! Redundancy, spares, room that stays free, and what failures cost.

use peryton_plan::capacity::{FILL_LIMIT, FillLimit, Plan, Protection, Spares, TierFailures};
use peryton_sim::Redundancy;
use peryton_units::Nanos;

use crate::{
    failure::Failure,
    table::{self, Column, Table},
};

/// What every design keeps for the day when devices fail.
#[derive(Debug, clap::Args)]
pub(super) struct ProtectionArgs {
    /// Of each tier: mirror, raid5 or raid6
    ///
    /// How each tier survives failed devices: none, mirror, raid5 or raid6. Caches that write through hold copies and have none.
    #[arg(long, value_name = "SCHEME", default_value = "none")]
    redundancy: Redundancy,
    /// Another redundancy for fast devices
    ///
    /// Another redundancy for fast devices, also those of caches that write through, and for designs of flash alone.
    #[arg(long, value_name = "SCHEME")]
    fast_redundancy: Option<Redundancy>,
    /// Another redundancy for slow devices, logs, disk-only designs
    #[arg(long, value_name = "SCHEME")]
    slow_redundancy: Option<Redundancy>,
    /// Spare devices of each tier, such as 1 or 5%
    ///
    /// Spare devices for each tier, or a share of its devices such as 5%: bought, kept on the shelf.
    #[arg(long, value_name = "N|SHARE", default_value = "0", allow_negative_numbers = true)]
    spares: Spares,
    /// The share of each device that is filled at most
    ///
    /// The share of each device that is filled at most; on flash the rest is over-provisioning.
    #[arg(long, value_name = "SHARE", default_value_t = FillLimit(FILL_LIMIT), allow_negative_numbers = true)]
    fill_limit: FillLimit,
    /// Time from failure to rebuild [default: 1 day, without spares 7]
    ///
    /// Time from a failure to the beginning of the rebuild [default: 1 day with spares, 7 days without].
    #[arg(long, value_name = "TIME")]
    replace_within: Option<Nanos>,
    /// Annual failure rate of a device, in place of its profile's
    #[arg(long, value_name = "NAME=PERCENT")]
    pub(super) afr: Vec<String>,
}

impl ProtectionArgs {
    pub(super) fn protection(&self) -> Protection {
        Protection {
            fast: self.fast_redundancy.unwrap_or(self.redundancy),
            slow: self.slow_redundancy.unwrap_or(self.redundancy),
            copies: self.fast_redundancy.is_some(),
            spares: self.spares,
            fill_limit: self.fill_limit.0,
            replace_within: self.replace_within,
        }
    }
}

/// The rates of `--afr`.
pub fn failure_rates(afr: &[String]) -> Result<Vec<(String, f64)>, Failure> {
    let one = |text: &String| {
        let (name, percent) = text.split_once('=')?;
        let percent: f64 = percent.strip_suffix('%')?.parse().ok()?;
        Some((name.to_owned(), percent / 100.0))
    };
    let bad = |text: &String| {
        let remedy = "write a device and its annual failure rate, such as seagate-st4000dm000=1.5%";
        Failure::bad_input(format!("--afr {text}: {remedy}"))
    };
    afr.iter().map(|text| one(text).ok_or_else(|| bad(text))).collect()
}

fn percent(share: f64) -> String {
    table::number(share * 100.0)
}

/// For people: what becomes of the best design and the runners-up when devices fail.
pub(super) fn shown(plan: &Plan) -> String {
    let Some(first) = plan.chosen().next() else { return String::new() };
    let loss = format!("loss in\n{} y, %", table::number(first.failures.years));
    let column = |(title, matters)| Column::names(title, matters);
    let mut header = vec![Column::text("if devices fail", 9)];
    header.extend([("tier", 8), ("redundancy", 6), ("devices\nfor data", 4), ("spares", 3)].map(column));
    header.extend([("AFR\n%", 7), ("failures\na year", 5), ("rebuild\nhours", 1)].map(column));
    header.extend([(loss.as_str(), 8), ("sector\nloss, %", 2)].map(column));
    header.push(Column::text("what is lost", 7));
    let mut rows = Table::of(header);
    for found in plan.chosen() {
        for (tier, bought) in found.failures.tiers.iter().zip(&found.devices) {
            let afr = table::cell(tier.afr, percent);
            rows.add_row([
                found.label.clone(),
                tier.role.clone(),
                tier.redundancy.to_string(),
                format!("{} of {}", bought.data_devices, bought.count),
                bought.spares.to_string(),
                afr + if tier.afr_estimated { " *" } else { "" },
                table::optional(tier.device_failures_per_year),
                table::optional(tier.rebuild_hours),
                table::optional(tier.data_loss_probability.map(|share| share * 100.0)),
                table::optional(tier.sector_loss_probability.map(|share| share * 100.0)),
                tier.loses.to_owned(),
            ]);
        }
    }
    let mut text = format!("\n{}", rows.shown());
    if plan.chosen().flat_map(|found| &found.failures.tiers).any(|tier| tier.afr_estimated) {
        text += "* an estimated failure rate: give the one of your own devices with --afr NAME=PERCENT\n";
    }
    let bare = |tier: &&TierFailures| tier.redundancy == Redundancy::None;
    for tier in first.failures.tiers.iter().filter(bare) {
        let drives =
            if tier.devices == 1 { "its only drive".to_owned() } else { format!("one of its {} drives", tier.devices) };
        text += &format!(
            "No redundancy in tier {}: the failure of {drives} loses {} (--redundancy mirror, raid5 or raid6)\n",
            tier.role, tier.loses
        );
    }
    for tier in first.failures.tiers.iter().filter(|tier| tier.redundancy != Redundancy::None) {
        text += &format!(
            "{} in tier {}: a small write costs {} commands to devices in place of one (simulated; redundancy of peryton sim --json has the counts)\n",
            tier.redundancy,
            tier.role,
            tier.redundancy.commands_of_a_small_write()
        );
    }
    text
}
