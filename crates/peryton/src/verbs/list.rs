//! `peryton list`: lists volumes that have a name or a block device.

use std::{fs, path::PathBuf};

use peryton_drive::{BlockDevice, UblkError, block_device, block_devices};
use serde_json::{Value, json};

use crate::{failure::Failure, naming, output, table, terminal};

/// Options of `peryton list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A volume with a name has its design in /etc/peryton or ~/.config/peryton. A volume whose design is \
at another path is listed only if it is a block device (serve --ublk).")]
pub struct Args {
    /// Print udev's properties of this block device, such as ublkb0
    ///
    /// Print udev's properties of this block device, such as ublkb0, if it is a volume. The kernel's mark of the device decides, because
    /// another program's device may have the same number.
    #[arg(long, value_name = "KERNEL_NAME", conflicts_with = "json")]
    udev: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A volume.
struct Volume {
    name: String,
    design: PathBuf,
    is_served: bool,
    device: Option<BlockDevice>,
}

/// Lists and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(name) = &args.udev {
        return udev(name);
    }
    let all = volumes(found()?);
    match args.json {
        true => output::print_json(&all.iter().map(about).collect::<Vec<_>>()),
        false => output::tell(&shown(&all)),
    }
}

/// Lines of `KEY=value`, as udev's `IMPORT{program}` reads them.
fn udev(name: &str) -> Result<(), Failure> {
    let device = block_device(name)?;
    let device = device.ok_or_else(|| Failure::bad_input(format!("{name}: is no volume of Peryton")))?;
    output::tell(&format!("PERYTON_NAME={}\nPERYTON_VOLUME={:032x}\n", device.name, device.volume))
}

/// The block devices of this machine. Without the driver there are none, and others than root may not ask for them.
fn found() -> Result<Vec<BlockDevice>, Failure> {
    match block_devices() {
        Ok(devices) => Ok(devices),
        Err(UblkError::Absent { .. }) => Ok(Vec::new()),
        Err(error @ UblkError::Permission { .. }) if !rustix::process::getuid().is_root() => {
            terminal::remark(&format!("block devices are not listed: {error}"));
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

fn volumes(devices: Vec<BlockDevice>) -> Vec<Volume> {
    let real = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let mut all: Vec<Volume> = Vec::new();
    for naming::Listed { name, design } in naming::volumes() {
        let is_served = std::os::unix::net::UnixStream::connect(naming::Sockets::of(&design).control).is_ok();
        all.push(Volume { name, design, is_served, device: None });
    }
    for device in devices {
        match all.iter_mut().find(|volume| real(&volume.design) == real(&device.design)) {
            Some(volume) => volume.device = Some(device),
            None => all.push(Volume {
                name: device.name.clone(),
                design: device.design.clone(),
                is_served: device.pid.is_some(),
                device: Some(device),
            }),
        }
    }
    all
}

impl Volume {
    fn state(&self) -> &'static str {
        match (&self.device, self.is_served) {
            (Some(device), false) => device.state,
            (_, true) => "served",
            (None, false) => "not served",
        }
    }
}

fn about(volume: &Volume) -> Value {
    let mut value = json!({ "name": volume.name, "design": volume.design, "state": volume.state() });
    if let Some(device) = &volume.device {
        value["path"] = device.path().into();
        value["pid"] = device.pid.into();
        value["volume"] = format!("{:032x}", device.volume).into();
    }
    value
}

fn shown(all: &[Volume]) -> String {
    let mut rows = table::text(&["volume", "state", "block device", "process", "design"]);
    for volume in all {
        let none = || table::NONE.to_owned();
        let device = volume.device.as_ref();
        rows.add_row(vec![
            volume.name.clone(),
            volume.state().to_owned(),
            device.map_or_else(none, BlockDevice::path),
            device.and_then(|device| device.pid).map_or_else(none, |pid| pid.to_string()),
            volume.design.display().to_string(),
        ]);
    }
    rows.shown()
}
