//! The lifetime of a mixed SSD array, computed without simulation: equations (2) to (6) of "Adaptive policies for
//! balancing performance and lifetime of mixed SSD arrays through workload sampling", section IV.
//!
//! Fast drives cache slow ones, write-back, least recently used. Data that misses is written to the cache when it is
//! read and when it is written; dirty data that leaves the cache is written to the storage. The cache admits a share
//! `admit` of the misses (section IV-B): other reads do not enter the cache, and other writes go straight to the
//! storage.

use std::path::Path;

use peryton_device::{Model, Profile, ProfileError, explain_unknown_key};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The host's workload on the array.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayWorkload {
    /// Bytes read per second, `r`.
    #[serde(default)]
    pub read: Bytes,
    /// Bytes written per second, `w`.
    #[serde(default)]
    pub write: Bytes,
    /// Share of the reads that hit the cache, 1 − `m_r`.
    pub read_hit: f64,
    /// Share of the writes whose block is in the cache, 1 − `m_w`.
    pub write_hit: f64,
    /// Share of the evicted data that is dirty, `d`.
    pub dirty: f64,
    /// Share of the misses that the cache admits, `p`.
    #[serde(default = "one")]
    pub admit: f64,
    /// Bytes of a read request.
    #[serde(default = "request_size")]
    pub read_size: Bytes,
    /// Bytes of a write request.
    #[serde(default = "request_size")]
    pub write_size: Bytes,
}

/// Drives of one kind, with data striped over them and wear levelled perfectly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// Number of drives, `N`.
    pub count: u32,
    /// Capacity of each, `c`.
    pub capacity: Bytes,
    /// Number of writes that a cell endures, `l`.
    pub cycles: f64,
    /// Time of a read.
    pub read: Nanos,
    /// Time of a write.
    pub write: Nanos,
    /// Bytes programmed per byte written, `β`.
    pub write_amplification: f64,
}

/// An array under a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Array {
    /// The host's workload.
    pub workload: ArrayWorkload,
    /// The cache's drives.
    pub cache: Tier,
    /// The drives that it caches.
    pub storage: Tier,
}

/// The wear of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Wear {
    /// Bytes written to all its drives per second.
    pub bytes_written_per_s: f64,
    /// Writes of a cell per second, `w′` of equation (6): `w` of (2) or (3) multiplied by the write amplification.
    pub writes_per_cell_per_s: f64,
    /// Share of its life that is used up per second, `f` of equation (4).
    pub wear_per_s: f64,
    /// Years until the tier is worn out; absent if nothing is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
}

/// The lifetime and latency of an [`Array`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lifetime {
    /// The share of misses that the cache admits.
    pub admit: f64,
    /// Wear of the cache.
    pub cache: Wear,
    /// Wear of the storage.
    pub storage: Wear,
    /// Years until the first of the two tiers is worn out, equation (5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// Mean response time of a request, in ms, without queueing.
    pub mean_latency_ms: f64,
    /// Mean response time weighted by the bytes of requests.
    pub mean_latency_by_bytes_ms: f64,
    /// `mean_latency_ms` over `lifetime_years`: the paper's objective, equation (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_over_lifetime: Option<f64>,
}

/// The reason why there is no result.
#[derive(Debug, Error)]
pub enum LifetimeError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The path of the file.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The file's text is not a description of an array.
    #[error("{place}: {what}")]
    Parse {
        /// File and line.
        place: String,
        /// What is wrong with the text.
        what: String,
    },
    /// A value is out of its range.
    #[error("{key} is {value}: use {remedy}")]
    Range {
        /// The key.
        key: String,
        /// The value given.
        value: String,
        /// The values that are accepted.
        remedy: &'static str,
    },
    /// A value is in neither the file nor the profile.
    #[error("{key} is not known: {remedy}")]
    Missing {
        /// The key.
        key: String,
        /// What to do.
        remedy: String,
    },
    /// The profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

fn one() -> f64 {
    1.0
}

fn request_size() -> Bytes {
    Bytes::kib(4)
}

impl Array {
    /// Computes equations (2) to (6), and the mean latency of section IV-D.
    ///
    /// # Errors
    /// A share is outside 0 to 1, a drive has no cells, or the workload reads and writes nothing.
    pub fn lifetime(&self) -> Result<Lifetime, LifetimeError> {
        self.check()?;
        let w = &self.workload;
        let (read, write) = (w.read.0 as f64, w.write.0 as f64);
        let (read_misses, write_misses) = (read * (1.0 - w.read_hit), write * (1.0 - w.write_hit));
        let brought_in = w.admit * (read_misses + write_misses);
        let around = (1.0 - w.admit) * write_misses;
        // (3): data read from the storage is written to the cache, and so is every write except those that bypass it.
        let cache = self.cache.wear(w.admit * read_misses + write - around);
        // (2): each block that enters the cache evicts another, which may be dirty.
        let storage = self.storage.wear(brought_in * w.dirty + around);
        // (5).
        let worst = cache.wear_per_s.max(storage.wear_per_s);
        let lifetime_years = years(worst);

        let ms = |time: Nanos| time.as_s_f64() * 1e3;
        let (cache_ms, storage_ms) =
            ([self.cache.read, self.cache.write].map(ms), [self.storage.read, self.storage.write].map(ms));
        let read_ms = w.read_hit * cache_ms[0] + (1.0 - w.read_hit) * storage_ms[0];
        // Only writes that bypass the cache wait for the storage.
        let around_share = (1.0 - w.admit) * (1.0 - w.write_hit);
        let write_ms = (1.0 - around_share) * cache_ms[1] + around_share * storage_ms[1];
        let mean = |reads: f64, writes: f64| (reads * read_ms + writes * write_ms) / (reads + writes);
        let mean_latency_ms = mean(read / w.read_size.0 as f64, write / w.write_size.0 as f64);
        Ok(Lifetime {
            admit: w.admit,
            cache,
            storage,
            lifetime_years,
            mean_latency_ms,
            mean_latency_by_bytes_ms: mean(read, write),
            latency_over_lifetime: lifetime_years.map(|years| mean_latency_ms / years),
        })
    }

    /// The same for each of these shares of admitted misses, or for the array's own if there are none.
    ///
    /// # Errors
    /// Those of [`Array::lifetime`].
    pub fn lifetimes(&self, admit: &[f64]) -> Result<Vec<Lifetime>, LifetimeError> {
        let own = [self.workload.admit];
        let admit = if admit.is_empty() { &own } else { admit };
        let one = |share: &f64| {
            let mut array = *self;
            array.workload.admit = *share;
            array.lifetime()
        };
        admit.iter().map(one).collect()
    }

    fn check(&self) -> Result<(), LifetimeError> {
        let w = &self.workload;
        let range = |key: &str, value: String, remedy| Err(LifetimeError::Range { key: key.to_owned(), value, remedy });
        for (key, value) in
            [("read_hit", w.read_hit), ("write_hit", w.write_hit), ("dirty", w.dirty), ("admit", w.admit)]
        {
            if !(0.0..=1.0).contains(&value) {
                return range(&format!("workload.{key}"), value.to_string(), "a share from 0 to 1, such as 0.85");
            }
        }
        if w.read.0 + w.write.0 == 0 {
            return range(
                "workload.read and workload.write",
                "0".to_owned(),
                "a rate such as 160MB per second for one of them",
            );
        }
        if w.read_size == Bytes::ZERO || w.write_size == Bytes::ZERO {
            return range("workload.read_size or workload.write_size", "0".to_owned(), "a size such as 16KiB");
        }
        for (name, tier) in [("cache", &self.cache), ("storage", &self.storage)] {
            if tier.count == 0 {
                return range(&format!("{name}.count"), "0".to_owned(), "1 or more");
            }
            if tier.capacity == Bytes::ZERO {
                return range(&format!("{name}.capacity"), "0".to_owned(), "a size such as 100GB");
            }
            if !(tier.cycles > 0.0 && tier.cycles.is_finite()) {
                return range(&format!("{name}.cycles"), tier.cycles.to_string(), "a number above 0, such as 10000");
            }
            let beta = tier.write_amplification;
            if !(beta > 0.0 && beta.is_finite()) {
                return range(&format!("{name}.write_amplification"), beta.to_string(), "a number above 0, such as 1");
            }
        }
        Ok(())
    }
}

impl Tier {
    fn wear(&self, bytes_written_per_s: f64) -> Wear {
        let capacity = f64::from(self.count) * self.capacity.0 as f64;
        let writes_per_cell_per_s = self.write_amplification * bytes_written_per_s / capacity;
        let wear_per_s = writes_per_cell_per_s / self.cycles;
        Wear { bytes_written_per_s, writes_per_cell_per_s, wear_per_s, lifetime_years: years(wear_per_s) }
    }
}

fn years(wear_per_s: f64) -> Option<f64> {
    (wear_per_s > 0.0).then(|| 1.0 / wear_per_s / SECONDS_PER_YEAR)
}

/// An [`Array`] as in a file: values that the tier's profile contains may be left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: ArrayWorkload,
    cache: TierFile,
    storage: TierFile,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TierFile {
    profile: Option<String>,
    count: Option<u32>,
    capacity: Option<Bytes>,
    cycles: Option<f64>,
    read: Option<Nanos>,
    write: Option<Nanos>,
    write_amplification: Option<f64>,
}

/// The largest file; a description is about a page of text.
const MAX_FILE: u64 = 1 << 20;

impl Array {
    /// Reads a table with `[workload]`, `[cache]` and `[storage]`; `overlay` replaces or adds single values.
    ///
    /// # Errors
    /// The file does not exist, its TOML is wrong, or a key is unknown or missing.
    pub fn load(path: Option<&Path>, overlay: &toml::Table) -> Result<Array, LifetimeError> {
        let Some(path) = path else { return Array::parse("", "the command line", overlay) };
        let shown = path.display().to_string();
        let io = |source| LifetimeError::Io { path: shown.clone(), source };
        if std::fs::metadata(path).map_err(io)?.len() > MAX_FILE {
            let what = "larger than 1 MiB: not a description of an array".to_owned();
            return Err(LifetimeError::Parse { place: shown, what });
        }
        Array::parse(&std::fs::read_to_string(path).map_err(io)?, &shown, overlay)
    }

    /// Does the same as [`load`](Array::load) with the text of the file; `origin` names it in errors.
    ///
    /// # Errors
    /// The TOML is wrong, or a key is unknown or missing.
    pub fn parse(text: &str, origin: &str, overlay: &toml::Table) -> Result<Array, LifetimeError> {
        let at = |error: &toml::de::Error, known: bool| {
            let line = error
                .span()
                .filter(|_| known)
                .map(|span| text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1);
            let what = explain_unknown_key(error.message()).replace('\n', " ");
            let place = line.map_or_else(|| origin.to_owned(), |line| format!("{origin}:{line}"));
            LifetimeError::Parse { place, what }
        };
        let table: toml::Table = toml::from_str(text).map_err(|error| at(&error, true))?;
        let file: File = if overlay.is_empty() {
            toml::from_str(text).map_err(|error| at(&error, true))?
        } else {
            let mut table = table;
            merge(&mut table, overlay);
            toml::Value::Table(table).try_into().map_err(|error| at(&error, false))?
        };
        Ok(Array {
            workload: file.workload,
            cache: file.cache.resolve("cache")?,
            storage: file.storage.resolve("storage")?,
        })
    }
}

fn merge(table: &mut toml::Table, overlay: &toml::Table) {
    for (key, value) in overlay {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            _ => drop(table.insert(key.clone(), value.clone())),
        }
    }
}

impl TierFile {
    fn resolve(self, tier: &str) -> Result<Tier, LifetimeError> {
        let profile = self.profile.as_deref().map(Profile::named).transpose()?;
        let published = profile.as_ref().map(Published::of).unwrap_or_default();
        let missing = |key: &str| {
            let remedy = match &profile {
                Some(profile) => format!("profile '{}' does not say, so give {tier}.{key}", profile.name),
                None => format!("give {tier}.{key}, or a {tier}.profile that has it"),
            };
            LifetimeError::Missing { key: format!("{tier}.{key}"), remedy }
        };
        Ok(Tier {
            count: self.count.unwrap_or(1),
            capacity: self.capacity.or(profile.as_ref().map(|p| p.capacity)).ok_or_else(|| missing("capacity"))?,
            cycles: self.cycles.or(published.cycles).ok_or_else(|| missing("cycles"))?,
            read: self.read.or(published.read).ok_or_else(|| missing("read"))?,
            write: self.write.or(published.write).ok_or_else(|| missing("write"))?,
            write_amplification: self.write_amplification.unwrap_or(1.0),
        })
    }
}

/// The values that a profile contains for a tier's drives.
#[derive(Default)]
struct Published {
    cycles: Option<f64>,
    read: Option<Nanos>,
    write: Option<Nanos>,
}

impl Published {
    fn of(profile: &Profile) -> Published {
        let written = profile.endurance.written.map(|written| written.0 as f64 / profile.capacity.0 as f64);
        let sheet = |ms: Option<f64>| ms.map(|ms| Nanos::from_s_f64(ms / 1e3));
        let (cycles, read, write) = match &profile.model {
            Model::Fixed(fixed) => (fixed.cycles.map(f64::from), Some(fixed.read), Some(fixed.write)),
            Model::Flash(_) | Model::Disk(_) => (None, None, None),
        };
        Published {
            // The manufacturer's limit of host writes already includes write amplification.
            cycles: cycles.or(profile.endurance.cycles.map(f64::from)).or(written),
            read: read.or(sheet(profile.data_sheet.rand_read_ms)),
            write: write.or(sheet(profile.data_sheet.rand_write_ms)),
        }
    }
}
