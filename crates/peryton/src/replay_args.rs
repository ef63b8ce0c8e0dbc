//! The options for replaying a trace, shared by the verbs that simulate designs.

use peryton_sim::{Fit, Options, Replay, Think};

use crate::failure::Failure;

/// When the requests of a trace arrive.
#[derive(Clone, Debug, clap::Args)]
pub struct ArrivalArgs {
    /// Timed as recorded, sync, or N in flight
    ///
    /// When requests arrive: as recorded (timed), one after the other without think time (sync), or so that N are in flight at
    /// all times (qd=N).
    #[arg(long, value_name = "timed|sync|qd=N", default_value = "timed")]
    replay: Replay,
    /// With timed replay: how many times faster than recorded
    #[arg(long, value_name = "X")]
    speed: Option<f64>,
    /// With sync or qd=N: the pause between a reply and the next request
    ///
    /// With sync or qd=N: the pause between a reply and the request that depends on it: a time, or the pause in the trace
    /// (trace).
    #[arg(long, value_name = "TIME|trace")]
    think_time: Option<Think>,
    /// Requests of warm-up [default: 0; plan, size, tune: half]
    ///
    /// Replay this many requests before the measured ones [default: 0; of peryton plan, size and tune, half of the trace].
    #[arg(long, value_name = "N")]
    pub warm_up_requests: Option<u64>,
}

/// Options of replaying a trace on designs that are given.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    arrival_args: ArrivalArgs,
    /// The volume is new: a tier begins empty
    ///
    /// The volume is new: a tier begins empty. Otherwise it is in use, and the fast device of a tier is full.
    #[arg(long)]
    new: bool,
    /// Stop after this many requests
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How to treat requests past the end of the volume
    ///
    /// Requests past the end of the volume: stop with an error (error), take the offset modulo the size of the volume (wrap), or skip
    /// and count them (skip).
    #[arg(long, value_enum, default_value_t = FitArg::Error, value_name = "error|wrap|skip", hide_possible_values = true)]
    fit: FitArg,
}

/// Reads a share: `0.03` or `3%`.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share =
        number.trim().parse::<f64>().ok().map(|number| number / of).filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "give a share above 0 and up to 1, such as 0.03 or 3%".to_owned())
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum FitArg {
    /// Stop with an error
    Error,
    /// Take the offset modulo the size of the volume
    Wrap,
    /// Skip them, and count them
    Skip,
}

impl ArrivalArgs {
    /// The options in the simulator's form.
    pub fn options(&self) -> Result<Options, Failure> {
        let replay = self.replay.at_speed(self.speed).and_then(|replay| replay.thinking(self.think_time));
        let replay = replay.map_err(Failure::bad_input)?;
        Ok(Options { replay, warm_up_requests: self.warm_up_requests.unwrap_or(0), ..Options::default() })
    }
}

impl ArrivalArgs {
    /// The options as words of a command line, without defaults.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        match self.replay.thinking(self.think_time) {
            Ok(Replay::Timed { .. }) | Err(_) => {}
            Ok(closed) => words.extend(["--replay".to_owned(), closed.to_string()]),
        }
        words.extend(self.speed.into_iter().flat_map(|speed| ["--speed".to_owned(), speed.to_string()]));
        if let Some(requests) = self.warm_up_requests.filter(|requests| *requests > 0) {
            words.extend(["--warm-up-requests".to_owned(), requests.to_string()]);
        }
        words
    }
}

impl ReplayArgs {
    /// Whether the number of requests of the warm-up is left to the command.
    pub fn warms_up_by_default(&self) -> bool {
        self.arrival_args.warm_up_requests.is_none()
    }

    /// The options in the simulator's form.
    pub fn options(&self) -> Result<Options, Failure> {
        let fit = match self.fit {
            FitArg::Error => Fit::Strict,
            FitArg::Wrap => Fit::Wrap,
            FitArg::Skip => Fit::Skip,
        };
        Ok(Options { fit, new_volume: self.new, limit: self.limit, ..self.arrival_args.options()? })
    }
}
