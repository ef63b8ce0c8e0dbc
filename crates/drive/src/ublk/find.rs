//! Finds the block device of a volume among those that the kernel has. The kernel keeps a number for each that its server
//! gave, and that is made from the volume's identity: so a device is found again whatever became of its server and of files.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::{
    PATIENCE,
    control::Control,
    error::UblkError,
    names::{DIRECTORY, NameFile},
    wire::{DeviceInfo, State, USER_RECOVERY, USER_RECOVERY_REISSUE},
};

/// The kernel's list of devices.
const DEVICES: &str = "/sys/class/ublk-char";
/// The interval of looks meanwhile.
const LOOK: Duration = Duration::from_millis(10);
/// Distinguishes these numbers from those of other servers.
const MARK: u64 = u64::from_le_bytes(*b"peryton1");

/// An odd number without a pattern (Knuth's multiplicative hash).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that the kernel keeps for the device of this volume.
pub(crate) fn mark(volume: u128) -> u64 {
    // Half of an identity that was drawn at random would do; all of it is used, should it not be random.
    let (high, low) = ((volume >> 64) as u64, volume as u64);
    MARK ^ high.rotate_left(17).wrapping_mul(SPREAD).wrapping_add(low)
}

/// The numbers of all devices of this machine.
pub(crate) fn all() -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(DEVICES) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut ids = Vec::new();
    for entry in entries {
        ids.extend(id_of(&entry?.file_name().to_string_lossy(), "ublkc"));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// The number in a name such as `ublkb3`.
pub(crate) fn id_of(name: &str, before: &str) -> Option<u32> {
    let digits = name.strip_prefix(before)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// What to do about a device that is marked as this volume's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It has no server: take it over.
    TakeOver,
    /// It was never started, or was stopped: remove it.
    Remove,
    /// Its server is about to end: look again.
    Wait,
    /// It cannot be taken over.
    Refuse,
}

/// `lives`: whether the process that the device names is there.
fn judge(info: &DeviceInfo, lives: bool) -> Verdict {
    let survives = info.flags & USER_RECOVERY != 0 && info.flags & USER_RECOVERY_REISSUE != 0;
    match info.state {
        State::Dead => Verdict::Remove,
        State::Quiesced | State::Live if !survives => Verdict::Refuse,
        // The kernel warns if a device is taken from a process that has not ended.
        State::Quiesced if !lives => Verdict::TakeOver,
        State::Quiesced | State::Live => Verdict::Wait,
        State::FailIo | State::Unknown(_) => Verdict::Refuse,
    }
}

fn lives(pid: i32) -> bool {
    pid > 0 && Path::new(&format!("/proc/{pid}")).exists()
}

/// Finds the device of this volume that waits for a server. The caller has locked the volume's devices, so no other server has
/// it. Devices of this volume that were never started, or were stopped, are removed.
pub(crate) fn waiting(control: &mut Control, volume: u128) -> Result<Option<DeviceInfo>, UblkError> {
    let mut found = None;
    for id in all().map_err(UblkError::system(DEVICES))? {
        let asking = || UblkError::system(format!("asking the kernel about block device {id}"));
        let began = Instant::now();
        while let Some(info) = control.info(id).map_err(asking())? {
            if info.mark != mark(volume) {
                break;
            }
            match judge(&info, lives(info.pid)) {
                Verdict::TakeOver => {
                    found = Some(info);
                    break;
                }
                Verdict::Remove => {
                    control.delete(id).map_err(UblkError::system(format!("removing block device {id}")))?;
                    break;
                }
                Verdict::Wait if began.elapsed() < PATIENCE => thread::sleep(LOOK),
                Verdict::Wait if lives(info.pid) => return Err(UblkError::Served { id, pid: info.pid }),
                Verdict::Wait => {
                    return Err(UblkError::Unfinished { id, pid: info.pid, waited_s: PATIENCE.as_secs() });
                }
                Verdict::Refuse => {
                    let what = "it does not survive its server, or this program does not know its state".to_owned();
                    return Err(UblkError::Other { id, what });
                }
            }
        }
    }
    Ok(found)
}

/// A block device of a volume.
#[derive(Clone, Debug)]
pub struct BlockDevice {
    /// Its number: N of `/dev/ublkbN`.
    pub id: u32,
    /// The name of the volume.
    pub name: String,
    /// The volume's identity.
    pub volume: u128,
    /// The design of the volume, as an absolute path.
    pub design: std::path::PathBuf,
    /// `served`, `waiting` for a server, or `stopped`.
    pub state: &'static str,
    /// The process of its server, if it has one.
    pub pid: Option<i32>,
}

impl BlockDevice {
    /// Its path.
    pub fn path(&self) -> String {
        format!("/dev/ublkb{}", self.id)
    }

    /// What the kernel says of a device and the file for its number; `None`: the file is of an earlier device, because the mark differs.
    fn of(info: &DeviceInfo, file: NameFile, server_lives: bool) -> Option<BlockDevice> {
        if info.mark != mark(file.volume) {
            return None;
        }
        let state = match judge(info, server_lives) {
            Verdict::Remove => "stopped",
            _ if info.state == State::Live && server_lives => "served",
            _ => "waiting",
        };
        let NameFile { name, volume, design } = file;
        Some(BlockDevice { id: info.id, name, volume, design, state, pid: (state == "served").then_some(info.pid) })
    }
}

/// The block devices of Peryton's volumes on this machine.
///
/// # Errors
/// The kernel has no ublk, or this process may not use it.
pub fn block_devices() -> Result<Vec<BlockDevice>, UblkError> {
    listed(&mut Control::open()?)
}

fn listed(control: &mut Control) -> Result<Vec<BlockDevice>, UblkError> {
    let mut devices = Vec::new();
    for id in all().map_err(UblkError::system(DEVICES))? {
        let info = control.info(id).map_err(UblkError::system(format!("asking the kernel about block device {id}")))?;
        let Some(file) = NameFile::read(Path::new(DIRECTORY), id) else { continue };
        devices.extend(info.and_then(|info| BlockDevice::of(&info, file, lives(info.pid))));
    }
    Ok(devices)
}

/// The block device that the kernel calls so (`ublkb3`), if it is a volume of Peryton: the kernel's number says so, not only a file.
///
/// # Errors
/// The kernel has no ublk, or this process may not use it.
pub fn block_device(kernel_name: &str) -> Result<Option<BlockDevice>, UblkError> {
    let id = id_of(kernel_name, "ublkb");
    Ok(block_devices()?.into_iter().find(|device| Some(device.id) == id))
}

/// Stops and removes a block device that waits for a server: its requests fail from now on. `which` is its path, or the name of
/// its volume.
///
/// # Errors
/// There is no such device, or it has a server, or the kernel refuses.
pub fn remove_block_device(which: &str) -> Result<BlockDevice, UblkError> {
    let mut control = Control::open()?;
    let devices = listed(&mut control)?;
    let names = |device: &&BlockDevice| device.path() == which || device.name == which;
    let device = devices.iter().find(names).ok_or_else(|| UblkError::Unknown(which.to_owned()))?;
    if let Some(pid) = device.pid {
        return Err(UblkError::Served { id: device.id, pid });
    }
    control.stop(device.id).map_err(UblkError::system(format!("stopping {}", device.path())))?;
    control.delete(device.id).map_err(UblkError::system(format!("removing {}", device.path())))?;
    NameFile::remove(Path::new(DIRECTORY), device.id);
    Ok(device.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(state: State, flags: u64) -> DeviceInfo {
        DeviceInfo { queues: 1, depth: 1, state, longest: 4096, id: 0, pid: 7, flags, mark: 0 }
    }

    #[test]
    fn a_device_is_taken_over_once_its_server_is_gone_and_not_before() {
        let both = USER_RECOVERY | USER_RECOVERY_REISSUE;
        assert_eq!(judge(&info(State::Quiesced, both), false), Verdict::TakeOver);
        assert_eq!(judge(&info(State::Quiesced, both), true), Verdict::Wait);
        // The kernel has not noticed yet that the server is gone.
        assert_eq!(judge(&info(State::Live, both), false), Verdict::Wait);
        assert_eq!(judge(&info(State::Live, both), true), Verdict::Wait);
    }

    #[test]
    fn a_device_that_never_started_is_removed_and_one_that_loses_requests_is_refused() {
        let both = USER_RECOVERY | USER_RECOVERY_REISSUE;
        assert_eq!(judge(&info(State::Dead, both), false), Verdict::Remove);
        // Requests that the dead server had would have failed although they may have been carried out.
        assert_eq!(judge(&info(State::Quiesced, USER_RECOVERY), false), Verdict::Refuse);
        assert_eq!(judge(&info(State::FailIo, both), false), Verdict::Refuse);
        assert_eq!(judge(&info(State::Unknown(9), both), false), Verdict::Refuse);
    }

    #[test]
    fn volumes_have_different_marks() {
        let volumes = [0, 1, 1 << 63, 1 << 64, u128::MAX, 1 << 127];
        let mut marks: Vec<u64> = volumes.iter().map(|volume| mark(*volume)).collect();
        marks.sort_unstable();
        marks.dedup();
        assert_eq!(marks.len(), volumes.len());
    }

    #[test]
    fn a_number_that_another_programs_device_has_taken_is_no_volume() {
        let file = || NameFile { name: "data".to_owned(), volume: 5, design: "/etc/peryton/data.toml".into() };
        let own = DeviceInfo { mark: mark(5), ..info(State::Live, 0) };
        let found = BlockDevice::of(&own, file(), true).unwrap();
        assert_eq!((found.name.as_str(), found.state, found.pid), ("data", "served", Some(7)));
        for foreign in [mark(6), 0, u64::MAX] {
            assert!(BlockDevice::of(&DeviceInfo { mark: foreign, ..own }, file(), true).is_none());
        }
    }

    #[test]
    fn numbers_are_read_from_names() {
        assert_eq!(id_of("ublkc12", "ublkc"), Some(12));
        for name in ["ublkc", "ublkb1", "ublkc1p1", "ublkc-1", "ublkc99999999999"] {
            assert_eq!(id_of(name, "ublkc"), None, "{name}");
        }
    }
}
