//! `peryton twin`: replays what a drive recorded on models of its devices, and sets prediction beside measurement.

use std::path::PathBuf;

use peryton_sim::Replay;

use crate::{
    failure::Failure,
    naming::{self, Named, Served},
    output, page,
    table::{self, Column, Table},
    twin::{Figure, Models, Recording, Twin, Verdict, recording_of_served},
};

/// Options of `peryton twin`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub recorded: RecordedArgs,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the comparison as a self-contained HTML page to a file (- for standard output, in place of the table).
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options that name a recording and models of the devices.
#[derive(Clone, Debug, clap::Args)]
pub struct RecordedArgs {
    /// A recording, or a volume that is served with one
    ///
    /// A recording, or a volume that is being served with one (peryton serve --record).
    #[arg(value_name = "RECORDING|NAME", value_parser = naming::volume_or_recording())]
    recording: Named,
    /// The server's control socket, if it is not at its usual place
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// A device's profile, in place of the design's
    ///
    /// The profile of a device, in place of the design's: a file (peryton calibrate) or the name of a shipped one.
    #[arg(long, value_name = "DEVICE=PROFILE")]
    profile: Vec<String>,
    /// Set a key of the twin's design, such as devices.hdd.size=8GiB
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Begin with an empty drive, in place of the recorded state
    ///
    /// Begin with an empty drive, in place of the recorded state. Sizes other than the formatted ones need this.
    #[arg(long)]
    empty: bool,
    /// Timed as recorded, sync, or N in flight
    ///
    /// When requests arrive: as recorded (timed), one after the other without think time (sync), or so that N are in flight at
    /// all times (qd=N).
    #[arg(long, value_name = "timed|sync|qd=N", default_value = "timed")]
    pub replay: Replay,
}

impl RecordedArgs {
    /// The volume that is being served, if one was named.
    pub fn served(&self) -> Option<Served> {
        self.recording.is_design().then(|| Served::new(self.recording.clone(), self.control.clone()))
    }

    /// What was recorded.
    pub fn read(&self) -> Result<Recording, Failure> {
        match self.served() {
            Some(volume) => recording_of_served(&volume),
            None => Recording::read(self.recording.design()),
        }
    }

    /// The models of the devices.
    pub fn models(&self) -> Result<Models, Failure> {
        let of = |text: &String| match text.split_once('=') {
            Some((device, profile)) if !device.is_empty() && !profile.is_empty() => {
                Ok((device.to_owned(), profile.to_owned()))
            }
            _ => Err(Failure::bad_input(format!("--profile {text}: write DEVICE=PROFILE such as hdd=my-disk.toml"))),
        };
        Ok(Models {
            profiles: self.profile.iter().map(of).collect::<Result<_, _>>()?,
            set: self.set.clone(),
            empty: self.empty,
        })
    }
}

/// Compares and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let report_to_stdout = output::report_to_stdout(args.report.as_deref(), args.json)?;
    let models = args.recorded.models()?;
    let recording = args.recorded.read()?;
    let twin = Twin::of(&recording, &models, args.recorded.replay)?;
    if let Some(path) = &args.report {
        output::write(path, page::twin(&twin, &rows(&twin)))?;
    }
    output::print_result(&twin, args.json, report_to_stdout, || shown(&twin))
}

/// A value with its unit in a table.
fn value(figure: &Figure, value: Option<f64>) -> String {
    match (figure.unit, value) {
        (_, None) => table::NONE.to_owned(),
        ("bytes", Some(value)) => format!("{} MiB", table::number(value / f64::from(1 << 20))),
        ("us" | "W" | "years" | "GB", Some(value)) => {
            format!("{} {}", table::number(value), figure.unit.replace("us", "µs"))
        }
        ("share", Some(value)) => format!("{:.2} %", value * 100.0),
        (_, Some(value)) => format!("{value:.0}"),
    }
}

/// A difference in a table.
fn difference(figure: &Figure) -> String {
    let unit = if figure.unit == "share" { "points" } else { "%" };
    table::cell(figure.difference, |share| format!("{:+.1} {unit}", share * 100.0))
}

/// What may be claimed.
fn allowed(figure: &Figure) -> String {
    table::cell(figure.allowed, |share| format!("±{:.0} %", share * 100.0))
}

/// The verdict in words.
fn verdict(figure: &Figure) -> &'static str {
    match figure.verdict {
        Verdict::Agrees => "agrees",
        Verdict::Disagrees => "DISAGREES",
        Verdict::Unknown => "not measured",
    }
}

/// The figures of both.
fn rows(twin: &Twin) -> Table {
    let figures = |title| Column::figures(title, 2);
    let mut rows = Table::of(vec![
        Column::names("figure", 0),
        figures("measured"),
        figures("twin"),
        figures("difference"),
        Column::figures("allowed", 3),
        Column::names("", 1),
    ]);
    for figure in &twin.figures {
        rows.add_row([
            figure.figure.clone(),
            value(figure, figure.measured),
            value(figure, figure.predicted),
            difference(figure),
            allowed(figure),
            verdict(figure).to_owned(),
        ]);
    }
    rows
}

fn shown(twin: &Twin) -> String {
    let about = &twin.recording;
    let mut text = rows(twin).shown();
    let disagreeing = twin.figures.iter().filter(|figure| figure.disagrees()).count();
    text += &match disagreeing {
        0 => "\nThe twin agrees with the drive in all figures that both have.\n".to_owned(),
        1 => "\nOne figure disagrees.\n".to_owned(),
        count => format!("\n{count} figures disagree.\n"),
    };
    for reason in &twin.reasons {
        text += &format!("! {}.\n", capital(reason));
    }
    text += &format!(
        "{} requests of '{}' in {} s; response times are of the second half, and the host's {} µs of a read and {} µs of a write were \
         fitted to the first.\nTrace {}, replay {}, Peryton {}.\n",
        about.requests,
        about.name,
        table::number(about.span_s),
        table::number(twin.overhead.read_us),
        table::number(twin.overhead.write_us),
        twin.trace_hash,
        twin.replay,
        twin.peryton_version
    );
    text
}

/// With a capital at the start.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
