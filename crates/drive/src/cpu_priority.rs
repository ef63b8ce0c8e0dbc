//! Real-time priority of a thread that measures: otherwise the times in which other programs have the processors would be measured as the
//! device's.

/// Lasts as long as the thread is to be preferred.
#[derive(Debug)]
pub struct CpuPriority {
    policy: libc::c_int,
    parameters: libc::sched_param,
}

impl CpuPriority {
    /// Prefers the thread that asks to all that have no real-time priority; none if the system does not permit that. Threads that it
    /// starts are not preferred. The kernel leaves a part of the time to the others.
    pub fn raise() -> Option<CpuPriority> {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut before: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: zero names this thread, and the kernel writes the structure.
        let policy = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: as above.
        if policy < 0 || unsafe { libc::sched_getparam(0, &raw mut before) } != 0 {
            return None;
        }
        let mut least = before;
        least.sched_priority = 1;
        // SAFETY: the kernel reads the structure.
        let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const least) };
        (set == 0).then_some(CpuPriority { policy, parameters: before })
    }
}

impl Drop for CpuPriority {
    fn drop(&mut self) {
        // SAFETY: the kernel reads the structure. A failure leaves the priority, which ends with the thread.
        let _ = unsafe { libc::sched_setscheduler(0, self.policy, &raw const self.parameters) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_given_back() {
        // SAFETY: zero names this thread.
        let now = || unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        let before = now();
        let Some(raised) = CpuPriority::raise() else { return eprintln!("skipped: the system does not permit it") };
        assert_eq!(now(), libc::SCHED_RR);
        drop(raised);
        assert_eq!(now(), before);
    }
}
