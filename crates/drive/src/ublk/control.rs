//! The control device of ublk: it makes, starts, stops and removes block devices, and lets a server take one over.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::AsRawFd,
};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use peryton_units::Bytes;

use super::{
    error::UblkError,
    wire::{
        self, ADD_DEV, CMD_IOCTL_ENCODE, ControlCommand, DEL_DEV, DEL_DEV_ASYNC, DeviceInfo, END_USER_RECOVERY,
        GET_DEV_INFO, GET_FEATURES, GET_PARAMS, Params, SECTOR, SET_PARAMS, START_DEV, START_USER_RECOVERY, STOP_DEV,
        UPDATE_SIZE, UPDATES_SIZE, USER_RECOVERY, USER_RECOVERY_REISSUE,
    },
};

/// What the kernel's driver has to be able to do.
const NEEDED: u64 = USER_RECOVERY | USER_RECOVERY_REISSUE | CMD_IOCTL_ENCODE;

/// The control device. A call waits until the kernel has carried the command out.
pub(crate) struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    file: File,
    /// What the driver can do.
    features: u64,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Control")
    }
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// The kernel has no ublk, it is too old, or this process may not use it.
    pub(crate) fn open() -> Result<Control, UblkError> {
        let opened = OpenOptions::new().read(true).write(true).open(wire::CONTROL);
        let file = opened.map_err(|source| UblkError::opening(source, wire::CONTROL))?;
        // The command does not fit into an entry of 64 bytes.
        let ring = IoUring::builder().build(4).map_err(UblkError::Ring)?;
        let mut control = Control { ring, file, features: 0 };
        control.features = control.ask_features()?;
        if control.features & NEEDED != NEEDED {
            return Err(UblkError::TooOld);
        }
        Ok(control)
    }

    /// Whether the size of a device can change while it is used.
    pub(crate) fn updates_sizes(&self) -> bool {
        self.features & UPDATES_SIZE != 0
    }

    /// Gives a device that was started another size, a multiple of its blocks. The kernel reports it to those who use it.
    pub(crate) fn update_size(&mut self, device: u32, size: Bytes) -> io::Result<()> {
        self.command(UPDATE_SIZE, device, size.0 / SECTOR, None).map(drop)
    }

    fn ask_features(&mut self) -> Result<u64, UblkError> {
        let mut features = [0; 8];
        match self.command(GET_FEATURES, wire::ANY_DEVICE, 0, Some(&mut features)) {
            Ok(_) => Ok(u64::from_ne_bytes(features)),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                Err(UblkError::opening(io::ErrorKind::PermissionDenied.into(), wire::CONTROL))
            }
            // Before Linux 6.5 there was no such command.
            Err(error) => match error.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV) => Err(UblkError::TooOld),
                _ => Err(UblkError::Ring(error)),
            },
        }
    }

    /// What the kernel knows of a device; `None` if there is none with this number.
    pub(crate) fn info(&mut self, device: u32) -> io::Result<Option<DeviceInfo>> {
        let mut bytes = [0; DeviceInfo::BYTES];
        match self.command(GET_DEV_INFO, device, 0, Some(&mut bytes)) {
            Ok(_) => Ok(Some(DeviceInfo::decode(&bytes))),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The limits of a device; `None` if none were set.
    pub(crate) fn params(&mut self, device: u32) -> io::Result<Option<Params>> {
        let mut bytes = Params::blank();
        self.command(GET_PARAMS, device, 0, Some(&mut bytes))?;
        Ok(Params::decode(&bytes))
    }

    /// Makes a device; returns what the kernel made of it.
    pub(crate) fn add(&mut self, info: &DeviceInfo) -> io::Result<DeviceInfo> {
        let mut bytes = info.encode();
        self.command(ADD_DEV, info.id, 0, Some(&mut bytes))?;
        Ok(DeviceInfo::decode(&bytes))
    }

    pub(crate) fn set_params(&mut self, device: u32, params: &Params) -> io::Result<()> {
        self.command(SET_PARAMS, device, 0, Some(&mut params.encode())).map(drop)
    }

    /// Makes the block device appear. Returns when its server waits for requests in all slots and has answered those of the search
    /// for partitions.
    pub(crate) fn start(&mut self, device: u32) -> io::Result<()> {
        self.command(START_DEV, device, std::process::id().into(), None).map(drop)
    }

    /// Makes the block device vanish. Requests that wait for a server fail.
    pub(crate) fn stop(&mut self, device: u32) -> io::Result<()> {
        self.command(STOP_DEV, device, 0, None).map(drop)
    }

    /// Removes a device. Its number is free as soon as no program has it open any more.
    pub(crate) fn delete(&mut self, device: u32) -> io::Result<()> {
        match self.command(DEL_DEV_ASYNC, device, 0, None) {
            // Before Linux 6.9 the kernel can only wait for that.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => self.command(DEL_DEV, device, 0, None),
            done => done,
        }
        .map(drop)
    }

    /// Begins to take over a device whose server has gone.
    pub(crate) fn start_recovery(&mut self, device: u32) -> io::Result<()> {
        self.command(START_USER_RECOVERY, device, 0, None).map(drop)
    }

    /// Lets the requests continue that waited for this server. Returns when it waits for requests in all slots.
    pub(crate) fn end_recovery(&mut self, device: u32) -> io::Result<()> {
        self.command(END_USER_RECOVERY, device, std::process::id().into(), None).map(drop)
    }

    fn command(&mut self, operation: u32, device: u32, data: u64, memory: Option<&mut [u8]>) -> io::Result<i32> {
        let mut command = ControlCommand { device, data, ..ControlCommand::default() };
        if let Some(memory) = memory {
            command.len = memory.len() as u16;
            command.address = memory.as_mut_ptr() as u64;
        }
        let mut bytes = [0; 80];
        bytes[..ControlCommand::BYTES].copy_from_slice(&command.encode());
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, operation).cmd(bytes).build();
        // SAFETY: the memory is borrowed until the command has ended, which is waited for below.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::ResourceBusy)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // The command goes on, and still has the memory.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                    continue;
                }
                // Nothing was begun.
                Err(error) => return Err(error),
            }
            if let Some(answer) = self.ring.completion().next() {
                let result = answer.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
        }
    }
}
