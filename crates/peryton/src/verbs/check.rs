//! `peryton check`: reports what is wrong with a volume that is not being served.

use peryton_drive::VolumeSpec;
use peryton_engine::{Inspection, OpenError, Opened, Placement};
use peryton_units::Bytes;
use serde_json::{Value, json};

use crate::{condition::Condition, exit_code, failure::Failure, output, volume};

/// Options of `peryton check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The verb writes nothing. The exit code says whether the volume was closed, and whether parts of it are dirty, damaged or lost; it is \
2 if the devices are not those of the volume, or one is missing (peryton help exit-codes)."
)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Check the volume as it would be without this device
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Inspects the volume and prints the findings.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = args.design.spec(&args.without)?;
    let found = peryton_drive::inspect(&spec, false, &args.without)?;
    if args.json {
        output::print_json(&as_json(&spec, &found))?;
    } else {
        output::tell(&text(&spec, &found))?;
    }
    match Condition::of(&found) {
        Some(condition) => condition.end(),
        None => Err(Failure::quietly(exit_code::BAD_INPUT)),
    }
}

/// The whole inspection as JSON, with the devices' names.
pub fn as_json(spec: &VolumeSpec, found: &Inspection) -> Value {
    let mut value = serde_json::to_value(found).unwrap_or(Value::Null);
    if let Some(devices) = value.get_mut("devices").and_then(Value::as_array_mut) {
        for (device, at) in devices.iter_mut().zip(&spec.devices) {
            device["name"] = json!(at.name);
            device["path"] = json!(at.path);
        }
    }
    value["findings"] = found.findings.iter().map(|finding| spec.with_names(finding)).collect();
    value["condition"] = Condition::of(found).map_or(Value::Null, |condition| condition.json());
    value["opens"] = match &found.opened {
        Ok(opened) => opened_json(opened),
        Err(error) => json!({ "error": spec.why_not_opened(error) }),
    };
    value
}

/// The findings of opening the volume, or of an inspection as if it were opened.
pub fn opened_json(opened: &Opened) -> Value {
    json!({
        "volume": format!("{:032x}", opened.volume.0),
        "generation": opened.generation,
        "clean": opened.clean,
        "commits_replayed": opened.commits,
        "mapped_extents": opened.mapped,
        "dirty_extents": opened.dirty,
        "lost_extents": opened.lost,
        "repaired": opened.repaired,
    })
}

fn text(spec: &VolumeSpec, found: &Inspection) -> String {
    let mut text = String::new();
    let verdict = match (Condition::of(found), &found.opened) {
        (None, Err(OpenError::Detached { .. })) => "exported: no longer a volume".to_owned(),
        (None, _) => {
            "not checked: a device is missing, or devices and design do not match; the volume itself may be intact"
                .to_owned()
        }
        (Some(_), Err(_)) => {
            "damaged: the volume cannot be opened; whether it is closed, dirty or lost is not known".to_owned()
        }
        (Some(condition), Ok(_)) => condition.words(unit(spec)),
    };
    if let Ok(opened) = &found.opened {
        let (volume, times) = (opened.volume.0, opened.generation.saturating_sub(1));
        let mapped = opened.mapped;
        let holds = match spec.config.placement {
            Placement::Logging(_) => format!("{mapped} blocks in the log"),
            _ => format!("{mapped} extents mapped"),
        };
        text.push_str(&format!("volume {volume:032x}, opened {times} times: {holds}\n"));
    }
    if let Some(displaced) = &found.displaced {
        let (bytes, at) = (Bytes(displaced.bytes), Bytes(displaced.at));
        let home = spec.devices.get(displaced.home).map_or("?", |device| device.name.as_str());
        text.push_str(&format!(
            "taken over with data: the first {bytes} of the volume lie on device '{home}', at {at}\n"
        ));
    }
    for finding in &found.findings {
        text.push_str(&format!("  {}\n", spec.with_names(finding)));
    }
    text + &verdict + "\n"
}

/// What is counted of a volume.
pub fn unit(spec: &VolumeSpec) -> &'static str {
    if matches!(spec.config.placement, Placement::Logging(_)) { "blocks" } else { "extents" }
}
