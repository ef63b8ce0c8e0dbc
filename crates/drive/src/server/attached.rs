//! The part of a change of devices that runs on the control client's thread: it opens the attached device, checks its content, asks the
//! volume's thread for the change, and waits for its end.

use std::{
    path::{Path, PathBuf},
    slice, thread,
    time::Duration,
};

use peryton_engine::{DeviceId, Overlay, Placement, ReadmitError, closed};
use peryton_units::Bytes;
use serde_json::Value;

use super::{Handle, Server, Successor, changing::no_design, changing_state::Aim, handle::ENDED};
use crate::{
    format::{Part, refuse_data},
    multi_mount,
    notify::Notifier,
    open::{Device, DevicePath, Opening, Rights, refuse_used, same_file},
    own_sizes,
    storage::Files,
};

/// The interval at which the end of a change is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// What a control client's thread needs of a device that is gone.
struct Gone {
    index: usize,
    /// The device's file, if this server still has it open.
    file: Option<Device>,
    path: PathBuf,
    others: Vec<PathBuf>,
    direct: bool,
    need: Bytes,
    is_divided: bool,
}

impl Server {
    fn gone(&mut self, name: &str) -> Result<Gone, String> {
        let index = self.index_of(name)?;
        let engine = self.volume.engine();
        if !engine.is_gone(DeviceId(index as u8)) {
            return Err(format!("'{name}' is part of the volume: there is nothing to take back"));
        }
        if let Some(why) = self.cannot_change() {
            return Err(why);
        }
        let file = self.about.devices[index].clone();
        let path = file.as_ref().map_or(&self.changing.paths[index], |file| &file.path);
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let others = self.about.devices.iter().enumerate().filter(|(other, _)| *other != index);
        Ok(Gone {
            index,
            path,
            others: others.filter_map(|(_, device)| Some(device.as_ref()?.path.clone())).collect(),
            file,
            direct: self.replacing.direct,
            need: engine.device_bytes()[index],
            is_divided: self.about.devices.iter().flatten().any(|device| device.division.is_some()),
        })
    }

    /// Closes the file of a device that is gone, so that what is attached now can be opened.
    fn let_go(&mut self, index: usize) {
        if self.volume.backend.in_flight() == 0
            && self.volume.engine().is_given_up(DeviceId(index as u8))
            && let Some(device) = self.about.devices[index].take()
        {
            self.volume.backend.set_device(DeviceId(index as u8), None);
            let _ = self.front.kernel.set_file(index, None);
            self.about.device_changed(index);
            device.unlock();
        }
    }
}

impl Handle {
    /// Takes a device back that was gone, at `path` or at its old path, and returns the result.
    ///
    /// # Errors
    /// One line: the device is part of the volume, is missing, is not the one that was given up, or has data that the volume does not know.
    pub fn readmit(&self, name: &str, path: Option<PathBuf>, update_design: bool) -> Result<Value, String> {
        self.may_change()?;
        if update_design {
            self.can_update_design(name)?;
        }
        let gone = self.ask_of_gone(name)?;
        let path = path.unwrap_or_else(|| gone.path.clone());
        let index = gone.index;
        let device = self.attached(name, &path, gone, false)?;
        let Some(says) = own_sizes::any_superblock(&device) else {
            return Err(format!(
                "{}: has no superblock of a Peryton volume: it is not the device that was '{name}', or another program has written to \
                 it; attach the right device, or let an empty one take its place (peryton replace)",
                path.display()
            ));
        };
        let id = DeviceId(index as u8);
        let (mut devices, config) =
            self.try_ask(|server| Ok((server.about.devices.clone(), server.volume.engine().config())))?;
        if matches!(config.placement, Placement::Logging(_)) {
            // What is known of its loss would not be known any more once the volume was closed.
            devices[index] = Some(device.clone());
            let mut files = Files::new(&devices).map_err(|error| error.to_string())?;
            if let Err(error @ ReadmitError::LogIsNewer { .. }) =
                closed::readmit(config, &mut Overlay::new(&mut files), id)
            {
                return self.try_ask(move |server| Err(server.about.named(&error.to_string())));
            }
        }
        let check = move |server: &mut Server| {
            let faults = server.volume.backend.faults().rules();
            if faults.iter().any(|fault| usize::from(fault.device) == index) {
                let name = &server.about.names[index];
                return Err(format!("a drill is in force for '{name}', which would fail again: end it first (heal)"));
            }
            let checked = server.volume.engine().can_take_back(&says, id);
            checked.map_err(|error| server.about.named(&error.to_string()))?;
            server.begin_to_take_in(index, Aim::Return(device), update_design)
        };
        self.try_ask(check)?;
        self.outcome()
    }

    /// Puts an empty device in the place of one that is gone.
    pub(super) fn replace_gone(&self, name: &str, new: &Successor) -> Result<Value, String> {
        let gone = self.ask_of_gone(name)?;
        let index = gone.index;
        let sizes = move |server: &mut Server| {
            let engine = server.volume.engine();
            engine.can_take_in(DeviceId(index as u8)).map_err(|error| server.about.named(&error.to_string()))
        };
        let (need, data_at, behind) = self.try_ask(sizes)?;
        let device = self.attached(name, &new.path, gone, true)?;
        refuse_data(&device, new.force).map_err(|error| error.to_string())?;
        // The change may still be refused, so the device keeps what it holds until the volume is closed (`Work::Fill`).
        let part = Part { need, data_at, behind };
        part.reserve(&device).map_err(|error| error.to_string())?;
        let update_design = new.update_design;
        let begin = move |server: &mut Server| server.begin_to_take_in(index, Aim::Fill(device), update_design);
        self.try_ask(begin)?;
        self.outcome()
    }

    /// Checks that the path of a device can be set in the design.
    pub(super) fn can_update_design(&self, name: &str) -> Result<(), String> {
        let asked = name.to_owned();
        let design = self.try_ask(move |server| server.index_of(&asked).map(|_| server.changing.design.clone()));
        let design = design?.ok_or_else(no_design)?;
        design.check(name).map_err(|error| format!("--update-design: {error}"))
    }

    /// Whether a device of this name is gone.
    pub(super) fn is_gone(&self, name: &str) -> bool {
        let name = name.to_owned();
        let is_gone = move |server: &mut Server| {
            server.index_of(&name).is_ok_and(|index| server.volume.engine().is_gone(DeviceId(index as u8)))
        };
        self.ask(is_gone).unwrap_or(false)
    }

    fn ask_of_gone(&self, name: &str) -> Result<Gone, String> {
        let asked = name.to_owned();
        let gone = self.try_ask(move |server| server.gone(&asked))?;
        if gone.is_divided {
            return Err(format!(
                "the volume was taken over with data (peryton import), and part of it may lie on '{name}': stop it, and use peryton re-add or \
                 replace with the design"
            ));
        }
        Ok(gone)
    }

    /// Opens the device at a path that takes the place of one that is gone.
    fn attached(&self, name: &str, path: &Path, gone: Gone, fresh: bool) -> Result<Device, String> {
        if path.is_relative() {
            return Err(format!("{}: give the whole path, from the root", path.display()));
        }
        if let Some(other) = gone.others.iter().find(|other| same_file(other, path)) {
            return Err(format!("{}: is another device of the volume: name the one that is '{name}'", other.display()));
        }
        let too_small = |device: &Device| {
            format!(
                "{}: has {}, and the volume uses {} of '{name}': {}",
                path.display(),
                device.size.beside(gone.need),
                gone.need.beside(device.size),
                if fresh { "give a larger one" } else { "it is not that device, or only a part of it" }
            )
        };
        let index = gone.index;
        if let Some(file) = gone.file {
            // The file may be open still: the device has failed and works again.
            if same_file(&file.path, path) && is_same(&file) && !file.is_smaller_than(file.size) && !fresh {
                return if file.size < gone.need { Err(too_small(&file)) } else { Ok(file) };
            }
            drop(file);
            self.ask(move |server| server.let_go(index)).ok_or(ENDED)?;
        }
        let device = open_unused(name, path, gone.direct)?.ok_or_else(|| match fresh {
            true => nothing_new(path),
            false => {
                format!("{}: there is nothing: attach the device, or say where it is now (--path)", path.display())
            }
        })?;
        if device.size < gone.need { Err(too_small(&device)) } else { Ok(device) }
    }

    /// Waits for the end of the change that has begun.
    fn outcome(&self) -> Result<Value, String> {
        loop {
            let ended = |server: &mut Server| match server.changing.now {
                Some(_) => None,
                None => Some(server.changing.outcome.take()),
            };
            match self.ask(ended).ok_or(ENDED)? {
                None => thread::sleep(LOOK),
                Some(Some(outcome)) => return outcome,
                Some(None) => return Err("the server has ended it: see its log".to_owned()),
            }
        }
    }

    /// Begins to empty a device, which then leaves the volume, and returns the state as in the status.
    ///
    /// # Errors
    /// One line: there is no such device, or the volume needs it.
    pub fn evacuate(&self, name: &str, bytes_per_s: Option<u64>) -> Result<Value, String> {
        self.may_change()?;
        let name = name.to_owned();
        let begin = move |server: &mut Server| server.begin_to_evacuate(&name, bytes_per_s);
        self.try_ask(begin)
    }
}

/// Opens the device at a path, if nothing uses it here or elsewhere; `None`: there is none.
pub(super) fn open_unused(name: &str, path: &Path, direct: bool) -> Result<Option<Device>, String> {
    let at = DevicePath { name: name.to_owned(), path: path.to_owned() };
    refuse_used(&at).map_err(|error| error.to_string())?;
    let device = Device::open(&at, Opening { direct, rights: Rights::Write }).map_err(|error| error.to_string())?;
    multi_mount::look(slice::from_ref(&device), &Notifier::default()).map_err(|error| error.to_string())?;
    Ok(device)
}

/// The message for a new device that is not there.
pub(super) fn nothing_new(path: &Path) -> String {
    format!("{}: there is nothing: name a block device, or make a file of the size first", path.display())
}

/// Whether the file that is open is the one at its path.
fn is_same(device: &Device) -> bool {
    let at = DevicePath { name: device.name.clone(), path: device.path.clone() };
    Device::identity_at(&at.path).is_some_and(|identity| identity == device.identity())
}
