//! `--out`: writes designs to files, with the commands that compute the plan's figures again.

use std::{borrow::Cow, fs, io, path::Path};

use peryton_plan::capacity::{Found, Plan};
use peryton_sim::Design;
use peryton_units::{person_ms, person_years};

use super::Args;
use crate::{failure::Failure, output, page};

/// The script with all commands.
const SCRIPT: &str = "reproduce.sh";
const PLAN: &str = "plan.json";
/// The best design, as small as the trace.
const SMALL: &str = "small.toml";

/// Writes the best design and the runners-up, each with the command that gives its figures.
pub(super) fn write(folder: &Path, args: &Args, plan: &Plan) -> Result<(), Failure> {
    let failed = |path: &Path, error: &io::Error| Failure::writing(&path.display().to_string(), error);
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let replay = replay(args)?;
    let mut script =
        "#!/bin/sh\n# Computes the figures of plan.json again, to the digit.\nset -e\ncd \"$(dirname \"$0\")\"\n"
            .to_owned();
    let mut files = Vec::new();
    let budgets = plan.constraints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    for (rank, found) in plan.best.iter().chain(&plan.runners_up).enumerate() {
        let place = if rank == 0 { "the best".to_owned() } else { format!("number {}", rank + 1) };
        let about = format!(
            "# {}: {place} of {} designs for {} (requests {}; {}; least {}).\n# Made by Peryton {} with\n#   {}\n",
            found.label,
            plan.candidates,
            plan.trace,
            plan.trace_hash,
            if budgets.is_empty() { "no budgets" } else { &budgets },
            plan.objective,
            plan.peryton_version,
            plan.command.as_deref().unwrap_or("the library"),
        );
        let file = format!("{}.toml", found.design);
        let command = format!("peryton sim {} {replay}", page::quoted(&file));
        files.push(page::quoted(&file));
        let figures = format!("# {}. These are the figures of\n#   {command}\n# in this folder.\n", figures(found));
        let mut serve =
            "# To serve it, give each device a path: of several drives, that of their array (mdadm).\n".to_owned();
        let path = folder.join(&file);
        let simulated = Design::parse(&found.design_toml, &found.design, &[])?;
        if let Some(inner) = write_inner(folder, &found.design, &simulated)? {
            serve += &inner;
        }
        fs::write(&path, format!("{about}{figures}{serve}\n{}", found.design_toml))
            .map_err(|error| failed(&path, &error))?;
        if rank == 0
            && let Cow::Owned(small) = simulated.simulated()?
        {
            let about = format!(
                "# {}, smaller by as much as this trace touches less than the data in use: {} of them. It can be tried on files.\n\n{}",
                found.label, plan.simulated_share, small.toml
            );
            write_inner(folder, SMALL.trim_end_matches(".toml"), &small)?;
            let path = folder.join(SMALL);
            fs::write(&path, about).map_err(|error| failed(&path, &error))?;
        }
        // The comments above it must not change what it says.
        let written = Design::load(&path, &[])?;
        assert_eq!(written.toml, simulated.toml, "the design that is written is the one that was simulated");
    }
    if plan.best.is_some() {
        script += &format!("peryton sim {} {replay} --json -\n", files.join(" "));
        let path = folder.join(SCRIPT);
        fs::write(&path, script).map_err(|error| failed(&path, &error))?;
        output::write_json(&folder.join(PLAN), plan)?;
    }
    Ok(())
}

/// Writes the design of the drive in the place of a device, which is a volume of its own in service. Returns how both are served, as comments.
fn write_inner(folder: &Path, name: &str, design: &Design) -> Result<Option<String>, Failure> {
    let Some((device, drive)) = design.nested().and_then(|device| Some((&device.name, device.drive.as_ref()?))) else {
        return Ok(None);
    };
    let file = format!("{name}.{device}.toml");
    let path = folder.join(&file);
    let text =
        format!("# The drive in the place of '{device}' of {name}.toml: serve it first (--ublk).\n\n{}", drive.toml);
    fs::write(&path, text).map_err(|error| Failure::writing(&path.display().to_string(), &error))?;
    let file = page::quoted(&file);
    Ok(Some(format!(
        "# The device '{device}' is a volume of its own. First give paths to its devices in {file}, and serve it:\n\
         #   peryton create {file}\n#   peryton serve {file} --ublk\n\
         # Then give '{device}' the path that serve prints, such as /dev/ublkb0, and serve this design.\n"
    )))
}

fn figures(found: &Found) -> String {
    let metrics = &found.metrics;
    let lifetime =
        metrics.lifetime_years.map_or_else(String::new, |years| format!(", lifetime {}", person_years(years)));
    format!("Mean response time {}, p99 {}{lifetime}", person_ms(metrics.mean_ms), person_ms(metrics.p99_ms))
}

/// The options for the trace and its replay.
fn replay(args: &Args) -> Result<String, Failure> {
    let mut words = Vec::new();
    for path in &args.trace {
        let whole =
            fs::canonicalize(path).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
        words.extend(["--trace".to_owned(), whole.display().to_string()]);
    }
    words.extend(args.trace_args.words());
    words.extend(args.arrival_args.words());
    Ok(words.iter().map(|word| page::quoted(word)).collect::<Vec<_>>().join(" "))
}
