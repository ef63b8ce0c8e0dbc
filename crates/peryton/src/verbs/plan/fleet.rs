//! `peryton plan --fleet`: what to buy for many volumes.

use std::{fs, io, path::Path};

use peryton_plan::{
    capacity::Catalogue,
    fleet::{self, FleetAsk, FleetPlan, FleetPlanError, Recordings},
    metric::Metric,
};
use peryton_sim::Replay;
use peryton_units::{Bytes, person, person_ms, person_years};

use super::{Args, Bar};
use crate::{
    failure::Failure,
    output,
    page::{self, beside, bought, corrected},
    table::{self, Column, Table},
    terminal,
};

/// The most volumes of a table for people; the page and the JSON have all.
const MOST_ROWS: usize = 24;
const PLAN: &str = "plan.json";

impl From<FleetPlanError> for Failure {
    fn from(error: FleetPlanError) -> Failure {
        match error {
            FleetPlanError::Sim(error) => error.into(),
            FleetPlanError::Io { .. } | FleetPlanError::Elsewhere(_) => Failure::failed(error),
            _ => Failure::bad_input(error),
        }
    }
}

/// Plans for the recordings of many volumes, and prints.
pub(super) fn run(path: &Path, args: &Args, catalogue: &Catalogue, report_to_stdout: bool) -> Result<(), Failure> {
    let one = super::ask(args)?;
    let Replay::Timed { speed } = one.options.replay else {
        return Err(Failure::bad_input("--replay: a fleet is planned for the times of its recordings: leave it out"));
    };
    let ask = FleetAsk {
        constraints: one.constraints,
        objective: one.objective,
        most: one.most,
        protection: one.protection,
        account: one.account,
        duty: one.duty,
    };
    ask.check()?;
    let recordings = Recordings::at(path, &args.trace_args.options(), speed)?;
    let bar = Bar::new();
    let loads = recordings.measure(&|done, of| bar.show("reading the recordings", done, of))?;
    for (name, remark) in recordings.remarks() {
        terminal::remark(&format!("{name}: {remark}"));
    }
    let progress = |what: &str, done: u64, of: u64| bar.show(what, done, of);
    let simulate =
        |tasks: &[fleet::DriveTask]| recordings.simulate(tasks, &|done, of| bar.show("simulating drives", done, of));
    let mut plan = fleet::plan(&ask, catalogue, &recordings.name, &loads, &simulate, &progress)?;
    bar.finish();
    plan.command = Some(page::command_line());
    if let Some(folder) = &args.out {
        write(folder, &plan)?;
    }
    if let Some(path) = &args.report {
        output::write(
            path,
            page::fleet(&plan, (&drive_rows(&plan), &volume_rows(&plan, usize::MAX)), &page::command_line()),
        )?;
    }
    output::print_result(&plan, args.json, report_to_stdout, || shown(&plan))?;
    if plan.meets { Ok(()) } else { Err(Failure::quietly(1)) }
}

/// Writes the part of each volume as a design, in a folder for each drive, and the plan.
fn write(folder: &Path, plan: &FleetPlan) -> Result<(), Failure> {
    let failed = |path: &Path, error: &io::Error| Failure::writing(&path.display().to_string(), error);
    for (volume, design, number) in
        plan.volumes.iter().filter_map(|one| Some((one, one.design_toml.as_ref()?, one.drive?)))
    {
        let drive = folder.join(format!("drive-{number}"));
        fs::create_dir_all(&drive).map_err(|error| failed(&drive, &error))?;
        let label = plan.drives.get(number - 1).map_or("", |drive| drive.label.as_str());
        let about = format!(
            "# Volume {} on drive {number} of {} ({label}), whose devices it shares: a partition of each.\n# Made by Peryton {} with\n#   {}\n\
             # To serve it, give each device a path: of several drives, that of their array (mdadm).\n",
            volume.volume,
            plan.drives.len(),
            plan.peryton_version,
            plan.command.as_deref().unwrap_or("the library")
        );
        let name: String = volume
            .volume
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '-' })
            .collect();
        let path = drive.join(format!("{name}.toml"));
        fs::write(&path, format!("{about}\n{design}")).map_err(|error| failed(&path, &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    output::write_json(&folder.join(PLAN), plan)
}

fn count(drives: usize) -> String {
    if drives == 1 { "one drive".to_owned() } else { format!("{drives} drives") }
}

fn shown(plan: &FleetPlan) -> String {
    let budgets = plan.constraints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "{}: {} volumes, {} requests in {} s; {} stored, {} touched; loads in windows of {} s\n{} kinds of drives of {} devices; {}; least {}\n\n",
        plan.fleet,
        plan.volumes.len(),
        plan.requests,
        person(plan.span_s),
        Bytes(plan.stored_bytes),
        Bytes(plan.touched_bytes),
        person(plan.window_s),
        plan.drive_kinds,
        plan.catalogue.len(),
        if budgets.is_empty() { "no budgets" } else { &budgets },
        plan.objective,
    );
    for sentence in &plan.infeasible {
        text += &format!("Nothing meets this: {sentence}.\n");
    }
    if !plan.meets {
        return text + &assumed(plan);
    }
    let drives =
        bought(plan).into_iter().map(|(count, label)| format!("{count} × {label}")).collect::<Vec<_>>().join(", ");
    let what = if plan.objective == Metric::Ownership {
        format!(" over {} years", person(plan.account.years))
    } else {
        String::new()
    };
    text += &format!("Buy {} for {} USD{what}: {drives}\n", count(plan.drives.len()), person(plan.usd.unwrap_or(0.0)));
    beside(plan).into_iter().for_each(|line| text += &format!("  {line}\n"));
    text += "\n";
    text += &drive_rows(plan).shown();
    text += "\n";
    text += &volume_rows(plan, MOST_ROWS).shown();
    if plan.volumes.len() > MOST_ROWS {
        text += &format!("… {} volumes more (--report, --json)\n", plan.volumes.len() - MOST_ROWS);
    }
    text += "\n";
    for (label, correction) in &plan.corrections {
        text += &format!("Corrected: {}\n", corrected(label, correction));
    }
    text + &assumed(plan)
}

fn assumed(plan: &FleetPlan) -> String {
    plan.assumptions.iter().map(|assumption| format!("Assumed: {assumption}\n")).collect()
}

/// A row for each drive.
fn drive_rows(plan: &FleetPlan) -> Table {
    let mut header = vec![Column::figures("drive", 9), Column::text("devices", 9)];
    let figures =
        [("volumes", 9), ("stored", 7), ("room", 4), ("busy\n%", 5), ("busiest\n%", 8), ("if together\n%", 6)];
    header.extend(figures.map(|(title, matters)| Column::figures(title, matters)));
    let figures = [("predicted\nmean", 8), ("simulated\nmean", 9), ("p99", 6), ("lifetime", 5), ("USD", 9)];
    header.extend(figures.map(|(title, matters)| Column::figures(title, matters)));
    let mut rows = Table::of(header);
    for drive in &plan.drives {
        rows.add_row([
            drive.drive.to_string(),
            drive.label.clone(),
            drive.volumes.len().to_string(),
            Bytes(drive.stored_bytes).to_string(),
            Bytes(drive.room_bytes).to_string(),
            person(drive.mean_busy * 100.0),
            person(drive.busiest * 100.0),
            person(drive.busiest_if_together * 100.0),
            person_ms(drive.predicted_mean_ms),
            table::cell(drive.mean_ms, person_ms),
            table::cell(drive.p99_ms, person_ms),
            table::cell(drive.lifetime_years, person_years),
            person(drive.usd),
        ]);
    }
    rows
}

/// A row for each volume, of at most so many.
fn volume_rows(plan: &FleetPlan, most: usize) -> Table {
    let mut header = vec![Column::names("volume", 9)];
    let figures = [("drive", 9), ("stored", 7), ("touched", 6), ("flash", 9), ("requests/s\nin its peak", 5)];
    header.extend(figures.map(|(title, matters)| Column::figures(title, matters)));
    let figures = [("predicted\nmean", 7), ("simulated\nmean", 8), ("p99", 4), ("hit\n%", 6)];
    header.extend(figures.map(|(title, matters)| Column::figures(title, matters)));
    let mut rows = Table::of(header);
    let size = |bytes: u64| Bytes(bytes).to_string();
    for volume in plan.volumes.iter().take(most) {
        rows.add_row([
            volume.volume.clone(),
            table::cell(volume.drive, |drive| drive.to_string()),
            size(volume.stored_bytes),
            size(volume.touched_bytes),
            table::cell(volume.flash_bytes, size),
            person(volume.busiest_requests_per_s),
            table::cell(volume.predicted_mean_ms, person_ms),
            table::cell(volume.mean_ms, person_ms),
            table::cell(volume.p99_ms, person_ms),
            table::cell(volume.fast_hit_ratio, |ratio| person(ratio * 100.0)),
        ]);
    }
    rows.without_empty_columns()
}
