use std::{fs, path::Path};

use peryton_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    BuildError, Device, Disk, DiskParameters, Fixed, Flash, ProfileError,
    disk::{Shingled, TwoActuators},
    family::{self, merge},
    fixed,
    flash::{self, Images},
    nearest::{explain_unknown_key, nearest},
    prices::{Price, PriceList},
    provenance::{Origin, Provenance},
};

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Hard disk drive.
    Hdd,
    /// Solid-state drive.
    Ssd,
    /// Storage-class memory.
    Scm,
    /// A model with constant latencies.
    Fixed,
}

/// What the manufacturer states of a device, or others measured. Absent is unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSheet {
    /// Sequential read, MB (10⁶ bytes) per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_read_mb_per_s: Option<f64>,
    /// Sequential write, MB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_write_mb_per_s: Option<f64>,
    /// Random reads of 4 KiB per second, at a deep queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_iops: Option<f64>,
    /// Requests in flight in `rand_read_iops`, where its maker says so; else 32, or 256 for NVMe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_depth: Option<u32>,
    /// Random writes of 4 KiB per second, at a deep queue, on a drive as sold (clients' drives) or in steady state
    /// (data-centre drives): `rand_write_state` says which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_iops: Option<f64>,
    /// `"fresh"` or `"steady"`; what `rand_write_iops` was measured on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_state: Option<WriteState>,
    /// Bytes of a random write in `rand_write_iops`; 4 KiB where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_size: Option<Bytes>,
    /// Mean time of one random read at queue depth 1, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_ms: Option<f64>,
    /// Mean time of one random write at queue depth 1, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_write_ms: Option<f64>,
    /// Random reads of 1 MiB at queue depth 1, MB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_mb_per_s: Option<f64>,
    /// Random reads and writes (1:1) of 1 MiB at queue depth 1, MB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_mixed_mb_per_s: Option<f64>,
    /// Watts under load (the most that is stated).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_w: Option<f64>,
    /// Watts while reading sequentially.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_read_w: Option<f64>,
    /// Watts while writing sequentially.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_write_w: Option<f64>,
    /// Sequential read at the end of the device, on a disk's innermost tracks, MB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_read_tail_mb_per_s: Option<f64>,
    /// Sequential write at the end, MB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_write_tail_mb_per_s: Option<f64>,
    /// Watts while reading sequentially at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_read_tail_w: Option<f64>,
    /// Watts while writing sequentially at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq_write_tail_w: Option<f64>,
    /// Watts while reading at random, 1 MiB requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_read_w: Option<f64>,
    /// Watts while reading and writing (1:1) at random, 1 MiB requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rand_mixed_w: Option<f64>,
    /// Watts when idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_w: Option<f64>,
    /// Watts in standby.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_w: Option<f64>,
}

/// The state of a drive in which writes were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteState {
    /// As sold, or after a secure erase.
    Fresh,
    /// After long random writing.
    Steady,
}

/// What a device is rated for. Absent is unknown or unlimited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endurance {
    /// Spin-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_stops: Option<u64>,
    /// Bytes that the host may write in the life of a solid-state drive (TBW: JESD218, with the workload of JESD219). Where it is not given, it
    /// is what `drive_writes_per_day` makes of the capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Bytes>,
    /// How often the host may write the whole capacity each day (DWPD), for so many `years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_writes_per_day: Option<f64>,
    /// Bytes that a disk may read and write in a year (its annualised workload rate, at which its failure rate is stated), for so many `years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_per_year: Option<Bytes>,
    /// The years of these two: the warranty's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub years: Option<f64>,
    /// Program-erase cycles per block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u32>,
}

/// The warranty of nearly all drives that are rated by the day or by the year.
const USUAL_YEARS: f64 = 5.0;
const DAYS_A_YEAR: f64 = 365.0;

impl Endurance {
    fn years(&self) -> f64 {
        self.years.unwrap_or(USUAL_YEARS)
    }

    /// Bytes that may be read and written in a disk's life: its annual rate for the years of its warranty.
    pub fn workload(&self) -> Option<Bytes> {
        self.workload_per_year.map(|year| Bytes((year.0 as f64 * self.years()) as u64))
    }

    /// Fills in what follows from the daily rate.
    fn completed(mut self, capacity: Bytes) -> Result<Endurance, &'static str> {
        let positive = |rate: Option<f64>| rate.is_none_or(|rate| rate > 0.0 && rate.is_finite());
        if !positive(self.years) || !positive(self.drive_writes_per_day) {
            return Err("endurance: years and drive_writes_per_day are numbers above 0");
        }
        let by_day = self.drive_writes_per_day.map(|rate| rate * capacity.0 as f64 * DAYS_A_YEAR * self.years());
        self.written = self.written.or(by_day.map(|bytes| Bytes(bytes.round() as u64)));
        Ok(self)
    }
}

/// The kind of a model, with its parameters.
///
/// ```
/// use peryton_device::{Model, Profile};
///
/// let rpm = |profile: &Profile| match &profile.model {
///     Model::Disk(disk) => Some(disk.rpm),
///     Model::Flash(_) | Model::Fixed(_) => None,
/// };
/// assert_eq!(rpm(&Profile::named("ibm-ultrastar-36z15")?), Some(15_000.0));
/// assert_eq!(rpm(&Profile::named("intel-320-300gb")?), None);
/// # Ok::<(), peryton_device::ProfileError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Model {
    /// Constant latency.
    Fixed(Box<fixed::FixedParameters>),
    /// Magnetic disk.
    Disk(Box<DiskParameters>),
    /// Flash.
    Flash(Box<flash::FlashParameters>),
}

/// A device as it can be bought, or as a paper describes it: data, and the parameters of its model.
///
/// ```
/// use peryton_device::{Class, Profile};
///
/// for name in Profile::shipped() {
///     let profile = Profile::named(name)?;
///     println!("{name:30} {:>8}  {}", profile.capacity, profile.description);
/// }
/// // A file of one's own, or a text; the model's parameters can be replaced one by one.
/// let text = "
///     name = 'mine'
///     description = 'a device with constant latencies'
///     class = 'fixed'
///     [fixed]
///     read = '50us'
///     write = '150us'
///     capacity = '10GiB'";
/// let mine = Profile::parse(text, "mine.toml")?.with_model(&"write = '100us'".parse()?)?;
/// assert_eq!(mine.class, Class::Fixed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name that a design gives.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// The kind.
    pub class: Class,
    /// Year of introduction.
    pub year: Option<u32>,
    /// The last year in which it was on sale, as far as is known; none for the year of its introduction.
    pub sold_until: Option<u32>,
    /// Addressable bytes.
    pub capacity: Bytes,
    /// Purchase price in US dollars.
    pub price_usd: Option<f64>,
    /// When that was the price, such as `2025-06`.
    pub price_date: Option<String>,
    /// The class of devices by whose price of a TB it is priced, where it has no price of its own: a name in `prices.toml`.
    pub price_class: Option<String>,
    /// The share of such devices that fail in a year, before they are worn out.
    pub afr: Option<f64>,
    /// The documents that figures come from.
    pub sources: Vec<String>,
    /// Where each value comes from.
    pub provenance: Provenance,
    /// Published figures.
    pub data_sheet: DataSheet,
    /// Figures that others measured, beside those of the data sheet.
    pub measured: DataSheet,
    /// Published limits.
    pub endurance: Endurance,
    /// The parameters of the model.
    pub model: Model,
    table: toml::Table,
    origin: String,
    /// The model's over-provisioning as the profile has it, where it is flash.
    over_provisioning: Option<f64>,
}

/// The file, as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    class: Class,
    year: Option<u32>,
    sold_until: Option<u32>,
    capacity: Option<Bytes>,
    price_usd: Option<f64>,
    price_date: Option<String>,
    price_class: Option<String>,
    afr: Option<f64>,
    #[serde(default)]
    sources: Vec<String>,
    /// Read by [`Provenance::of_file`].
    #[serde(rename = "provenance")]
    _provenance: Option<toml::Value>,
    #[serde(default)]
    data_sheet: DataSheet,
    #[serde(default)]
    measured: DataSheet,
    #[serde(default)]
    endurance: Endurance,
    disk: Option<Box<DiskParameters>>,
    flash: Option<Box<flash::FlashParameters>>,
    fixed: Option<Box<fixed::FixedParameters>>,
}

/// A profile is a page of text; what is larger is something else.
const MAX_FILE: u64 = 1 << 20;

/// The files of `profiles/`, found by `build.rs`: names and texts, in the order of the names.
const SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

impl Profile {
    /// How much of this device one of another capacity is: its price, its rated writes and its cycles are in proportion.
    ///
    /// ```
    /// use peryton_device::Profile;
    /// use peryton_units::Bytes;
    ///
    /// let ssd = Profile::named("intel-320-300gb")?;
    /// assert_eq!(ssd.part(ssd.capacity), 1.0);
    /// assert_eq!(ssd.part(Bytes(ssd.capacity.0 / 2)), 0.5);
    /// # Ok::<(), peryton_device::ProfileError>(())
    /// ```
    pub fn part(&self, capacity: Bytes) -> f64 {
        capacity.0 as f64 / self.capacity.0 as f64
    }

    /// The names of the profiles that come with Peryton, sorted.
    pub fn shipped() -> impl ExactSizeIterator<Item = &'static str> {
        SHIPPED.iter().map(|&(name, _)| name)
    }

    /// A shipped profile by its name, or one from a file by its path.
    ///
    /// # Errors
    /// No such profile, or a file that is not one.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Profile::read(text, name, Some(name));
        }
        let (file, member) = name.split_once(MEMBER_OF).map_or((name, None), |(file, member)| (file, Some(member)));
        let path = Path::new(file);
        if !path.exists() && !name.contains('/') && !name.ends_with(".toml") {
            let hint =
                nearest(name, Profile::shipped()).map_or(String::new(), |near| format!(": did you mean '{near}'?"));
            // What was written in a file may be anything; the message stays one line.
            let name = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            return Err(ProfileError::Unknown { name, hint });
        }
        Profile::read(&text_of(file)?, name, member)
    }

    /// How the devices of a file are named: by its path, and those of a family by `PATH#MEMBER`.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn in_file(path: &str) -> Result<Vec<String>, ProfileError> {
        let text = text_of(path)?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| misread(&error, &text, path))?;
        let members = family::members(&table);
        if members.is_empty() {
            return Ok(vec![path.to_owned()]);
        }
        Ok(members.iter().map(|member| format!("{path}{MEMBER_OF}{member}")).collect())
    }

    /// A profile from the text of its file; `origin` names it in errors.
    ///
    /// # Errors
    /// Bad TOML, an unknown or missing key, not exactly one model, or parameters out of range.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        Profile::read(text, origin, None)
    }

    fn read(text: &str, origin: &str, member: Option<&str>) -> Result<Profile, ProfileError> {
        let whole = |what: &str| ProfileError::Parse { place: origin.to_owned(), what: what.to_owned() };
        let mut table: toml::Table = toml::from_str(text).map_err(|error| misread(&error, text, origin))?;
        let members = family::members(&table);
        let is_family = !members.is_empty();
        let file: File = match member {
            Some(name) if is_family => {
                table = family::member(table, name).map_err(|what| whole(&what))?;
                // Line numbers of the merged table would be those of no file.
                table.clone().try_into().map_err(|e: toml::de::Error| whole(&explain_unknown_key(e.message())))?
            }
            None if is_family => {
                let what =
                    format!("a family of devices: name one of them, such as '{origin}{MEMBER_OF}{}'", members[0]);
                return Err(whole(&what));
            }
            _ => toml::from_str(text).map_err(|error| misread(&error, text, origin))?,
        };
        let documents = file.sources.len();
        let provenance = Provenance::of_file(&table, documents, is_family).map_err(|what| whole(&what))?;
        let (key, model) = match (file.disk, file.flash, file.fixed) {
            (Some(disk), None, None) => ("disk", Model::Disk(disk)),
            (None, Some(flash), None) => ("flash", Model::Flash(flash)),
            (None, None, Some(fixed)) => ("fixed", Model::Fixed(fixed)),
            _ => return Err(whole("expected exactly one of the tables [disk], [flash] and [fixed]")),
        };
        let Some(toml::Value::Table(table)) = table.remove(key) else { return Err(whole("the model is not a table")) };
        let capacity = match (&model, file.capacity) {
            (Model::Fixed(fixed), None) => fixed.capacity,
            (_, Some(capacity)) => capacity,
            (_, None) => return Err(whole("missing key 'capacity': the addressable bytes, such as \"300GB\"")),
        };
        if file.afr.is_some_and(|afr| !(afr > 0.0 && afr < 1.0)) {
            return Err(whole(
                "afr: the share of such devices that fail in a year, above 0 and below 1 (0.0044 is 0.44 %)",
            ));
        }
        if let Some(class) = &file.price_class
            && PriceList::shipped().per_tb(class).is_none()
        {
            let near = PriceList::shipped().nearest_class(class);
            let hint = near.map_or_else(String::new, |near| format!(": did you mean '{near}'?"));
            return Err(whole(&format!("price_class: no class '{class}'{hint}")));
        }
        let over_provisioning = if let Model::Flash(flash) = &model { Some(flash.over_provisioning) } else { None };
        let endurance = file.endurance.completed(capacity).map_err(whole)?;
        let mut profile = Profile {
            name: file.name,
            description: file.description,
            class: file.class,
            year: file.year,
            sold_until: file.sold_until,
            capacity,
            price_usd: file.price_usd,
            price_date: file.price_date,
            price_class: file.price_class,
            afr: file.afr,
            sources: file.sources,
            provenance,
            data_sheet: file.data_sheet,
            measured: file.measured,
            endurance,
            model,
            table,
            over_provisioning,
            origin: origin.to_owned(),
        };
        if profile.price_usd.is_none() {
            profile.price_by(PriceList::shipped());
        }
        Ok(profile)
    }

    /// Takes the price from a list, if it has one of the device or of a TB of its class.
    pub fn price_by(&mut self, prices: &PriceList) {
        const TB: f64 = 1e12;
        let by_class = || prices.per_tb(self.price_class.as_deref()?);
        let (price, usd) = match (prices.of_device(&self.name), by_class()) {
            (Some(price), _) => (price, price.usd),
            (None, Some(price)) => (price, price.usd * self.capacity.0 as f64 / TB),
            (None, None) => return,
        };
        let Price { date, source, .. } = price.clone();
        let note = match prices.of_device(&self.name) {
            Some(_) => source,
            None => format!("{} USD a TB of {}: {source}", price.usd, self.price_class.as_deref().unwrap_or_default()),
        };
        // Cents say nothing in a price by the TB.
        self.price_usd = Some((usd * 100.0).round() / 100.0);
        self.price_date = date;
        let origin = if prices.is_given() { Origin::Given } else { Origin::Estimated };
        self.provenance.set("price_usd", usd.into(), origin, note);
    }

    /// The same device with single values of its model replaced, as `[devices.<name>.model]` of a design gives them.
    ///
    /// # Errors
    /// A key that the model does not have, or a value that it refuses.
    pub fn with_model(mut self, overrides: &toml::Table) -> Result<Profile, ProfileError> {
        merge(&mut self.table, overrides);
        let model = match self.model {
            Model::Disk(_) => "disk",
            Model::Flash(_) => "flash",
            Model::Fixed(_) => "fixed",
        };
        self.provenance.given(model, overrides);
        let table = toml::Value::Table(self.table.clone());
        let fail = |e: toml::de::Error| ProfileError::Parse {
            place: format!("model of profile '{}'", self.name),
            what: explain_unknown_key(e.message()).replace('\n', " "),
        };
        self.model = match self.model {
            Model::Disk(_) => Model::Disk(table.try_into().map_err(fail)?),
            Model::Flash(_) => Model::Flash(table.try_into().map_err(fail)?),
            Model::Fixed(_) => {
                let fixed: Box<fixed::FixedParameters> = table.try_into().map_err(fail)?;
                self.capacity = fixed.capacity;
                Model::Fixed(fixed)
            }
        };
        Ok(self)
    }

    /// Program-erase cycles of its cells.
    fn cycles(&self) -> Option<u32> {
        match &self.model {
            Model::Disk(_) => None,
            Model::Flash(flash) => Some(flash.cycles),
            Model::Fixed(fixed) => fixed.cycles.or(self.endurance.cycles),
        }
    }

    /// What may be written to it in its life: as its maker rates it, and where he does not, its capacity as often as its
    /// cells can be programmed.
    pub fn writable(&self) -> Option<Bytes> {
        self.endurance.written.or_else(|| Some(self.capacity.saturating_mul(u64::from(self.cycles()?))))
    }

    /// What can be programmed into its flash in its life, the spare included.
    pub fn programmable(&self) -> Option<Bytes> {
        let flash = self.capacity.0 as f64 * (1.0 + self.over_provisioning.unwrap_or(0.0));
        Some(Bytes((flash * f64::from(self.cycles()?)) as u64))
    }

    /// How many parts of `used` bytes, with their spare, the flash of the drive makes. One whose over-provisioning is
    /// overridden has a larger share of the drive, which is no larger for that.
    pub fn parts(&self, used: Bytes) -> f64 {
        let spare = match (self.over_provisioning, &self.model) {
            (Some(whole), Model::Flash(part)) => (1.0 + whole) / (1.0 + part.over_provisioning),
            _ => 1.0,
        };
        self.capacity.0 as f64 / used.0 as f64 * spare
    }

    /// A device of this kind of which the first `used` bytes are used (all where none is given). Everything random in
    /// it comes from `seed`.
    ///
    /// # Errors
    /// Parameters that the model refuses, or more bytes than the device has.
    pub fn build(&self, used: Option<Bytes>, seed: u64) -> Result<Device, ProfileError> {
        self.build_from(used, (seed, seed), None)
    }

    /// As [`Profile::build`], the same device, but flash is preconditioned only where none of these images is of it. The first seed draws
    /// the state in which flash begins, the second all else.
    ///
    /// # Errors
    /// As [`Profile::build`].
    pub fn build_from(
        &self,
        used: Option<Bytes>,
        (state, seed): (u64, u64),
        images: Option<&Images>,
    ) -> Result<Device, ProfileError> {
        let fail = |source: BuildError| ProfileError::Build { name: self.name.clone(), source };
        let capacity = match &self.model {
            Model::Disk(disk) => Bytes(self.capacity.0.saturating_sub(disk.begin.0)),
            Model::Flash(_) | Model::Fixed(_) => self.capacity,
        };
        let used = used.unwrap_or(capacity);
        if used == Bytes::ZERO || used > capacity {
            return Err(fail(BuildError::Used { used, capacity }));
        }
        Ok(match &self.model {
            Model::Flash(flash) => {
                let flash = Flash::from_image(flash, (self.capacity, used), (state, seed), images).map_err(fail)?;
                Device::Flash(Box::new(flash))
            }
            Model::Disk(disk) => match &disk.shingled {
                Some(shingled) => Device::Shingled(Box::new(Shingled::new(disk, shingled).map_err(fail)?)),
                None if disk.actuators == 2 => Device::TwoActuators(Box::new(TwoActuators::new(disk).map_err(fail)?)),
                None => Device::Disk(Box::new(Disk::new(disk).map_err(fail)?)),
            },
            Model::Fixed(fixed) => {
                let parameters = fixed::FixedParameters { capacity: used, ..(**fixed).clone() };
                Device::Fixed(Box::new(Fixed::with_seed(&parameters, seed).map_err(fail)?))
            }
        })
    }

    /// Whether its model says what it draws.
    pub fn has_power(&self) -> bool {
        match &self.model {
            Model::Fixed(fixed) => fixed.active_w + fixed.idle_w + fixed.standby_w > 0.0,
            Model::Disk(_) | Model::Flash(_) => true,
        }
    }

    /// Where the profile was read from: its name, or the path of its file.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// Stands between a file and the member of the family that is meant.
const MEMBER_OF: char = '#';

fn text_of(path: &str) -> Result<String, ProfileError> {
    let io = |source| ProfileError::Io { path: path.to_owned(), source };
    let parse = |what: &str| ProfileError::Parse { place: path.to_owned(), what: what.to_owned() };
    if fs::metadata(path).map_err(io)?.len() > MAX_FILE {
        return Err(parse("larger than 1 MiB: not a device profile"));
    }
    String::from_utf8(fs::read(path).map_err(io)?).map_err(|_| parse("not UTF-8: not a device profile"))
}

fn misread(error: &toml::de::Error, text: &str, origin: &str) -> ProfileError {
    let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let what = explain_unknown_key(error.message()).replace('\n', " ");
    ProfileError::Parse { place: if line > 0 { format!("{origin}:{line}") } else { origin.to_owned() }, what }
}
