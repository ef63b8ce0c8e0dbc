//! The setting for how long a processor may take to wake up while clients wait for it.

use std::{fs, str::FromStr, time::Duration};

use peryton_units::Nanos;

/// By default, processors are kept awake only on machines with at most this many: on larger ones it costs more than it
/// is worth to one client.
const FEW: i64 = 8;
/// The wake-up time of a light sleep (C1 of real processors), which costs almost nothing to leave.
const LIGHT_SLEEP: Duration = Duration::from_micros(2);

/// The longest time that an idle processor may take to wake up while clients get fast answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CpuLatency {
    /// Zero in a virtual machine, where every sleep is deep; 2 µs elsewhere; no limit on machines with more than eight
    /// processors.
    #[default]
    Auto,
    /// No limit.
    Off,
    /// At most this long.
    AtMost(Duration),
}

impl FromStr for CpuLatency {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuLatency, String> {
        match text {
            "auto" => Ok(CpuLatency::Auto),
            "off" => Ok(CpuLatency::Off),
            // Zero is the only time that needs no unit.
            "0" => Ok(CpuLatency::AtMost(Duration::ZERO)),
            _ => match text.parse::<Nanos>() {
                Ok(time) => Ok(CpuLatency::AtMost(Duration::from_nanos(time.0))),
                Err(_) => Err(format!("'{text}': give auto, off, or a time such as 2us")),
            },
        }
    }
}

impl CpuLatency {
    /// The limit on this machine; `None` for no limit.
    pub(crate) fn at_most(self) -> Option<Duration> {
        match self {
            CpuLatency::Off => None,
            CpuLatency::AtMost(time) => Some(time),
            CpuLatency::Auto => {
                // SAFETY: the call only reads system configuration.
                let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
                let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver").unwrap_or_default();
                let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
                auto(processors, driver.trim(), &about)
            }
        }
    }
}

fn auto(processors: i64, idle_driver: &str, cpuinfo: &str) -> Option<Duration> {
    // Without an idle driver there is only one kind of sleep, so there is nothing to choose.
    if processors > FEW || idle_driver.is_empty() || idle_driver == "none" {
        return None;
    }
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    let is_virtual = flags.any(|line| line.split_whitespace().any(|flag| flag == "hypervisor"));
    Some(if is_virtual || idle_driver == "haltpoll" { Duration::ZERO } else { LIGHT_SLEEP })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_depends_on_the_machine() {
        let (metal, guest) = ("model name\t: x\nflags\t\t: fpu vme\n", "flags\t\t: fpu hypervisor vme\n");
        assert_eq!(auto(4, "intel_idle", metal), Some(LIGHT_SLEEP));
        assert_eq!(auto(8, "acpi_idle", guest), Some(Duration::ZERO));
        assert_eq!(auto(2, "haltpoll", ""), Some(Duration::ZERO), "an ARM guest");
        assert_eq!(auto(9, "intel_idle", metal), None);
        assert_eq!(auto(64, "haltpoll", guest), None);
        assert_eq!(auto(2, "none", guest), None);
        assert_eq!(auto(2, "", guest), None);
    }

    #[test]
    fn it_is_parsed_as_people_write_it() {
        assert_eq!("auto".parse(), Ok(CpuLatency::Auto));
        assert_eq!("off".parse(), Ok(CpuLatency::Off));
        assert_eq!("0".parse(), Ok(CpuLatency::AtMost(Duration::ZERO)));
        assert_eq!("0us".parse(), Ok(CpuLatency::AtMost(Duration::ZERO)));
        assert_eq!("20us".parse(), Ok(CpuLatency::AtMost(Duration::from_micros(20))));
        for wrong in ["", "on", "2", "-1us", "us", "AUTO"] {
            let error = wrong.parse::<CpuLatency>().unwrap_err();
            assert!(error.contains("give auto, off, or a time"), "{error}");
        }
    }
}
