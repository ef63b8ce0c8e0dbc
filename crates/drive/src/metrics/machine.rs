//! Figures of Linux about this process and the devices. The thread that serves metrics reads them.

use std::{fs, io::Read, mem::MaybeUninit};

/// The states of Linux's runtime power management.
pub(super) const POWER_STATES: [&str; 5] = ["active", "suspended", "suspending", "resuming", "error"];
/// No file that is read is longer; the rest would be ignored.
const LONGEST_FILE: u64 = 256;

/// What Linux says of this process and of the devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// Processor time of this process in seconds.
    pub(super) cpu_s: Option<f64>,
    /// Its memory in RAM in bytes.
    pub(super) resident_bytes: Option<u64>,
    /// The power state of each device, one of [`POWER_STATES`]; `None` where Linux does not manage its power.
    pub(crate) power: Vec<Option<&'static str>>,
}

impl Machine {
    /// `devices`: the numbers of the block devices among the devices.
    pub(crate) fn look(devices: impl Iterator<Item = Option<u64>>) -> Machine {
        Machine {
            cpu_s: cpu_s(),
            resident_bytes: resident_bytes(),
            power: devices.map(|number| power_state(number?)).collect(),
        }
    }
}

fn cpu_s() -> Option<f64> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is a local buffer for the result.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LONGEST_FILE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn resident_bytes() -> Option<u64> {
    let pages: u64 = read("/proc/self/statm")?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The power state of a block device, or of the one that it is a partition of.
fn power_state(number: u64) -> Option<&'static str> {
    let device = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let of = |path: &str| read(&format!("{device}/{path}/power/runtime_status"));
    let state = of("device").or_else(|| of("../device"))?;
    // `unsupported` is none of these.
    POWER_STATES.into_iter().find(|known| *known == state.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_memory_and_time() {
        let burnt = (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        let machine = Machine::look([None, Some(rustix::fs::makedev(4095, 1))].into_iter());
        assert!(machine.cpu_s.is_some_and(|used| used > 0.0), "{machine:?} {burnt}");
        assert!(machine.resident_bytes.is_some_and(|bytes| (1 << 20..1 << 36).contains(&bytes)), "{machine:?}");
        assert_eq!(machine.power, [None, None]);
    }
}
