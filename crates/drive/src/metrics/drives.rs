//! The metrics of the drives beneath the volume, from the table that their threads fill.

use std::fmt;

use super::{
    described::Described,
    exposition::{Count, Labels, Page, one_if},
    families::{self as all, Family},
};
use crate::health::{DriveHealth, DrivePower, DriveRow, Warning};

const HOUR_S: f64 = 3600.0;
const YEAR_S: f64 = 8766.0 * HOUR_S;

/// The rows of a drive, one for each device that lies on it: its labels, and the drive.
struct Drives<'a>(Vec<([&'a str; 2], &'a DriveRow)>);

impl<'a> Drives<'a> {
    /// The drives that have answered, with what they said.
    fn known(&self) -> impl Iterator<Item = (Vec<&'a str>, &'a DriveHealth)> {
        self.0.iter().filter_map(|(labels, row)| Some((labels.to_vec(), row.health.as_ref()?)))
    }

    fn gauges(
        &self,
        page: &mut Page<'_>,
        family: &'static Family,
        figure: impl Fn(&DriveHealth) -> Option<f64>,
    ) -> fmt::Result {
        page.gauges(family, self.known().filter_map(|(labels, health)| Some((labels, figure(health)?))))
    }

    fn counters(
        &self,
        page: &mut Page<'_>,
        family: &'static Family,
        figure: impl Fn(&DriveHealth) -> Option<u64>,
    ) -> fmt::Result {
        page.counters(family, self.known().filter_map(|(labels, health)| Some((labels, figure(health)?))))
    }
}

/// Writes all of them.
pub(super) fn encode(page: &mut Page<'_>, about: &Described) -> fmt::Result {
    let rows = about.drives.drives();
    let on = |row: &DriveRow, device: usize| row.devices >> device & 1 == 1;
    let drives = Drives(
        about
            .devices
            .iter()
            .enumerate()
            .flat_map(|(index, device)| {
                let its = rows.iter().filter(move |row| on(row, index));
                its.map(|row| ([device.as_str(), row.about.name.as_str()], row))
            })
            .collect(),
    );
    health(page, &drives)?;
    energy(page, &drives)
}

fn health(page: &mut Page<'_>, drives: &Drives<'_>) -> fmt::Result {
    let ratio = |percent: Option<u32>| Some(f64::from(percent?) / 100.0);
    if drives.known().next().is_some() {
        let mut metric = page.begin(&all::DRIVE_INFO)?;
        for (labels, health) in drives.known() {
            let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
            let (model, serial) = (text(&health.model), text(&health.serial));
            let values = [labels[0], labels[1], model.as_str(), serial.as_str()];
            metric.encode_info(&Labels(&all::DRIVE_INFO, &values))?;
        }
    }
    let ages = drives.0.iter().filter_map(|(labels, row)| Some((labels.to_vec(), row.read?.elapsed().as_secs_f64())));
    page.gauges(&all::DRIVE_READ_AGE, ages)?;
    drives.gauges(page, &all::DRIVE_PASSED, |health| health.passed.map(one_if))?;
    let warnings = drives.known().flat_map(|(labels, health)| {
        Warning::ALL
            .map(|warning| ([&labels[..], &[warning.name()]].concat(), one_if(health.warnings.contains(&warning))))
    });
    page.gauges(&all::DRIVE_WARNING, warnings)?;
    drives.gauges(page, &all::DRIVE_USED, |health| ratio(health.percentage_used))?;
    drives.gauges(page, &all::DRIVE_LIFE_LEFT, |health| Some(health.estimates.years_left? * YEAR_S))?;
    drives.gauges(page, &all::DRIVE_SPARE, |health| ratio(health.spare_percent))?;
    drives.gauges(page, &all::DRIVE_SPARE_LEAST, |health| ratio(health.spare_threshold_percent))?;
    drives.gauges(page, &all::DRIVE_TEMPERATURE, |health| health.temperature_c.map(f64::from))?;
    drives.counters(page, &all::DRIVE_MEDIA_ERRORS, |health| health.media_errors)?;
    drives.counters(page, &all::DRIVE_READ, |health| health.bytes_read)?;
    drives.counters(page, &all::DRIVE_WRITTEN, |health| health.bytes_written)?;
    drives.counters(page, &all::DRIVE_FLASH_WRITTEN, |health| health.nand_bytes_written)?;
    let hours = drives.known().filter_map(|(labels, health)| Some((labels, health.power_on_hours?)));
    page.counters(&all::DRIVE_POWER_ON, hours.map(|(labels, hours)| (labels, Count::Real(hours as f64 * HOUR_S))))?;
    let states = drives.known().filter_map(|(labels, health)| Some((labels, health.power?)));
    let states = states.flat_map(|(labels, now)| {
        DrivePower::ALL.map(|state| ([&labels[..], &[state.name()]].concat(), one_if(state == now)))
    });
    page.gauges(&all::DRIVE_POWER, states)
}

fn energy(page: &mut Page<'_>, drives: &Drives<'_>) -> fmt::Result {
    let joules = |microjoules: u64| Count::Real(microjoules as f64 / 1e6);
    let most = drives.0.iter().filter_map(|(labels, row)| Some((labels.to_vec(), joules(row.most_energy_uj?))));
    page.counters(&all::DRIVE_ENERGY, most)
}
