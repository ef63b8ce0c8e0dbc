//! The energy that the machine's processors and memory have used, by the counters that Linux shows (RAPL). They are those of the whole
//! machine, and they wrap around; that of the drives is not among them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// No more domains are read.
const MOST_DOMAINS: usize = 64;

/// A domain: a processor's package, its memory, ...
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// Its name, with the number of its package, such as `package-0` or `dram-0`.
    pub(crate) name: String,
    folder: PathBuf,
    /// The counter wraps around after this value.
    most_uj: u64,
    last_uj: u64,
    /// What was used since the first reading.
    pub(crate) used_uj: u64,
}

fn number(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

fn name(folder: &Path) -> Option<String> {
    Some(fs::read_to_string(folder.join("name")).ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The domains that can be read: packages and their memory. Parts of packages (`core`, `uncore`) are in their packages' counters.
/// `Err`: why there is none.
pub(crate) fn domains(powercap: &Path) -> Result<Vec<Domain>, String> {
    let entries = fs::read_dir(powercap).map_err(|_| "this machine has no energy counters (RAPL)".to_owned())?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort_unstable();
    let (mut found, mut refused) = (Vec::new(), false);
    for folder in folders {
        let zone = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // `intel-rapl` is the name for processors of AMD as well; `intel-rapl-mmio` shows the same counters again.
        let Some(number_of) = zone.strip_prefix("intel-rapl:") else { continue };
        let Some(own) = name(&folder) else { continue };
        let package = number_of.split(':').next().unwrap_or_default();
        let name = match own.as_str() {
            "dram" => format!("dram-{package}"),
            own if own.starts_with("package") => own.to_owned(),
            _ => continue,
        };
        match (number(&folder, "energy_uj"), number(&folder, "max_energy_range_uj")) {
            (Some(last_uj), Some(most_uj)) => found.push(Domain { name, folder, most_uj, last_uj, used_uj: 0 }),
            _ => refused = true,
        }
    }
    found.truncate(MOST_DOMAINS);
    match (found.is_empty(), refused) {
        (true, true) => Err("the energy counters (RAPL) can be read by root alone".to_owned()),
        (true, false) => Err("this machine has no energy counters (RAPL)".to_owned()),
        (false, _) => Ok(found),
    }
}

impl Domain {
    /// Reads the counter. It has to be called more often than the counter wraps around, which takes minutes at full load.
    pub(crate) fn look(&mut self) {
        let Some(now) = number(&self.folder, "energy_uj") else { return };
        let used = now.checked_sub(self.last_uj).unwrap_or_else(|| self.most_uj.saturating_sub(self.last_uj) + now);
        self.used_uj = self.used_uj.saturating_add(used);
        self.last_uj = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(folder: &Path, zone: &str, name: &str, energy: Option<u64>) {
        let at = folder.join(zone);
        fs::create_dir_all(&at).unwrap();
        fs::write(at.join("name"), format!("{name}\n")).unwrap();
        fs::write(at.join("max_energy_range_uj"), "1000\n").unwrap();
        if let Some(energy) = energy {
            fs::write(at.join("energy_uj"), format!("{energy}\n")).unwrap();
        }
    }

    #[test]
    fn counters_wrap_around() {
        let folder = tempfile::tempdir().unwrap();
        zone(folder.path(), "intel-rapl:0", "package-0", Some(900));
        zone(folder.path(), "intel-rapl:0:0", "core", Some(1));
        zone(folder.path(), "intel-rapl:0:1", "dram", Some(5));
        zone(folder.path(), "intel-rapl-mmio:0", "package-0", Some(1));
        let mut all = domains(folder.path()).unwrap();
        let names: Vec<&str> = all.iter().map(|domain| domain.name.as_str()).collect();
        assert_eq!(names, ["package-0", "dram-0"], "each joule once");
        for (now, used) in [(950, 50), (30, 130), (30, 130)] {
            zone(folder.path(), "intel-rapl:0", "package-0", Some(now));
            all[0].look();
            assert_eq!(all[0].used_uj, used);
        }
        fs::write(folder.path().join("intel-rapl:0/energy_uj"), "rubbish").unwrap();
        all[0].look();
        assert_eq!((all[0].used_uj, all[1].used_uj), (130, 0));
    }

    #[test]
    fn it_says_why_there_are_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(domains(folder.path()).unwrap_err().contains("no energy counters"));
        assert!(domains(&folder.path().join("none")).unwrap_err().contains("no energy counters"));
        zone(folder.path(), "intel-rapl:0", "package-0", None);
        assert!(domains(folder.path()).unwrap_err().contains("root"));
    }
}
