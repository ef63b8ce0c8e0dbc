//! Multi-mount protection: one server has a volume, by whatever names its devices are opened and on whichever machine. A server renews
//! a block on each device every few seconds ([`peryton_format::holder`]), and whoever is about to use the volume looks at it first.
//!
//! After a clean close the block says that no server has the volume. After a crash it names a process. If that process belonged to the
//! present boot of this machine and has ended, the volume is free. Otherwise the block is watched for an interval or two, since a living
//! server renews it. A block that is not renewed is that of a copy of the volume, or of a machine that has failed.
//!
//! The block also has the counts of the device's wear. A kill loses the counts since the last renewal.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use peryton_format::holder::{HOLDER_AT, Holder, RENEWED_EVERY_S, Torn, decode, encode};
use peryton_units::Nanos;
use rustix::{io::Errno, process::Pid};
use thiserror::Error;

use crate::{
    arena::Arena, clock::unix_s, division::Division, health::Table, notify::Notifier, open::Device,
    own_sizes::any_superblock, random::random, shared_memory::boot_id,
};

/// How often the block is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(RENEWED_EVERY_S);
/// The first renewal is sooner, so that of two servers that begin at the same moment one finds the other.
const FIRST: Duration = Duration::from_secs(1);
/// How long a block is watched whose server lives on this machine. The server may have a copy of the volume instead.
const WATCHED: Duration = Duration::from_secs(RENEWED_EVERY_S + 1);
/// How long a block is watched whose server may live on another machine.
const WATCHED_FROM_AFAR: Duration = Duration::from_secs(2 * RENEWED_EVERY_S + 1);
const LOOK: Duration = Duration::from_millis(250);
const BLOCK: usize = 4096;

/// Another server has the volume.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: device '{name}' is served by {by}: only one at a time may have the volume, so stop that first", path.display())]
pub struct HeldElsewhere {
    /// The device.
    pub name: String,
    /// Where.
    pub path: PathBuf,
    /// Who has it.
    pub by: String,
}

/// The numbers of the servers in this process.
static OWN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn own() -> MutexGuard<'static, BTreeSet<u64>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads or writes the block of a device.
fn transfer(device: &Device, write: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let arena = Arena::new(BLOCK)?;
    // SAFETY: no other reference to the memory exists.
    let bytes = unsafe { arena.at(0).slice_mut(BLOCK) };
    if let Some(write) = write {
        bytes.copy_from_slice(write);
    }
    let parts = match &device.division {
        None => vec![(&device.file, HOLDER_AT.0, 0..BLOCK)],
        Some(division) => {
            let place = |(place, part)| Some((Division::file(division, &place, &device.file)?, place.at.0, part));
            division.map.parts(HOLDER_AT, BLOCK).filter_map(place).collect()
        }
    };
    for (file, at, part) in parts {
        if !device.is_direct {
            let _ = rustix::fs::fadvise(file, at, None, rustix::fs::Advice::DontNeed);
        }
        let moved = match write {
            Some(_) => rustix::io::pwrite(file, &bytes[part.clone()], at)?,
            None => rustix::io::pread(file, &mut bytes[part.clone()], at)?,
        };
        if moved != part.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if write.is_some() && !device.is_direct {
            rustix::fs::fdatasync(file)?;
        }
    }
    if write.is_none() {
        device.ability.wear.read(HOLDER_AT.0, BLOCK as u64);
    }
    Ok(bytes.to_vec())
}

/// Writes the block of a device. The wear in the block includes this write.
fn write(device: &Device, holder: Option<&Holder>) -> io::Result<()> {
    let wear = &device.ability.wear;
    wear.wrote(HOLDER_AT.0, BLOCK as u64);
    transfer(device, Some(&encode(holder, &wear.account().unwrap_or_default()))).map(drop)
}

/// Writes the wear of a device that no server has.
pub(crate) fn keep_wear(device: &Device) -> io::Result<()> {
    write(device, None)
}

/// Continues the count of wear that the device stores. `ours`: the number of this server.
pub(crate) fn take_up_wear(device: &Device, ours: Option<u64>) {
    let held = transfer(device, None).map(|block| decode(&block));
    // A torn block has lost its count, which begins again.
    let held = held.ok().and_then(Result::ok).unwrap_or_default();
    let is_unclosed = held.holder.is_some_and(|holder| Some(holder.nonce) != ours);
    device.ability.wear.take_up(held.account, is_unclosed, unix_s());
}

/// When a process of this machine was started, in ticks; `None` if there is none, or it has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X" | "x");
    fields.nth(18)?.parse().ok().filter(|_| !has_ended)
}

/// In which namespace process numbers of this process are.
fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino())
}

/// Whether a server lives; `None`: that cannot be told from here.
fn lives(holder: &Holder) -> Option<bool> {
    let here = boot_id().ok() == Some(holder.boot) && pid_namespace() == holder.pid_namespace;
    if !here {
        return None;
    }
    if holder.pid == std::process::id() {
        return Some(own().contains(&holder.nonce));
    }
    match started(holder.pid) {
        // A mount of /proc may hide the processes of others.
        None if is_there(holder.pid) => None,
        found => Some(found == Some(holder.started)),
    }
}

/// Whether a process of this machine has this number, even if nothing else can be known of it.
fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::PERM))
}

fn described(holder: &Holder) -> String {
    let since = Nanos::from_s(unix_s().saturating_sub(holder.since_unix_s));
    format!("process {} on {}, for {since}", holder.pid, holder.host)
}

/// Looks whether another server has one of these devices. Returns at once after a clean close, and after a kill on this machine.
/// Returns whether a server has not let go of one, and its hosts may live: this machine was not started since.
///
/// # Errors
/// One has.
pub(crate) fn look(devices: &[Option<Device>], notifier: &Notifier) -> Result<bool, HeldElsewhere> {
    // A device that cannot be read is reported when the volume is opened.
    let read = |device: &Device| transfer(device, None).ok();
    let found = |device: &Device| any_superblock(device).and_then(|_| read(device));
    let (mut watched, mut until, mut is_of_this_boot) = (Vec::new(), Duration::ZERO, false);
    for device in devices.iter().flatten() {
        let Some(block) = found(device) else { continue };
        let (by, wait) = match decode(&block).map(|held| held.holder) {
            Ok(None) => continue,
            Ok(Some(holder)) => {
                is_of_this_boot |= boot_id().ok() == Some(holder.boot);
                match lives(&holder) {
                    Some(false) => continue,
                    Some(true) => (described(&holder), WATCHED),
                    None => (described(&holder), WATCHED_FROM_AFAR),
                }
            }
            Err(Torn) => ("another server".to_owned(), WATCHED_FROM_AFAR),
        };
        watched.push((device, block, by));
        until = until.max(wait);
    }
    let Some((_, _, by)) = watched.first() else { return Ok(is_of_this_boot) };
    tracing::info!(
        "the volume says that {by}, has it: waiting for {} s, in which who has it would say so again",
        until.as_secs()
    );
    let began = Instant::now();
    while began.elapsed() < until && !watched.is_empty() {
        thread::sleep(LOOK);
        notifier.progress();
        let mut held = None;
        watched.retain(|(device, before, by)| {
            let Some(now) = read(device).filter(|now| now != before) else { return true };
            // If the block now says that no server has the volume, its server has just closed it.
            if decode(&now).map_or(true, |now| now.holder.is_some()) {
                let (name, path, by) = (device.name.clone(), device.path.clone(), by.clone());
                held = Some(HeldElsewhere { name, path, by });
            }
            false
        });
        if let Some(held) = held {
            return Err(held);
        }
    }
    Ok(is_of_this_boot)
}

/// What the thread that renews, and the server, know of each other.
#[derive(Debug)]
struct Known {
    /// The devices that are part of the volume.
    devices: Vec<Option<Device>>,
    /// Devices that have joined the volume, and whose blocks do not name this server yet.
    joined: Vec<Device>,
    /// Devices that have left the volume, and whose blocks still name this server.
    left: Vec<Device>,
    has_ended: bool,
}

#[derive(Debug)]
struct Shared {
    holder: Holder,
    known: Mutex<Known>,
    /// Locked while a block is written. Only the close of the volume waits for this lock.
    writing: Mutex<()>,
    changed: Condvar,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the block of the device names this server; an error if it names another one.
    fn is_ours(&self, device: &Device) -> Result<bool, String> {
        match transfer(device, None).map(|block| decode(&block).map(|held| held.holder)) {
            Ok(Ok(Some(holder))) if holder.nonce != self.holder.nonce => Err(described(&holder)),
            Ok(Ok(Some(_))) => Ok(true),
            _ => Ok(false),
        }
    }

    /// Writes that this server has the device. No other server may have it.
    fn take(&self, device: &Device) -> io::Result<()> {
        take_up_wear(device, Some(self.holder.nonce));
        write(device, Some(&self.holder))
    }

    fn free(&self, device: &Device) {
        if self.is_ours(device) == Ok(true)
            && let Err(error) = write(device, None)
        {
            tracing::debug!(device = device.name, %error, "the holder block cannot be cleared");
        }
    }
}

/// A volume that this process has.
#[derive(Debug)]
pub(crate) struct Held(Arc<Shared>);

impl Held {
    /// Writes to each device that this process has it.
    ///
    /// # Errors
    /// One refuses it.
    pub(crate) fn take(devices: &[Option<Device>]) -> Result<Held, (usize, io::Error)> {
        let nonce = random().map_err(|error| (0, error))?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let holder = Holder {
            nonce: u64::from_le_bytes(nonce),
            renewals: 0,
            pid: std::process::id(),
            pid_namespace: pid_namespace(),
            started: started(std::process::id()).unwrap_or(0),
            boot: boot_id().unwrap_or(0),
            since_unix_s: unix_s(),
            host: host.trim().to_owned(),
        };
        let is_member = |device: &Device| any_superblock(device).is_some();
        let members: Vec<Option<Device>> = devices.iter().map(|device| device.clone().filter(is_member)).collect();
        own().insert(holder.nonce);
        let known = Known { devices: members, joined: Vec::new(), left: Vec::new(), has_ended: false };
        let held = Held(Arc::new(Shared {
            holder,
            known: Mutex::new(known),
            writing: Mutex::new(()),
            changed: Condvar::new(),
        }));
        for (index, device) in held.0.known().devices.iter().enumerate() {
            if let Some(device) = device {
                held.0.take(device).map_err(|error| (index, error))?;
            }
        }
        Ok(held)
    }

    /// Renews the blocks from now on, except on disks in standby. `taken` is called if the block of a device names another server, because
    /// two servers must not use one volume.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn renew(&self, drives: Arc<Table>, taken: impl Fn(String) + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.0);
        let renew = move || {
            let mut wait = FIRST;
            // Devices whose blocks may still name an earlier server, because a write to them has failed.
            let mut others: Vec<Device> = Vec::new();
            for renewals in 1.. {
                let (devices, joined, left) = {
                    let known = shared.known();
                    let waits =
                        |known: &mut Known| !known.has_ended && known.left.is_empty() && known.joined.is_empty();
                    let (mut known, _) =
                        shared.changed.wait_timeout_while(known, wait, waits).unwrap_or_else(PoisonError::into_inner);
                    if known.has_ended {
                        return;
                    }
                    let (joined, left) = (std::mem::take(&mut known.joined), std::mem::take(&mut known.left));
                    (known.devices.clone(), joined, left)
                };
                wait = RENEWED_EVERY;
                left.iter().for_each(|device| shared.free(device));
                let is = |one: &Device, other: &Device| one.identity() == other.identity();
                others.extend(joined);
                others.retain(|other| {
                    let _writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
                    let is_member = devices.iter().flatten().any(|device| is(device, other));
                    is_member && (shared.known().has_ended || shared.take(other).is_err())
                });
                let rests = drives.rests.load(Ordering::Acquire);
                let holder = Holder { renewals, ..shared.holder.clone() };
                let awake = devices.iter().enumerate().filter(|(index, _)| rests >> index & 1 == 0);
                let members = awake.filter_map(|(_, device)| device.as_ref());
                for device in members.filter(|device| !others.iter().any(|other| is(device, other))) {
                    if let Err(by) = shared.is_ours(device) {
                        return taken(format!("{}: device '{}' was taken by {by}", device.path.display(), device.name));
                    }
                    let _writing = shared.writing.lock().unwrap_or_else(PoisonError::into_inner);
                    if shared.known().has_ended {
                        return;
                    }
                    if let Err(error) = write(device, Some(&holder)) {
                        tracing::debug!(device = device.name, %error, "that this server has the device is not renewed");
                    }
                }
            }
        };
        thread::Builder::new().name("holder".to_owned()).spawn(renew).map(drop)
    }

    /// The device of this number was replaced by another one, or by none.
    pub(crate) fn changed(&self, index: usize, device: Option<&Device>) {
        let mut known = self.0.known();
        let before = std::mem::replace(&mut known.devices[index], device.cloned());
        let is_other = |one: &Device| device.is_none_or(|now| now.identity() != one.identity());
        known.joined.extend(device.cloned());
        known.left.extend(before.filter(is_other));
        self.0.changed.notify_all();
    }

    /// The volume was closed in good order, and no server has it.
    pub(crate) fn release(&self) {
        self.0.known().has_ended = true;
        let _writing = self.0.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.0.known();
        known.devices.iter().flatten().chain(&known.left).for_each(|device| self.0.free(device));
        self.0.changed.notify_all();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.known().has_ended = true;
        self.0.changed.notify_all();
        own().remove(&self.0.holder.nonce);
    }
}
