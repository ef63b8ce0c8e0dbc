//! A server of a block device must never wait for memory that the kernel could free only by writing to that device. So all its
//! memory is in RAM from the start and stays there, and what the kernel allocates on its behalf is taken without waiting for
//! writes (`PR_SET_IO_FLUSHER`).

use std::io;

use super::error::UblkError;

// `linux/prctl.h`; libc does not have them.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
const PR_GET_IO_FLUSHER: libc::c_int = 58;

/// With this the kernel never kills a process for lack of memory.
const NEVER_KILLED: &str = "-1000";

/// Locks all memory of this process, now and later, and declares that other programs' writes wait for this thread and those that
/// it starts. Asks the kernel to kill other processes when memory is short: without this one nothing that waits to be written to
/// the device could be freed. To be called before there are other threads.
///
/// # Errors
/// The process lacks the permissions, or the memory.
pub fn lock_memory() -> Result<(), UblkError> {
    // SAFETY: the calls take numbers only and change how the kernel treats this process.
    unsafe {
        if libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0 {
            return Err(UblkError::Memory { what: "prctl(PR_SET_IO_FLUSHER)", source: io::Error::last_os_error() });
        }
        if libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) != 0 {
            return Err(UblkError::Memory { what: "mlockall", source: io::Error::last_os_error() });
        }
    }
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", NEVER_KILLED) {
        tracing::warn!(%error, "/proc/self/oom_score_adj: the kernel may kill this server when memory is short");
    }
    Ok(())
}

/// Whether this thread is one that others' writes wait for, and how much memory of the process is locked, in bytes.
pub(crate) fn state() -> (bool, u64) {
    // SAFETY: the call takes numbers only and changes nothing.
    let flusher = unsafe { libc::prctl(PR_GET_IO_FLUSHER, 0, 0, 0, 0) } == 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    (flusher, locked(&status))
}

fn locked(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_memory_is_read_from_the_kernels_words() {
        assert_eq!(locked("Name:\tperyton\nVmLck:\t  131072 kB\nVmPin:\t 0 kB\n"), 128 << 20);
        assert_eq!(locked("Name:\tperyton\n"), 0);
    }
}
