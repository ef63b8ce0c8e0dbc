//! What is done with a volume that is closed for a moment, on a thread of its own: it is closed in good order, its devices change as they
//! would while it is not served, and it is opened again. It may take as long as starting a server, and wait for devices.

use std::{path::PathBuf, sync::Arc, thread, time::Duration};

use peryton_engine::{DeviceId, Engine, OpenError, Opened};
use peryton_units::Nanos;

use super::{Handle, changing_state::Shared};
use crate::{
    clock::unix_s,
    design_file::DesignFile,
    notify::Notifier,
    open::Device,
    shared_memory::{Handoff, NoMemory, SharedMemory},
    storage::Files,
};

/// The pause between two attempts to open the volume again.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// What is to be done.
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
    /// The devices as they are to be.
    pub(super) devices: Vec<Option<Device>>,
    /// The path to set in the design if all goes well, and for which device.
    pub(super) design: Option<(Result<DesignFile, String>, String, PathBuf)>,
    pub(super) handoff: Handoff,
    pub(super) notifier: Notifier,
    pub(super) now: Nanos,
    pub(super) shared: Arc<Shared>,
}

/// What comes back.
pub(super) struct Back {
    pub(super) engine: Engine,
    pub(super) memory: Result<SharedMemory, NoMemory>,
    pub(super) devices: Vec<Option<Device>>,
    /// How the volume was opened, or why it is not open.
    pub(super) opened: Result<Opened, String>,
    /// Why the change was not made although the volume is open.
    pub(super) refused: Option<String>,
    /// Extents that are part of the volume again.
    pub(super) restored: u64,
    /// What came of setting the path in the design.
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

impl Job {
    fn carry_out(mut self) -> Back {
        self.engine.tell_time(self.now, unix_s());
        let (mut refused, mut restored) = (None, 0);
        let opened = match self.work {
            Work::Reopen => self.reopen(),
            Work::Resize => self.again(|job| job.resize()),
            Work::Return | Work::Fill | Work::Leave => {
                refused = self.close_and_change(&mut restored).err();
                let opened = self.again(|job| job.open(job.work == Work::Leave && refused.is_none()));
                match opened {
                    Ok((opened, why)) => {
                        refused = refused.or(why);
                        Ok(opened)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        // The memory from before is let go before its place is used again.
        let Job { mut engine, memory, devices, handoff, .. } = self;
        let memory = match &opened {
            Ok(_) => {
                drop(memory);
                handoff.begin(&mut engine, &devices)
            }
            Err(_) => memory,
        };
        let succeeded = opened.is_ok() && refused.is_none();
        let design = self.design.filter(|_| succeeded);
        let design = design.map(|(design, name, path)| design.and_then(|design| design.set(&name, &path)));
        self.notifier.goes_on();
        Back { engine, memory, devices, opened, refused, restored, design }
    }

    fn files<'a>(devices: &'a [Option<Device>], notifier: &Notifier, handoff: &Handoff) -> Result<Files<'a>, String> {
        let files = Files::handed_over(devices, handoff).map_err(|error| error.to_string())?;
        Ok(files.notifying(notifier))
    }

    /// Repeats an attempt to open the volume until it succeeds, or the server is to end.
    fn again<T>(&mut self, mut attempt: impl FnMut(&mut Job) -> Result<T, String>) -> Result<T, String> {
        loop {
            let error = match attempt(self) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if self.shared.error().is_none() {
                tracing::error!(
                    error,
                    "the volume was closed for a change and cannot be opened again yet: requests wait"
                );
            }
            self.shared.failed(&error);
            self.notifier.status(&format!("the volume cannot be opened again yet: {error}"));
            if self.shared.is_given_up() {
                return Err(error);
            }
            thread::sleep(OPEN_AGAIN);
        }
    }

    /// Closes the volume in good order and changes its devices. An error is why they stay as they were.
    fn close_and_change(&mut self, restored: &mut u64) -> Result<(), String> {
        let mut files = Files::new(&self.devices).map_err(|error| error.to_string())?.notifying(&self.notifier);
        if self.engine.close(&mut files).is_err() {
            return Err("a device has failed while the volume was closed for a moment".to_owned());
        }
        // What is kept there counts no longer.
        if let Ok(memory) = std::mem::replace(&mut self.memory, Err(NoMemory::NotNeeded)) {
            memory.remove();
        }
        match self.work {
            Work::Return => {
                let readmitted = self.engine.take_back(&mut files, self.device);
                *restored = readmitted.map_err(|error| error.to_string())?.restored;
            }
            Work::Fill => drop(self.engine.take_in(&mut files, self.device).map_err(|error| error.to_string())?),
            Work::Leave | Work::Resize | Work::Reopen => {}
        }
        Ok(())
    }

    /// Opens the volume again; `leaves`: without the device. Returns why it is with it, if it is.
    fn open(&mut self, leaves: bool) -> Result<(Opened, Option<String>), String> {
        let mut files = Job::files(&self.devices, &self.notifier, &self.handoff)?;
        if !leaves {
            let opened = self.engine.open_again(&mut files, None);
            return opened.map(|opened| (opened, None)).map_err(|error| error.to_string());
        }
        match self.engine.open_again(&mut files, Some(self.device)) {
            Ok(opened) => Ok((opened, None)),
            // Perhaps the others do not show that they have everything.
            Err(why) => {
                let opened = self.engine.open_again(&mut files, None).map_err(|error: OpenError| error.to_string())?;
                Ok((opened, Some(why.to_string())))
            }
        }
    }

    fn resize(&mut self) -> Result<Opened, String> {
        self.devices.iter().flatten().for_each(Device::drop_cached);
        let mut files = Job::files(&self.devices, &self.notifier, &self.handoff)?;
        self.engine.resize_now(&mut files).map_err(|error| error.to_string())
    }

    fn reopen(&mut self) -> Result<Opened, String> {
        self.devices.iter().flatten().for_each(Device::drop_cached);
        let files = Files::new(&self.devices).map_err(|error| error.to_string())?;
        self.engine.reopen(&mut files.notifying(&self.notifier)).map_err(|error| error.to_string())
    }
}
