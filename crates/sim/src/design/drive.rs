//! What a design comes to. A device of it may be a drive with a design of its own.

use std::{path::PathBuf, sync::Arc};

use peryton_device::flash::Images;
use peryton_engine::{Placement, Tuning};
use peryton_units::Bytes;

use super::{at_share::Load, device::DeviceDesign, page_cache::PageCacheDesign};

/// A hybrid drive on paper: read from a design file, checked, with every size known.
///
/// ```
/// use peryton_sim::Design;
///
/// let text = "[devices]\n\
///             ssd = { profile = 'intel-320-300gb', size = '1GiB' }\n\
///             hdd = { profile = 'seagate-st32000641as', size = '16GiB' }\n\
///             [placement]\nmode = 'tiering'\nfast = 'ssd'\nslow = 'hdd'\nextent = '128KiB'\n";
/// // The last argument overrides keys, as `--set` does.
/// let design = Design::parse(text, "my design", &["devices.ssd.size=2GiB".to_owned()])?;
/// println!("a volume of {}", design.volume);
/// // Errors name the place and the remedy.
/// let error = Design::parse(text, "my design", &["placement.mode=fast".to_owned()]).unwrap_err();
/// assert!(error.to_string().contains("placement.mode"));
/// # Ok::<(), peryton_sim::DesignError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Design {
    /// The file's name without folders and extension, or its key `name`.
    pub name: String,
    /// The file.
    pub file: String,
    /// The devices in the order of the file, which is the engine's order.
    pub devices: Vec<DeviceDesign>,
    /// The size of the volume that the host sees, or of each volume if there are several.
    pub volume: Bytes,
    /// Number of volumes; several share one log device, each with its own primary (logging).
    pub volumes: u32,
    /// Several volumes that append to one log, for which there is one engine; `volume` is what that engine has then.
    pub stream: Option<Stream>,
    /// Whether every volume gets every request of the trace; otherwise each gets the requests of its own volume.
    pub same_requests: bool,
    /// The size of the host's own cache, if its hints are modelled (logging; Griffin, section 7).
    pub host_cache: Option<Bytes>,
    /// The host's memory before the drive, if it is modelled.
    pub page_cache: Option<PageCacheDesign>,
    /// How data is placed on the devices.
    pub placement: Placement,
    /// The settings of the placement.
    pub tuning: Tuning,
    /// The directory in memory where a drive in service keeps data that must survive its process; `None`: it keeps none.
    pub shared_memory: KeptInMemory,
    /// The seed of everything random.
    pub seed: u64,
    /// Price of electricity.
    pub electricity_usd_per_kwh: f64,
    /// The data that the devices are bought for, if that is more than the volume.
    pub bought_for: Option<Bytes>,
    /// What traces touch of the data in use that the design is for: it is simulated smaller by as much. `None`: all of them.
    pub load: Option<Load>,
    /// The share of the time in which the load goes on.
    pub duty: f64,
    /// The overrides that applied.
    pub overrides: Vec<String>,
    /// The indices of the overrides for features that this design does not have.
    pub ignored_overrides: Vec<usize>,
    /// The sizes that the design gives and the volume in service has not, one line each: the volume keeps its own.
    pub kept_sizes: Vec<String>,
    /// The full design as TOML: every key of the file as it is written, and the overrides that apply.
    pub toml: String,
    /// Images of preconditioned flash, shared with other designs that have equal devices; if absent, each run makes its
    /// own.
    pub images: Option<Arc<Images>>,
}

/// Several volumes whose writes are appended to one log. One engine has the log, and the primaries one after the other as its own; each
/// volume is a range of what the engine takes for its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Number of volumes, and of primaries.
    pub count: u32,
    /// Bytes of each volume.
    pub size: Bytes,
    /// From the beginning of one to that of the next: what a volume occupies on its primary.
    pub apart: Bytes,
}

/// Whether a drive keeps something in case its process dies, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptInMemory {
    /// It keeps nothing.
    No,
    /// In this directory, or where the drive decides.
    In(Option<PathBuf>),
}
