//! The design file: the devices, and how they make up one drive.

mod admission;
mod at_share;
mod climb;
mod custom;
mod device;
mod devices;
mod drive;
mod durability;
mod extent;
mod failure;
mod in_service;
pub(crate) mod key;
mod known_keys;
mod logging;
mod model_keys;
mod new_design;
mod page_cache;
mod partition;
mod placement;
mod shared;
mod sizes;
mod text;
mod volumes;

use std::path::Path;

use peryton_engine::{Config, Engine, Placement, Tuning};
use peryton_units::Bytes;

pub(crate) use at_share::Least;
pub use at_share::Load;
pub use device::DeviceDesign;
pub(crate) use device::{NamedDevice, NamedMember};
pub use drive::{Design, KeptInMemory, Stream};
pub use extent::{MAP_MEMORY, MAP_SHARE, chosen_extent, chosen_extents, map_budget, map_memory};
pub use in_service::{DevicePlace, Formatted, InService};
pub use key::{DesignKey, KeyDefault};
pub(crate) use known_keys::meant_by;
pub use known_keys::{is_design_key, nearest_design_key};
pub use model_keys::{ModelKey, model_keys};
pub use new_design::{NewDesign, NewDevice};
pub use page_cache::PageCacheDesign;
pub use placement::kept_free;
pub use text::DesignText;

use crate::{
    DesignError,
    document::Document,
    ftl_bounds::PrimaryBounds,
    host_cache::HostCache,
    machine::{Device, Machine, Place, Volume},
    observe::Watch,
    touched::Touched,
};

/// The default price of a kilowatt-hour in US dollars. "Which storage device is the greenest?" (section V) uses 0.4;
/// this is closer to what data centres pay.
const ELECTRICITY_USD_PER_KWH: f64 = 0.12;

key::keys! {
    /// The design's name in reports.
    NAME: String = "name" { default: KeyDefault::Else("the file's name"), example: "'mine'" }
    /// The seed of everything random.
    SEED: u64 = "seed.value" { default: KeyDefault::Value("1"), example: "2" }
    /// The price of electricity.
    ELECTRICITY: f64 = "cost.electricity_usd_per_kwh" {
        default: KeyDefault::Value("0.12"), unit: "US dollars per kWh", example: "0.4",
    }
    /// The amount of data for which the devices are bought, if the volume is a sample of it: the price per GB refers to this
    /// amount.
    DATA: Bytes = "cost.data" { default: KeyDefault::Else("the volume"), example: "'40TB'" }
}

/// Every key that a design file may have, table by table; those of device models are [`model_keys`].
pub fn design_keys() -> impl Iterator<Item = &'static DesignKey> {
    let all = [
        volumes::KEYS,
        devices::KEYS,
        placement::KEYS,
        logging::KEYS,
        admission::KEYS,
        partition::KEYS,
        climb::KEYS,
        failure::KEYS,
        durability::KEYS,
        page_cache::KEYS,
        at_share::KEYS,
        KEYS,
    ];
    // A table's keys are together, though several files may read them.
    let table = |key: &DesignKey| key.path.split('.').next().unwrap_or_default();
    let mut tables: Vec<&str> = Vec::new();
    all.iter().copied().flatten().for_each(|key| {
        if key.path.contains('.') && !tables.contains(&table(key)) {
            tables.push(table(key));
        }
    });
    let mut keys: Vec<&'static DesignKey> = all.into_iter().flatten().copied().collect();
    keys.sort_by_key(|key| tables.iter().position(|known| *known == table(key)).map_or(0, |at| at + 1));
    keys.into_iter()
}

impl Design {
    /// The same design with another seed of everything random.
    pub fn with_seed(&self, seed: u64) -> Design {
        let mut design = Design { seed, ..self.clone() };
        design.tuning.admission.seed = seed;
        design.tuning.partition.seed = seed;
        design
    }

    /// Reads a design file and applies overrides of the form `placement.promotion.threshold=1`.
    ///
    /// # Errors
    /// One line that names the place and the remedy.
    pub fn load(path: impl AsRef<Path>, overrides: &[String]) -> Result<Design, DesignError> {
        DesignText::read(path)?.design(overrides)
    }

    /// Returns a design file with overrides applied, as TOML, without comments; every other key is as it was written.
    ///
    /// # Errors
    /// Those of [`Design::load`] for the design with its overrides.
    pub fn rewritten(path: impl AsRef<Path>, overrides: &[String]) -> Result<String, DesignError> {
        Design::load(path.as_ref(), overrides)?;
        let mut document = Document::read(path.as_ref())?;
        for (index, text) in overrides.iter().enumerate() {
            document.set(index, text)?;
        }
        Ok(document.to_toml(&[]))
    }

    /// Parses a design from text; `file` names it in errors.
    ///
    /// # Errors
    /// Those of [`Design::load`].
    pub fn parse(text: &str, file: &str, overrides: &[String]) -> Result<Design, DesignError> {
        Design::from_document(Document::parse(text, file.to_owned())?, file, overrides, None)
    }

    /// `in_service`: what is known of the devices, if the design is that of a drive in service.
    fn from_document(
        mut document: Document,
        name: &str,
        overrides: &[String],
        in_service: Option<&InService>,
    ) -> Result<Design, DesignError> {
        for (index, text) in overrides.iter().enumerate() {
            document.set(index, text)?;
        }
        if in_service.is_none() {
            document.include_designs()?;
        }
        let mut ignored = Vec::new();
        let mut root = document.keys();
        let name = root.get(&NAME)?.map_or_else(|| name.to_owned(), |name| name.into_inner());
        let mut keys = root.table("volume")?;
        let volume = keys.as_mut().map(|keys| keys.get(&volumes::SIZE)).transpose()?.flatten();
        let several = keys.as_mut().map(volumes::read).transpose()?.unwrap_or_default();
        keys.map_or(Ok(()), |keys| keys.finish())?;
        let mut devices = devices::read(&mut root, in_service, &mut ignored)?;
        let mut tuning = Tuning { spin_down_after: vec![None; devices.len()], ..Tuning::default() };
        let unsaid = placement::Unsaid {
            volume: volume.as_ref().map(|volume| **volume),
            formatted: in_service.and_then(|known| known.extent),
        };
        let (placement, asks_for_room) = placement::read(&mut root, &devices, unsaid, &mut tuning, &mut ignored)?;
        let logs = matches!(placement, Placement::Logging(_));
        logging::triggers(&mut root, logs, &mut tuning.logging)?;
        failure::read(&mut root, &mut tuning)?;
        let host_cache = volumes::read_host(&mut root, logs)?;
        let page_cache = page_cache::read(&mut root, host_cache.is_some())?;
        several.check(&placement, &mut devices)?;
        devices::read_power(&mut root, &devices, &mut tuning, &mut ignored)?;
        let limits = devices::read_endurance(&mut root, &devices, &mut ignored)?;
        let seed = match root.table("seed")? {
            None => 1,
            Some(mut keys) => {
                let seed = keys.get(&SEED)?.map_or(1, |seed| *seed);
                keys.finish()?;
                seed
            }
        };
        let shared_memory = durability::read(&mut root)?;
        let (load, duty) = at_share::read(&mut root)?;
        let (electricity, bought_for) = match root.table("cost")? {
            None => (ELECTRICITY_USD_PER_KWH, None),
            Some(mut keys) => {
                let (price, data) = (keys.get(&ELECTRICITY)?, keys.get(&DATA)?);
                if let Some(data) = data.as_ref().filter(|data| ***data == Bytes::ZERO) {
                    return Err(keys.wrong_at("data", format!("is {}: name the size of the data", **data)));
                }
                keys.finish()?;
                (price.map_or(ELECTRICITY_USD_PER_KWH, |price| *price), data.map(|data| *data))
            }
        };
        let fast = placement.hybrid().map(|pair| pair.fast.index());
        let of_all = |index: usize, limit: Option<Bytes>| Some(limit?.saturating_mul(u64::from(devices[index].count)));
        // What the engine may write: mirrors and parity use up the rest. (Small writes with parity use up more.)
        let writable =
            |index: usize| Some(limits[index].written?.saturating_mul(u64::from(devices[index].data_devices)));
        let endurance = fast.map_or((None, None), |fast| (writable(fast), of_all(fast, limits[fast].programmable)));
        let partitioned = matches!(placement, Placement::Partitioned(_));
        partition::read(&mut root, partitioned, endurance, seed, &mut tuning.partition)?;
        tuning.climb = climb::read(&mut root, &placement, &devices, endurance)?;
        let caching = matches!(placement, Placement::Caching(_));
        if let Some(read) = admission::read(&mut root, caching, seed)? {
            tuning.admission = read;
            let each = || limits.iter().enumerate();
            tuning.admission.endurance = each().map(|(index, _)| writable(index)).collect();
            tuning.admission.programmable = each().map(|(index, limits)| of_all(index, limits.programmable)).collect();
            tuning.admission.energy =
                devices.iter().map(|device| device.given_profile().and_then(admission::access_energy)).collect();
            let names = devices.iter().map(|device| device.name.as_str()).zip(tuning.admission.energy.iter().copied());
            admission::check_energy(&root, &tuning.admission, &names.collect::<Vec<_>>())?;
        }
        let room = if asks_for_room { sizes::Room::Given } else { sizes::Room::Fitting };
        let formatted = in_service.and_then(|known| known.formatted.as_ref());
        let solver = sizes::Solver {
            document: &document,
            devices: &devices,
            volume: volume.as_ref(),
            formatted,
            in_service: in_service.is_some(),
        };
        let sized = solver.solve(&placement, (&mut tuning, room))?;
        root.finish()?;
        ignored.sort_unstable();
        ignored.dedup();
        let applied = overrides.iter().enumerate().filter(|(index, _)| !ignored.contains(index));
        let stream = several.stream(sized.volume, &sized.used, &placement);
        let volume = |stream: &Stream| stream.apart * u64::from(stream.count - 1) + stream.size;
        let devices: Vec<DeviceDesign> = devices
            .into_iter()
            .zip(limits)
            .zip(sized.data.into_iter().zip(sized.used))
            .enumerate()
            .map(|(index, ((device, limits), (data, used)))| {
                let device = device.finish(limits, data, used);
                several.shared(&placement, index, device)
            })
            .collect();
        tuning.endurance = devices.iter().map(DeviceDesign::endurance_of_all).collect();
        Ok(Design {
            name,
            volume: stream.as_ref().map_or(sized.volume, volume),
            volumes: several.engines(),
            stream,
            same_requests: several.same_requests,
            host_cache,
            page_cache,
            tuning,
            shared_memory,
            seed,
            electricity_usd_per_kwh: electricity,
            bought_for,
            load,
            duty,
            overrides: applied.map(|(_, text)| text.clone()).collect(),
            toml: document.to_toml(&ignored),
            ignored_overrides: ignored,
            kept_sizes: sized.kept,
            images: None,
            devices,
            placement,
            file: document.file,
        })
    }

    /// The devices, with those of the drives that are in the place of devices.
    pub(crate) fn leaves(&self) -> Vec<device::NamedDevice<'_>> {
        self.devices.iter().flat_map(DeviceDesign::leaves).collect()
    }

    /// The device, and the number of its member, that a report gives this name.
    pub fn reported(&self, name: &str) -> Option<(&DeviceDesign, u32)> {
        self.leaves().into_iter().find_map(|leaf| match name.strip_prefix(&leaf.name)? {
            "" => Some((leaf.device, 0)),
            number => Some((leaf.device, number.strip_prefix('.')?.parse().ok()?)),
        })
    }

    /// The devices, and in the place of a device that is a drive those of the drive.
    pub fn bought(&self) -> Vec<&DeviceDesign> {
        self.leaves().into_iter().map(|leaf| leaf.device).collect()
    }

    /// The first device that is a drive.
    pub fn nested(&self) -> Option<&DeviceDesign> {
        self.devices.iter().find(|device| device.drive.is_some())
    }

    /// This design, and those of the drives in the place of its devices.
    pub(crate) fn nest(&self) -> Vec<&Design> {
        let inside = self.devices.iter().filter_map(|device| device.drive.as_deref());
        std::iter::once(self).chain(inside.flat_map(Design::nest)).collect()
    }

    /// The extent size of a hybrid: the unit that moves between its devices.
    pub(crate) fn extent(&self) -> Option<Bytes> {
        self.placement.hybrid().map(|pair| pair.extent)
    }

    /// The size of what hosts see: of all volumes together.
    pub fn volume_bytes(&self) -> Bytes {
        match &self.stream {
            Some(stream) => stream.size * u64::from(stream.count),
            None => self.volume * u64::from(self.volumes),
        }
    }

    /// The configuration for the engine.
    pub fn config(&self) -> Config {
        let devices = self.devices.iter().map(|device| device.data).collect();
        Config { devices, placement: self.placement.clone(), tuning: self.tuning.clone() }
    }

    /// Makes the engine of a volume as a run begins with it. `in_use`: the fast device of a tier is full.
    ///
    /// # Errors
    /// The engine refuses the configuration.
    pub fn engine(&self, in_use: bool) -> Result<Engine, DesignError> {
        let failed = |source| DesignError::Config { place: self.file.clone(), source };
        let mut engine = Engine::new(self.config()).map_err(failed)?;
        if in_use {
            engine.prefill_map();
        }
        Ok(engine)
    }

    /// Makes the drive: an engine for each volume, and device models. `in_use`: the fast device of a tier is full, and flash of a tier that
    /// the design does not declare fresh has been written once.
    pub(crate) fn build(&self, in_use: bool) -> Result<Machine, DesignError> {
        let mut devices = Vec::with_capacity(self.devices.len());
        let mut seed = self.seed;
        let warm = in_use && matches!(self.placement, Placement::Tiering(_));
        let mut add = |design: &DeviceDesign| {
            let model = design.build((warm, in_use), seed, self.images.as_ref())?;
            let zero_by_writing = design.zeroes_by_writing();
            devices.push(Device { model, zero_by_writing, users: design.regions });
            seed = seed.wrapping_add(design.seeds());
            Ok(devices.len() - 1)
        };
        // The devices that belong to one volume come first, volume by volume; then those that all volumes share.
        let mut places = vec![vec![0; self.devices.len()]; self.volumes as usize];
        for row in &mut places {
            for (place, device) in row.iter_mut().zip(&self.devices).filter(|(_, device)| device.regions == 1) {
                *place = add(device)?;
            }
        }
        for (index, device) in self.devices.iter().enumerate().filter(|(_, device)| device.regions > 1) {
            let shared = add(device)?;
            places.iter_mut().for_each(|row| row[index] = shared);
        }
        let mut volumes = Vec::with_capacity(places.len());
        for (number, row) in (0..).zip(places) {
            let engine = self.engine(in_use)?;
            let place = |(device, design): (usize, &DeviceDesign)| {
                let from = if design.regions > 1 { design.used * number } else { Bytes::ZERO };
                Place { device, from, lets_rest: false }
            };
            let places = row.into_iter().zip(&self.devices).map(place).collect();
            let bounds = match &self.placement {
                Placement::Logging(pair) if pair.primaries.len() == 1 => {
                    let primary = pair.primaries[0].index();
                    let apart = self.stream.as_ref().map(|stream| (stream.count, stream.apart));
                    Some((primary, PrimaryBounds::new(&self.devices[primary].profile.model, apart)))
                }
                _ => None,
            };
            let host = self.host_cache.map(HostCache::new);
            let touched = self.extent().map(|extent| Touched::new(self.volume, extent));
            volumes.push(Volume { engine, places, bounds, host, touched });
        }
        Ok(Machine { volumes, devices, same_requests: self.same_requests, watch: Watch::default() })
    }
}
