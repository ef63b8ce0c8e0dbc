//! Synchronous access to the devices, for formatting, opening and closing a volume.

use std::{
    io,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use peryton_engine::{DeviceError, DeviceId, Displaced, Storage, VolumeId, handoff::Found};
use peryton_units::Bytes;
use rustix::io::Errno;

use crate::{
    arena::Arena,
    disks::{is_full, may_pass},
    division::Division,
    notify::Notifier,
    open::Device,
    shared_memory::{Handoff, ProcessDeath},
};

/// The most bytes that are read or written at once.
const AT_ONCE: usize = 1 << 20;

/// Reads and writes that fail are tried again for so long in all, as long as these devices are in use here: a path that
/// fails over must not make a volume be refused, or left open. Flushes are not: a flush that failed is an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(50);
const READ: &str = "a read";

/// What failed, of which device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) device: DeviceId,
    pub(crate) is_read: bool,
    /// Whether the same may succeed later.
    pub(crate) may_pass: bool,
    /// Whether there was no space.
    pub(crate) is_full: bool,
}

/// Open devices in the order of the design; absent ones are `None`.
#[derive(Debug)]
pub(crate) struct Files<'a> {
    devices: &'a [Option<Device>],
    /// A buffer with the alignment that direct I/O requires.
    buffer: Arena,
    /// Where a killed server may have left records, and the volume for which this was asked.
    handoff: Handoff,
    asked: Option<VolumeId>,
    /// Whether records were found.
    was_left: bool,
    /// Whether the records are ignored.
    ignores_memory: bool,
    /// The rest of the patience.
    patience: Duration,
    /// What failed last.
    failed: Option<Failed>,
    /// Hears of progress.
    notifier: Notifier,
}

impl<'a> Files<'a> {
    pub(crate) fn new(devices: &'a [Option<Device>]) -> io::Result<Files<'a>> {
        Ok(Files {
            devices,
            buffer: Arena::new(AT_ONCE)?,
            patience: PATIENCE,
            failed: None,
            handoff: Handoff::none(),
            asked: None,
            was_left: false,
            ignores_memory: false,
            notifier: Notifier::default(),
        })
    }

    /// The same, with reports of progress.
    pub(crate) fn notifying(self, notifier: &Notifier) -> Files<'a> {
        Files { notifier: notifier.clone(), ..self }
    }

    /// The same, with the records of a killed server.
    pub(crate) fn with_memory(devices: &'a [Option<Device>], process_death: &ProcessDeath) -> io::Result<Files<'a>> {
        Files::handed_over(devices, &Handoff::new(process_death, &Notifier::default()))
    }

    /// The same, with records from the place that `handoff` names.
    pub(crate) fn handed_over(devices: &'a [Option<Device>], handoff: &Handoff) -> io::Result<Files<'a>> {
        Ok(Files { handoff: handoff.clone(), ..Files::new(devices)? })
    }

    /// The same, without the records of a killed server.
    pub(crate) fn ignoring_memory(self) -> Files<'a> {
        Files { ignores_memory: true, ..self }
    }

    /// Whether records of a killed server were taken over.
    pub(crate) fn was_left(&self) -> bool {
        self.was_left
    }

    /// What failed last.
    pub(crate) fn failed(&self) -> Option<Failed> {
        self.failed
    }

    /// Notes a failure.
    fn noting(&mut self, device: DeviceId, what: &str, done: io::Result<()>) -> Result<(), DeviceError> {
        done.map_err(|error| {
            if let Ok(Device { name, .. }) = at_index(self.devices, device) {
                tracing::warn!(device = name, %error, "{what} failed");
            }
            let errno = error.raw_os_error();
            let (may_pass, is_full) = (errno.is_some_and(may_pass), errno.is_some_and(is_full));
            self.failed = Some(Failed { device, is_read: what == READ, may_pass, is_full });
            DeviceError
        })
    }

    fn read_parts(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> io::Result<()> {
        let device = at_index(self.devices, device)?;
        let Some(division) = &device.division else { return self.read_at(&device.file, at, into) };
        division.map.parts(at, into.len()).try_for_each(|(place, part)| {
            let file = division.file(&place, &device.file).ok_or(Errno::NODEV)?;
            self.read_at(file, place.at, &mut into[part])
        })
    }

    fn write_parts(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> io::Result<()> {
        let device = at_index(self.devices, device)?;
        let Some(division) = &device.division else { return self.write_at(&device.file, at, from) };
        division.map.parts(at, from.len()).try_for_each(|(place, part)| {
            let file = division.file(&place, &device.file).ok_or(Errno::NODEV)?;
            self.write_at(file, place.at, &from[part])
        })
    }

    fn flush_files(&mut self, device: DeviceId) -> io::Result<()> {
        let device = at_index(self.devices, device)?;
        let home = device.division.as_ref().and_then(Division::elsewhere);
        for file in [Some(&device.file), home].into_iter().flatten() {
            rustix::fs::fdatasync(file)?;
        }
        self.notifier.progress();
        Ok(())
    }

    /// Clears the records of a killed server, because the volume is closed in good order.
    pub(crate) fn forget_memory(&self) {
        if let Some(volume) = self.asked {
            self.handoff.forget(volume, self.devices);
        }
    }

    fn read_at(&mut self, file: &OwnedFd, at: Bytes, into: &mut [u8]) -> io::Result<()> {
        for (index, part) in into.chunks_mut(AT_ONCE).enumerate() {
            let at = at.0 + (index * AT_ONCE) as u64;
            // SAFETY: no other reference to the buffer exists.
            let buffer = unsafe { self.buffer.at(0).slice_mut(part.len()) };
            let mut call = || whole(part.len(), |done| rustix::io::pread(file, &mut buffer[done..], at + done as u64));
            patiently(&mut self.patience, &mut call)?;
            self.notifier.progress();
            part.copy_from_slice(buffer);
        }
        Ok(())
    }

    fn write_at(&mut self, file: &OwnedFd, at: Bytes, from: &[u8]) -> io::Result<()> {
        for (index, part) in from.chunks(AT_ONCE).enumerate() {
            let at = at.0 + (index * AT_ONCE) as u64;
            // SAFETY: no other reference to the buffer exists.
            let buffer = unsafe { self.buffer.at(0).slice_mut(part.len()) };
            buffer.copy_from_slice(part);
            let mut call = || whole(part.len(), |done| rustix::io::pwrite(file, &buffer[done..], at + done as u64));
            patiently(&mut self.patience, &mut call)?;
            self.notifier.progress();
        }
        Ok(())
    }
}

fn at_index(devices: &[Option<Device>], device: DeviceId) -> Result<&Device, Errno> {
    devices.get(device.index()).and_then(Option::as_ref).ok_or(Errno::NODEV)
}

/// Repeats what fails but may succeed later.
fn patiently(left: &mut Duration, mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        let began = Instant::now();
        match call() {
            Err(error) if error.raw_os_error().is_some_and(may_pass) && !left.is_zero() => {
                thread::sleep(PAUSE);
                *left = left.saturating_sub(began.elapsed());
            }
            other => return other,
        }
    }
}

/// Repeats a call that transfers bytes until all are transferred.
fn whole(len: usize, mut call: impl FnMut(usize) -> Result<usize, Errno>) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match call(done) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(moved) => done += moved,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Storage for Files<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        at_index(self.devices, device).ok().map(Device::room)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let done = self.read_parts(device, at, into);
        if let (Ok(()), Ok(of)) = (&done, at_index(self.devices, device)) {
            of.ability.wear.read(at.0, into.len() as u64);
        }
        self.noting(device, READ, done)
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let done = self.write_parts(device, at, from);
        if let (Ok(()), Ok(of)) = (&done, at_index(self.devices, device)) {
            of.ability.wear.wrote(at.0, from.len() as u64);
        }
        self.noting(device, "a write", done)
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        let done = self.flush_files(device);
        self.noting(device, "a flush", done)
    }

    fn displaced(&self) -> Option<Displaced> {
        let mut divisions = self.devices.iter().flatten().filter_map(|device| device.division.as_ref());
        divisions.next().map(|division| division.map)
    }

    fn left_in_memory(&mut self, volume: VolumeId, clean: bool) -> Option<Found> {
        if !clean {
            self.notifier.status("recovering the volume");
        }
        self.asked = Some(volume);
        let left = if self.ignores_memory { None } else { self.handoff.left(volume, self.devices, clean) };
        self.was_left |= left.is_some();
        left
    }

    fn has_closed(&mut self, volume: VolumeId) {
        self.handoff.forget(volume, self.devices);
    }

    fn forget_memory(&mut self, volume: VolumeId) {
        tracing::warn!("the records of the killed server are not taken over: a device has failed a flush");
        self.handoff.forget(volume, self.devices);
    }
}
