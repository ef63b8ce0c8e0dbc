//! A thread for commands to the kernel that wait until requests of the block device are served: starting and removing it.

use std::{
    io,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    Handle, Server,
    block_device_state::{Job, Removal},
};
use crate::ublk::{Attached, Control, UblkError};

/// Begins the thread. It ends when the sender is gone, and returns the control device.
pub(super) fn spawn(mut control: Control, handle: Handle) -> io::Result<(mpsc::Sender<Job>, JoinHandle<Control>)> {
    let (jobs, received) = mpsc::channel();
    let thread = thread::Builder::new().name("block-device".to_owned()).spawn(move || {
        for job in received {
            match job {
                Job::Start { device, recovered, name, announce } => {
                    let result = Attached::start(&mut control, device, recovered, &name);
                    let well = result.is_ok();
                    handle.send(Box::new(move |server| server.block_device_started(result)));
                    if let Some(announce) = announce.filter(|_| well) {
                        (announce.0)(&format!("/dev/ublkb{device}"));
                    }
                }
                Job::Grow { device, size } => {
                    let grown = control.update_size(device, size);
                    let result = grown.map_err(UblkError::system(format!("the size of /dev/ublkb{device}")));
                    handle.send(Box::new(move |server| server.block_device_has_grown(size, result)));
                }
                Job::Remove { device } => {
                    let removal = remove(&mut control, device, &handle);
                    handle.send(Box::new(move |server| server.block_device_removed(removal)));
                }
            }
        }
        control
    })?;
    Ok((jobs, thread))
}

fn remove(control: &mut Control, device: u32, handle: &Handle) -> Removal {
    let path = format!("/dev/ublkb{device}");
    // While this is open, no file system on it can be mounted, and no mapping of it be made.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::BUSY) => return Removal::Left { why: "it is mounted, or otherwise in use".to_owned() },
        Err(error) => return Removal::Left { why: error.to_string() },
    };
    handle.send(Box::new(Server::block_device_goes));
    let stopped = control.stop(device).map_err(UblkError::system(format!("stopping {path}")));
    drop(file);
    match stopped {
        Ok(()) => Removal::Removed,
        Err(error) => Removal::Left { why: error.to_string() },
    }
}
