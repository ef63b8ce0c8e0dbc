//! `peryton export`: writes everything back to one device, so that it can be used alone.

use indicatif::ProgressStyle;
use peryton_drive::Alone;
use peryton_units::Bytes;
use serde_json::json;

use super::check;
use crate::{condition::Condition, failure::Failure, output, terminal, volume};

/// Options of `peryton export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Data that only the fast device has are written to the slow device, and data that only a log has to the primary. \
That device then holds the whole volume, from the printed offset on: mount it with -o loop,offset=N, or set up a loop device there. \
An imported disk (peryton import) has its data at their old offsets again. The volume can no longer be served. If export is ended \
early, run it again."
)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Write nothing to this device, which takes reads only
    ///
    /// This device refuses writes, as a worn SSD does: read it, and write the data that only it has to the other device. Until
    /// this has succeeded, the volume is unchanged.
    #[arg(long, value_name = "NAME")]
    read_only: Option<String>,
    /// Go on without this device, which is missing or not to be used
    ///
    /// Go on without this device, which is missing or not to be used. The verb names the data that only this device has, and
    /// changes nothing without --accept-loss.
    #[arg(long, value_name = "NAME", conflicts_with = "read_only")]
    without: Vec<String>,
    /// Accept that lost data read as an older version
    #[arg(long, conflicts_with = "read_only")]
    accept_loss: bool,
    /// Print where the data are as JSON
    #[arg(long)]
    json: bool,
}

/// Exports the device and prints where its data is.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = args.design.spec(&args.without)?;
    let bar = terminal::bar(0);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} written back, {eta} left");
    bar.set_style(style.expect("the template is a constant"));
    let mut left = |left| {
        bar.set_length(bar.length().unwrap_or(0).max(left));
        bar.set_position(bar.length().unwrap_or(0) - left);
    };
    let detached = match &args.read_only {
        Some(name) => peryton_drive::rescue(&spec, name, &mut left),
        None => peryton_drive::detach(&spec, &args.without, args.accept_loss, &mut left),
    };
    bar.finish_and_clear();
    let Alone { detached, given_back, resumed } = detached?;
    let at = &spec.devices[detached.device.index()];
    if args.json {
        // Everything that was dirty is written back.
        return output::print_json(&json!({
            "device": at.name,
            "path": at.path,
            "offset": detached.at.0,
            "length": detached.len.0,
            "extents_written_back": detached.written_back,
            "given_back": given_back,
            "lost_bytes": detached.lost,
            "condition": Condition::default().json(),
        }));
    }
    let path = at.path.display();
    if detached.lost > Bytes::ZERO {
        output::tell(&format!("{} are lost: reads return an older version\n", detached.lost))?;
    }
    if given_back {
        let how = if resumed { "an earlier export is completed: " } else { "" };
        return output::print(&format!(
            "{how}device '{}' ({path}) stands alone, as it was before it was taken over: {} with all later writes, {} \
             extents written back\n",
            at.name, detached.len, detached.written_back
        ));
    }
    let unit = check::unit(&spec);
    output::tell(&format!(
        "device '{}' ({path}) stands alone: {} from offset {} on, {} {unit} written back\nmount -o loop,offset={} {path} DIR\n",
        at.name, detached.len, detached.at.0, detached.written_back, detached.at.0
    ))
}
