//! The options for replaying a trace, shared by the verbs that simulate designs.

use peryton_sim::{Fit, Options, Replay};

use crate::failure::Failure;

/// When the requests of a trace arrive.
#[derive(Clone, Debug, clap::Args)]
pub struct ArrivalArgs {
    /// When requests arrive: timed (as recorded), sync, or qd=N in flight
    ///
    /// When requests arrive: as recorded (timed), one after the other without think time (sync), or so that N are in flight at
    /// all times (qd=N).
    #[arg(long, value_name = "timed|sync|qd=N", default_value = "timed")]
    replay: Replay,
    /// With timed replay: how many times faster than recorded
    #[arg(long, value_name = "X")]
    speed: Option<f64>,
    /// Requests that are replayed before those that are measured [default: 0]
    ///
    /// Replay this many requests before the measured ones [default: 0; of peryton plan and size, half of the trace].
    #[arg(long, value_name = "N")]
    pub warm_up_requests: Option<u64>,
}

/// Options of replaying a trace on designs that are given.
#[derive(Clone, Debug, clap::Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    arrival_args: ArrivalArgs,
    /// Begin with a full map, and with flash that has been in use
    ///
    /// Begin with the map that a scan of the whole volume leaves behind, and with flash that has been in use.
    #[arg(long)]
    warm_up: bool,
    /// Stop after this many requests
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// What to do with requests past the end of the volume
    #[arg(long, value_enum, default_value_t = FitArg::Error)]
    fit: FitArg,
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
        let replay = self.replay.at_speed(self.speed).map_err(Failure::bad_input)?;
        Ok(Options { replay, warm_up_requests: self.warm_up_requests.unwrap_or(0), ..Options::default() })
    }
}

impl ArrivalArgs {
    /// The options as words of a command line, without defaults.
    #[cfg(feature = "plan")]
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        match self.replay {
            Replay::Timed { .. } => {}
            closed => words.extend(["--replay".to_owned(), closed.to_string()]),
        }
        words.extend(self.speed.into_iter().flat_map(|speed| ["--speed".to_owned(), speed.to_string()]));
        if let Some(requests) = self.warm_up_requests.filter(|requests| *requests > 0) {
            words.extend(["--warm-up-requests".to_owned(), requests.to_string()]);
        }
        words
    }
}

impl ReplayArgs {
    /// Whether neither kind of warm-up was asked for.
    #[cfg(feature = "plan")]
    pub fn warms_up_by_default(&self) -> bool {
        !self.warm_up && self.arrival_args.warm_up_requests.is_none()
    }

    /// The options in the simulator's form.
    pub fn options(&self) -> Result<Options, Failure> {
        let fit = match self.fit {
            FitArg::Error => Fit::Strict,
            FitArg::Wrap => Fit::Wrap,
            FitArg::Skip => Fit::Skip,
        };
        Ok(Options { fit, warm_up: self.warm_up, limit: self.limit, ..self.arrival_args.options()? })
    }
}
