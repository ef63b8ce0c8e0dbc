//! `peryton sweep`: designs, traces, replays and values of keys, each with each, into a data set.

use std::{
    io::IsTerminal,
    path::PathBuf,
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::ProgressStyle;
use peryton_sim::{DataSet, Space, SpaceError, SweepDone, sweep_into};
use serde_json::json;

use crate::{failure::Failure, output, terminal};

/// Options of `peryton sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton sweep space.toml --out rows
  peryton sweep space.toml --points

SPACE.toml names designs and traces, how they are replayed, and values of design keys:

  designs = [\"caching.toml\"]
  traces = [\"monday.parquet\", \"tuesday.parquet\"]
  replay = [\"timed\", \"qd=8\"]
  [keys]
  placement.replacement = [\"lru\", \"arc\"]
  devices.ssd.size = { from = \"1GiB\", to = \"64GiB\", points = 7, scale = \"log\" }

Each combination (point) is a row of Parquet, written as soon as it is simulated. After a stop the same command continues; if \
SPACE.toml has grown, it simulates the new points only (docs/sampling.md).")]
pub struct Args {
    /// The description of the sweep
    #[arg(value_name = "SPACE.toml")]
    space: PathBuf,
    /// The folder of the rows: a new or empty one, or that of a sweep to continue
    #[arg(long, value_name = "FOLDER", required_unless_present = "points")]
    out: Option<PathBuf>,
    /// Simulate the points again whose rows in the folder have an error
    #[arg(long)]
    retry_errors: bool,
    /// Print the number of simulations, and simulate nothing
    #[arg(long, conflicts_with_all = ["out", "retry_errors"])]
    points: bool,
    /// Print the numbers of simulated points and errors as JSON
    #[arg(long)]
    json: bool,
}

impl From<SpaceError> for Failure {
    fn from(error: SpaceError) -> Failure {
        if error.is_bad_input() { Failure::bad_input(error) } else { Failure::failed(error) }
    }
}

/// Between two lines about the progress where it is written to no terminal.
const LINE: Duration = Duration::from_secs(60);

/// What is known of the progress.
struct Progress {
    began: Instant,
    written: Instant,
}

/// Simulates the points that are not in the folder.
pub fn run(args: &Args) -> Result<(), Failure> {
    let space = Space::load(&args.space)?;
    let Some(folder) = &args.out else {
        let axes: Vec<&str> = space.keys().iter().map(|axis| axis.key.as_str()).collect();
        if args.json {
            return output::print_json(&json!({ "points": space.len(), "keys": axes }));
        }
        let over = if axes.is_empty() { String::new() } else { format!(" over {}", axes.join(", ")) };
        return output::tell(&format!("{} simulations{over}\n", space.len()));
    };
    let mut set = DataSet::open(folder)?;
    let bar = terminal::bar(space.len() as u64);
    let style = ProgressStyle::with_template("{spinner} {wide_bar} {human_pos}/{human_len} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    bar.enable_steady_tick(Duration::from_millis(100));
    let lines = !std::io::stderr().is_terminal();
    let progress = Mutex::new(Progress { began: Instant::now(), written: Instant::now() });
    let done = sweep_into(&mut set, &space, args.retry_errors, &|source| source, &|done| {
        bar.set_position((done.known + done.simulated) as u64);
        let Ok(mut progress) = progress.lock() else { return };
        let text = so_far(done, progress.began.elapsed());
        if lines && progress.written.elapsed() >= LINE {
            progress.written = Instant::now();
            terminal::remark(&text);
        }
        bar.set_message(text);
    });
    bar.finish_and_clear();
    let done = done?;
    if args.json {
        output::print_json(&json!({
            "folder": folder, "points": done.points, "simulated": done.simulated, "known": done.known, "errors": done.errors,
        }))?;
    } else {
        let mut text = format!(
            "{} points in {}: {} simulated now, {} known before or equal to others\n",
            done.points,
            folder.display(),
            done.simulated,
            done.known
        );
        if done.errors > 0 {
            text += &format!(
                "! {} rows have an error: see their column 'error'; --retry-errors simulates these points again\n",
                done.errors
            );
        }
        output::tell(&text)?;
    }
    // A script learns from the exit code that figures are missing.
    if done.errors > 0 { Err(Failure::quietly(1)) } else { Ok(()) }
}

/// What was done, and the time that the rest will take if it is like the part that is done.
fn so_far(done: SweepDone, elapsed: Duration) -> String {
    let mut text = format!("{} of {} points", done.known + done.simulated, done.points);
    if done.errors > 0 {
        text += &format!(", {} with errors", done.errors);
    }
    if done.simulated > 0 {
        let left = done.points.saturating_sub(done.known + done.simulated);
        let seconds = elapsed.as_secs_f64() / done.simulated as f64 * left as f64;
        text += &format!(", {} left", indicatif::HumanDuration(Duration::from_secs_f64(seconds)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_estimated_by_what_was_simulated() {
        let begun = SweepDone { points: 100, known: 40, simulated: 0, errors: 0 };
        assert_eq!(so_far(begun, Duration::from_secs(5)), "40 of 100 points");
        // Twenty took a minute, forty are left.
        let half = SweepDone { simulated: 20, errors: 3, ..begun };
        assert_eq!(so_far(half, Duration::from_secs(60)), "60 of 100 points, 3 with errors, 2 minutes left");
    }
}
