//! The kinds of runs that between them notice every mistake of `make mutants`.

use peryton_engine::AdmitBy;

use crate::{
    design::Kind,
    ends::Ends,
    options::{Failing, Options},
};

/// A kind of run: some faults matter only where devices fail, some only where they fail beneath parts of extents, some only where writes
/// go past those, and so on. What the options leave open is drawn from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it demands of a run.
    pub options: Options,
}

const FAILING: Options = Options { faults: Some(true), ..Options::DRAWN };
const PARTS: Options = Options { kind: Some(Kind::Caching), ..FAILING };
const PAST: Options = Options { admission: Some(AdmitBy::Probability), past_hits: true, grouped: true, ..PARTS };
const REPLACING: Options = Options { replaces: Some(true), ..FAILING };

const fn past(failing: Failing) -> Options {
    Options { failing: Some(failing), ..PAST }
}

impl Scenario {
    /// Every kind.
    pub const ALL: [Scenario; 19] = [
        Scenario { name: "drawn", options: Options::DRAWN },
        Scenario { name: "failing", options: FAILING },
        Scenario { name: "parts", options: PARTS },
        Scenario {
            name: "parts-returning",
            options: Options {
                replaces: Some(true),
                returns: Some(true),
                failing: Some(Failing::Deaths),
                grouped: true,
                ..PARTS
            },
        },
        Scenario { name: "past", options: PAST },
        Scenario { name: "past-commands", options: past(Failing::Commands) },
        Scenario { name: "past-flushes", options: past(Failing::Flushes) },
        Scenario { name: "past-both", options: past(Failing::Both) },
        Scenario { name: "past-writes", options: past(Failing::Writes) },
        Scenario { name: "full", options: Options { failing: Some(Failing::Space), ..FAILING } },
        Scenario { name: "grouped", options: Options { admission: None, ..PAST } },
        Scenario { name: "beside", options: Options { beside: true, faults: None, ..PARTS } },
        Scenario { name: "logging", options: Options { kind: Some(Kind::Logging), ..FAILING } },
        Scenario {
            name: "shared-log",
            options: Options { kind: Some(Kind::Logging), shares_log: true, returns: Some(true), ..FAILING },
        },
        Scenario { name: "replacing", options: REPLACING },
        Scenario {
            name: "dying",
            options: Options { failing: Some(Failing::Deaths), ends: Some(Ends::Process), ..REPLACING },
        },
        Scenario { name: "resizing", options: Options { resizes: Some(true), faults: Some(false), ..Options::DRAWN } },
        Scenario { name: "large-map", options: Options { large_map: true, ..Options::DRAWN } },
        Scenario { name: "returning", options: Options { returns: Some(true), ..FAILING } },
    ];

    /// The kind with this name.
    ///
    /// # Errors
    /// There is none; the text names them all.
    pub fn named(name: &str) -> Result<Scenario, String> {
        let known = Scenario::ALL.into_iter().find(|scenario| scenario.name == name);
        known.ok_or_else(|| format!("use one of {}", Scenario::ALL.map(|scenario| scenario.name).join(", ")))
    }
}
