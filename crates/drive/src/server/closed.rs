//! The thread that has the volume while it is closed for a change: it closes the volume in good order, changes its devices as an offline
//! verb would, and opens the volume again. This may take as long as starting a server, and wait for devices.

use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use peryton_engine::{DeviceId, Engine, Opened, Overlay, Placement, Without};
use peryton_units::Nanos;

use super::{Handle, changing_state::Shared};
use crate::{
    clock::unix_s,
    design_file::DesignFile,
    format::Part,
    notify::Notifier,
    offline::{self, OfDevices},
    open::{Device, DevicePath},
    read_only::ReadOnly,
    shared_memory::{Handoff, NoMemory, SharedMemory},
    storage::{Failed, Files},
};

/// The pause after the first attempt to open the volume again; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The task of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Take the device back.
    Return,
    /// Make the empty device part of the volume.
    Fill,
    /// Go on without the device.
    Leave,
    /// Open the volume with the new size of the device.
    Resize,
    /// Open the volume again, which has stopped.
    Reopen,
}

/// All that the thread needs.
pub(super) struct Job {
    pub(super) engine: Engine,
    pub(super) memory: Result<SharedMemory, NoMemory>,
    pub(super) work: Work,
    pub(super) device: DeviceId,
    pub(super) placement: Placement,
    /// The devices after the change.
    pub(super) devices: Vec<Option<Device>>,
    /// The path to set in the design if all goes well, and for which device.
    pub(super) design: Option<(Result<DesignFile, String>, String, PathBuf)>,
    pub(super) handoff: Handoff,
    pub(super) notifier: Notifier,
    pub(super) now: Nanos,
    pub(super) shared: Arc<Shared>,
}

/// The result of the thread.
pub(super) struct Back {
    pub(super) engine: Engine,
    pub(super) memory: Result<SharedMemory, NoMemory>,
    pub(super) devices: Vec<Option<Device>>,
    /// How the volume was opened, or why it is not open.
    pub(super) opened: Result<Opened, String>,
    /// Why the change was not made although the volume is open.
    pub(super) refused: Option<String>,
    /// Why the volume is served for reads only from now on, if it is.
    pub(super) read_only: Option<ReadOnly>,
    /// Extents that are part of the volume again.
    pub(super) restored: u64,
    /// The result of setting the path in the design.
    pub(super) design: Option<Result<PathBuf, String>>,
}

/// Begins the thread, which brings the engine back.
pub(super) fn begin(job: Job, handle: Handle) -> Result<(), (std::io::Error, Box<Job>)> {
    let slot = Arc::new(std::sync::Mutex::new(Some(job)));
    let taken = Arc::clone(&slot);
    let take = |slot: &std::sync::Mutex<Option<Job>>| {
        slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take().expect("it is taken once")
    };
    let work = move || {
        let back = take(&taken).carry_out();
        handle.send_always(Box::new(move |server| server.came_back(back)));
    };
    match thread::Builder::new().name("change".to_owned()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err((error, Box::new(take(&slot)))),
    }
}

/// How the volume goes on.
struct GoesOn {
    opened: Opened,
    /// Why the change was not made, if it was not.
    refused: Option<String>,
    read_only: Option<ReadOnly>,
}

impl From<Opened> for GoesOn {
    fn from(opened: Opened) -> GoesOn {
        GoesOn { opened, refused: None, read_only: None }
    }
}

/// Why the volume could not be opened, and what failed if that was the reason.
struct NotOpen {
    why: String,
    failed: Option<Failed>,
}

impl NotOpen {
    fn of(error: &impl OfDevices, files: &Files<'_>) -> NotOpen {
        NotOpen { why: error.to_string(), failed: files.failed().filter(|_| error.is_of_a_device()) }
    }
}

impl From<std::io::Error> for NotOpen {
    fn from(error: std::io::Error) -> NotOpen {
        NotOpen { why: error.to_string(), failed: None }
    }
}

impl Job {
    fn carry_out(mut self) -> Back {
        self.engine.tell_time(self.now, unix_s());
        let mut restored = 0;
        let goes_on = match self.work {
            Work::Reopen => self.reopen().map(GoesOn::from).map_err(|error| error.why),
            Work::Resize => self.again(|job| job.resize().map(GoesOn::from)),
            Work::Return | Work::Fill | Work::Leave => {
                let refused = self.close_and_change(&mut restored).err();
                let leaves = self.work == Work::Leave && refused.is_none();
                let goes_on = self.again(|job| job.open(leaves));
                goes_on.map(|goes_on| GoesOn { refused: refused.or(goes_on.refused), ..goes_on })
            }
        };
        // The old handoff memory is released before its file is used again. A volume that is only read keeps it for the next opening with
        // writes.
        let Job { mut engine, memory, devices, handoff, .. } = self;
        let memory = match &goes_on {
            Ok(GoesOn { read_only: None, .. }) => {
                let doubted = memory.is_ok_and(|memory| memory.is_doubted());
                handoff.begin(&mut engine, &devices, doubted)
            }
            Ok(_) | Err(_) => memory,
        };
        let (opened, refused, read_only) = match goes_on {
            Ok(GoesOn { opened, refused, read_only }) => (Ok(opened), refused, read_only),
            Err(why) => (Err(why), None, None),
        };
        let succeeded = opened.is_ok() && refused.is_none();
        let design = self.design.filter(|_| succeeded);
        let design = design.map(|(design, name, path)| design.and_then(|design| design.set(&name, &path)));
        self.notifier.goes_on();
        Back { engine, memory, devices, opened, refused, read_only, restored, design }
    }

    /// Repeats an attempt to open the volume until it succeeds, or the server is to end. Where there is no space, requests wait for some. A
    /// device that fails otherwise is waited for as it would be while the volume is served.
    fn again(&mut self, mut attempt: impl FnMut(&mut Job) -> Result<GoesOn, NotOpen>) -> Result<GoesOn, String> {
        let (began, patience) = (Instant::now(), Duration::from_nanos(self.engine.tuning().patience.0));
        let mut pause = FIRST_PAUSE;
        loop {
            let NotOpen { why, failed } = match attempt(self) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            // A failure may be a single one.
            let is_last = pause > FIRST_PAUSE;
            let is_over =
                |failed: &Failed| is_last && !failed.is_full && (!failed.may_pass || began.elapsed() >= patience);
            if let Some(failed) = failed.filter(is_over)
                && let Ok(goes_on) = self.without_change(failed)
            {
                return Ok(goes_on);
            }
            if self.shared.error().is_none() {
                tracing::error!(
                    error = why,
                    "the volume was closed for a change and cannot be opened again yet: requests wait"
                );
            }
            self.shared.failed(&why);
            self.notifier.status(&format!("the volume cannot be opened again yet: {why}"));
            if self.shared.is_given_up() {
                return Err(why);
            }
            thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// A device fails for good: the volume goes on without it if that loses nothing, or if it cannot even be read. Otherwise it is only read.
    fn without_change(&mut self, failed: Failed) -> Result<GoesOn, NotOpen> {
        let Some(Device { name, path, .. }) = &self.devices[failed.device.index()] else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        };
        let at = DevicePath { name: name.clone(), path: path.clone() };
        let before = self.engine.losses(0).bytes;
        let mut files = Files::handed_over(&self.devices, &self.handoff)?.notifying(&self.notifier);
        // An opening in memory shows what the loss of the device would lose.
        let without = Without::Failed(failed.device);
        let tried = self.engine.open_again(&mut Overlay::new(&mut files), without);
        let lost = self.engine.losses(0);
        let loses = tried.is_err() || lost.bytes > before || lost.unknown;
        if (!loses || failed.is_read)
            && let Ok(opened) = self.engine.open_again(&mut files, without)
        {
            let why = format!("device '{}' has failed meanwhile, and the volume goes on without it", at.name);
            return Ok(GoesOn { opened, refused: Some(why), read_only: None });
        }
        let opened = self.engine.open_again(&mut Overlay::new(&mut files), Without::None);
        let opened = opened.map_err(|error| NotOpen::of(&error, &files))?;
        let refused =
            Some(format!("device '{}' has failed meanwhile, and the volume is only read from now on", at.name));
        let why = offline::refuses_writes(&at, failed.device, &self.placement, failed.is_full);
        let read_only = Some(ReadOnly { device: Some((at.name, at.path)), why });
        Ok(GoesOn { opened, refused, read_only })
    }

    /// Closes the volume in good order and changes its devices. An error is why they stay as they were.
    fn close_and_change(&mut self, restored: &mut u64) -> Result<(), String> {
        let part = self.engine.can_take_in(self.device);
        let mut files = Files::new(&self.devices).map_err(|error| error.to_string())?.notifying(&self.notifier);
        if self.engine.close(&mut files).is_err() {
            return Err(self.said(&"a device has failed while the volume was closed for a moment", &files));
        }
        // The records in that memory are no longer valid.
        if let Ok(memory) = std::mem::replace(&mut self.memory, Err(NoMemory::NotNeeded)) {
            memory.remove();
        }
        match self.work {
            Work::Return => {
                let readmitted = self.engine.take_back(&mut files, self.device);
                *restored = readmitted.map_err(|error| self.said(&error, &files))?.restored;
            }
            Work::Fill => {
                let (need, data_at, behind) = part.map_err(|error| error.to_string())?;
                drop(files);
                // A block device keeps what it holds: to discard all of it may take minutes, for which requests would wait.
                if let Some(device) = self.devices[self.device.index()].as_mut().filter(|device| !device.is_block) {
                    let part = Part { need, data_at, behind };
                    part.empty(device).map_err(|error| error.to_string())?;
                }
                let mut files = Files::new(&self.devices).map_err(|error| error.to_string())?.notifying(&self.notifier);
                self.engine.take_in(&mut files, self.device).map_err(|error| self.said(&error, &files))?;
            }
            Work::Leave | Work::Resize | Work::Reopen => {}
        }
        Ok(())
    }

    /// The message of a failure: the error of a device, if one failed.
    fn said(&self, error: &impl std::fmt::Display, files: &Files<'_>) -> String {
        let device = |failed: &Failed| self.devices[failed.device.index()].as_ref();
        match files.failed().and_then(|failed| Some((failed, device(&failed)?))) {
            Some((Failed { is_read: true, .. }, Device { name, .. })) => format!("device '{name}' cannot be read"),
            Some((Failed { is_full: true, .. }, Device { name, .. })) => format!("device '{name}' has no space left"),
            Some((_, Device { name, .. })) => format!("device '{name}' refuses writes"),
            None => error.to_string(),
        }
    }

    /// Opens the volume again; `leaves`: without the device, or with it if the others do not show that they have everything.
    fn open(&mut self, leaves: bool) -> Result<GoesOn, NotOpen> {
        let mut files = Files::handed_over(&self.devices, &self.handoff)?.notifying(&self.notifier);
        let mut refused = None;
        if leaves {
            match self.engine.open_again(&mut files, Without::Leaving(self.device)) {
                Ok(opened) => return Ok(opened.into()),
                Err(why) => refused = Some(why.to_string()),
            }
        }
        let opened = self.engine.open_again(&mut files, Without::None);
        let opened = opened.map_err(|error| NotOpen::of(&error, &files))?;
        Ok(GoesOn { refused, ..opened.into() })
    }

    fn resize(&mut self) -> Result<Opened, NotOpen> {
        self.devices.iter().flatten().for_each(Device::drop_cached);
        let mut files = Files::handed_over(&self.devices, &self.handoff)?.notifying(&self.notifier);
        self.engine.resize_now(&mut files).map_err(|error| NotOpen::of(&error, &files))
    }

    fn reopen(&mut self) -> Result<Opened, NotOpen> {
        self.devices.iter().flatten().for_each(Device::drop_cached);
        let mut files = Files::new(&self.devices)?.notifying(&self.notifier);
        self.engine.open_again(&mut files, Without::None).map_err(|error| NotOpen::of(&error, &files))
    }
}
