//! Why a volume cannot be served as a block device. One line each.

use std::{io, path::PathBuf};

use thiserror::Error;

/// Why a volume cannot be served as a block device of this machine.
#[derive(Debug, Error)]
pub enum UblkError {
    /// The kernel has no ublk.
    #[error(
        "{}: this kernel has no ublk, or has not loaded it: Linux has it from 6.0 on as the module ublk_drv (modprobe ublk_drv), \
         Peryton needs that of 6.5 or later", control.display()
    )]
    Absent {
        /// The control device.
        control: PathBuf,
    },
    /// This process may not use it.
    #[error("{}: no permission for ublk: run as root (CAP_SYS_ADMIN), and in a container with this device", control.display())]
    Permission {
        /// The control device.
        control: PathBuf,
    },
    /// The driver lacks what is needed.
    #[error(
        "the kernel's ublk is too old: Peryton needs that of Linux 6.5 or later, so that a device survives its server"
    )]
    TooOld,
    /// `io_uring` cannot be used.
    #[error("ublk needs io_uring: {0}")]
    Ring(io::Error),
    /// `io_uring` was switched off or is refused.
    #[error("ublk needs io_uring, which this system refuses or --no-io-uring switched off")]
    NoRing,
    /// The server's memory cannot be locked.
    #[error(
        "{what}: {source}: without it the server could wait for memory that only it can free; run as root (CAP_SYS_RESOURCE, \
         CAP_IPC_LOCK), in systemd with LimitMEMLOCK=infinity"
    )]
    Memory {
        /// The call that failed.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The size is not one of whole blocks.
    #[error("{0} is no block size of a block device: give 512 or 4096")]
    Block(u64),
    /// The settings of the queues are beyond what the kernel allows.
    #[error("{queues} queues of {depth} requests: give 1 to 64 queues, and together at most 4096 requests")]
    Queues {
        /// How many queues.
        queues: u16,
        /// How many requests in each.
        depth: u16,
    },
    /// The device that waits for this volume's server is another.
    #[error(
        "/dev/ublkb{id} waits for a server of this volume, but {what}: unmount it and remove it with peryton disconnect \
         /dev/ublkb{id} (requests that wait fail then)"
    )]
    Other {
        /// Its number.
        id: u32,
        /// How it differs.
        what: String,
    },
    /// Another server has the device.
    #[error("/dev/ublkb{id} is served by process {pid}: stop that first")]
    Served {
        /// Its number.
        id: u32,
        /// The server.
        pid: i32,
    },
    /// The last server has ended, and the kernel does not let another one take the device over.
    #[error(
        "/dev/ublkb{id}: its last server (process {pid}) has ended, but after {waited_s} s the kernel still waits for requests that it \
         had: try again; if that does not help, the kernel has lost one, and only a restart of the machine frees the device (what was \
         flushed is safe)"
    )]
    Unfinished {
        /// Its number.
        id: u32,
        /// The last server.
        pid: i32,
        /// How long this program has waited.
        waited_s: u64,
    },
    /// There is no such device.
    #[error("{0}: no block device of a Peryton volume: see peryton list")]
    Unknown(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was to be done.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

impl UblkError {
    /// Whether this machine or this process cannot use ublk at all, so that NBD is the way to serve the volume.
    pub fn is_of_the_machine(&self) -> bool {
        use UblkError::{Absent, NoRing, Permission, Ring, TooOld};
        matches!(self, Absent { .. } | Permission { .. } | TooOld | Ring(_) | NoRing)
    }

    /// The control device cannot be opened.
    pub(crate) fn opening(source: io::Error, control: &str) -> UblkError {
        let control = PathBuf::from(control);
        match source.raw_os_error() {
            // The file may be there without the driver.
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => UblkError::Absent { control },
            Some(libc::EACCES | libc::EPERM) => UblkError::Permission { control },
            _ if source.kind() == io::ErrorKind::PermissionDenied => UblkError::Permission { control },
            _ => UblkError::System { what: control.display().to_string(), source },
        }
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> UblkError {
        let what = what.into();
        move |source| UblkError::System { what, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        for (number, words) in [
            (libc::ENOENT, ["6.0", "ublk_drv"]),
            (libc::ENODEV, ["6.0", "ublk_drv"]),
            (libc::EACCES, ["permission", "CAP_SYS_ADMIN"]),
        ] {
            let said = UblkError::opening(io::Error::from_raw_os_error(number), "/dev/ublk-control").to_string();
            assert!(words.iter().all(|word| said.contains(word)) && !said.contains('\n'), "{said}");
        }
        assert!(UblkError::TooOld.to_string().contains("6.5"));
    }
}
