//! Requests between the kernel, which has the volume as a block device, and the engine, on the thread that owns the volume. Commands
//! to the kernel that take long are given by another thread (`block_device_control.rs`).

use peryton_engine::{Request as HostRequest, RequestError, RequestId};
use peryton_recording::Flags;
use peryton_units::{Bytes, Nanos, Op};
use serde_json::Value;

use super::{
    Announce, BlockDevice, Server, block_device_control,
    block_device_state::{AskedToEnd, Job, Phase, Removal},
    outages::as_told,
    stop::OUTAGE_PATIENCE,
};
use crate::{
    events::What,
    kernel::SlotCommand,
    status::Asked,
    ublk::{
        Arrived, COMMIT_AND_FETCH_REQ, FETCH_REQ, Kind, Prepared, Replied, Request, Slots, UblkError, locked_memory,
    },
    volume::Data,
};

/// A server that is watched and is to end goes on serving while its device is in use: at a shutdown, file systems are unmounted at the same
/// time. It leaves the device when this has lasted for so long, or if no request has come for so long.
const UNMOUNTED_WITHIN: Nanos = Nanos::from_s(300);
const UNMOUNTS_WITHIN: Nanos = Nanos::from_s(30);

/// The negative error number with which the kernel is answered.
fn number_of(error: RequestError) -> i32 {
    match error {
        RequestError::OutOfRange => -libc::EINVAL,
        RequestError::NoSpace => -libc::ENOSPC,
        RequestError::Device | RequestError::Lost => -libc::EIO,
    }
}

impl Server {
    /// Notes the memory of the block device's requests, before memory is registered with the kernel.
    pub(crate) fn expect_block_device(&mut self, prepared: Option<&Prepared>) {
        self.block_device_memory = prepared.map(|prepared| (prepared.buffers.at(0), prepared.buffers.len()));
    }

    /// Opens the block device's queues, and lets requests come.
    pub(crate) fn attach(&mut self, prepared: Prepared, announce: Option<Announce>) -> Result<(), UblkError> {
        let limits = prepared.limits();
        let attached = prepared.open()?;
        let (info, params, recovered) = (attached.info, attached.params, attached.recovered);
        let can_grow = attached.control.updates_sizes();
        let (name, queues) = (attached.name.clone(), attached.queues);
        let slots = Slots::new(queues.count(), limits);
        // All slots wait for requests before anything else is done.
        for slot in 0..slots.count() {
            let command = SlotCommand { slot, operation: FETCH_REQ, bytes: queues.command(slot, 0) };
            self.front.kernel.block_device(queues.fd(), &command);
        }
        self.front.kernel.submit();
        let (jobs, thread) = block_device_control::spawn(attached.control, self.handle.clone())
            .map_err(UblkError::system("a thread for the block device"))?;
        let start = Job::Start { device: info.id, recovered, name: name.clone(), announce };
        jobs.send(start).expect("the thread has just begun, and waits");
        self.first_piece = slots.count();
        self.block_device = Some(BlockDevice {
            queues,
            slots,
            id: info.id,
            block: 1 << params.logical_shift,
            longest: info.longest,
            size: limits.size,
            can_grow,
            recovered,
            phase: Phase::Starting,
            asked: None,
            stop_wanted: false,
            stays: false,
            error: None,
            heard: match recovered {
                true => self.front.flush_errors.of_earlier(),
                false => self.front.flush_errors.until_now(),
            },
            memory: locked_memory(),
            name,
            jobs,
            thread,
        });
        Ok(())
    }

    fn device(&mut self) -> &mut BlockDevice {
        self.block_device.as_mut().expect("only a block device has slots, and a thread that reports about it")
    }

    /// The start of the block device has ended.
    pub(super) fn block_device_started(&mut self, result: Result<(), UblkError>) {
        let device = self.device();
        let stop = device.stop_wanted || result.is_err();
        let (path, taken_over) = (device.path(), device.recovered);
        match result {
            Ok(()) => {
                device.phase = Phase::Live;
                tracing::info!(taken_over, "{path} is live");
                self.about.events.report(What::BlockDevice { path, taken_over });
                self.grow_block_device();
            }
            Err(error) => {
                device.phase = Phase::Failed;
                device.slots.leave();
                device.error = Some(error);
            }
        }
        if stop {
            self.stop.want();
        }
    }

    /// Lets the block device follow a volume that has grown, if the kernel can change its size while it is used.
    pub(super) fn grow_block_device(&mut self) {
        let volume = self.volume.engine().volume_size();
        let Some(device) = self.block_device.as_mut().filter(|device| device.is_live() && device.can_grow) else {
            return;
        };
        let Some(size) = device.lacks(volume) else { return };
        // Requests to the new part come as soon as the kernel knows of it.
        device.slots.grow(size);
        // A failure means that the thread has panicked; then the device keeps its size.
        let _ = device.jobs.send(Job::Grow { device: device.id, size });
    }

    /// The kernel has changed the block device's size, or has refused to.
    pub(super) fn block_device_has_grown(&mut self, size: Bytes, result: Result<(), UblkError>) {
        let device = self.device();
        let path = device.path();
        match result {
            Ok(()) => {
                device.size = device.size.max(size);
                tracing::info!(%size, "{path} has grown");
            }
            Err(error) => {
                device.can_grow = false;
                tracing::warn!(%error, "{path} keeps its size until it is removed");
                self.changing.block_device_stays(path);
            }
        }
    }

    /// The next server is to take the block device over when this one stops.
    pub(super) fn leave_block_device(&mut self) {
        let Some(device) = &mut self.block_device else { return };
        device.stays = true;
    }

    /// Whether the server has to go on serving before it stops: before the block device is removed, the kernel writes its cached data to it.
    pub(super) fn must_remove_first(&mut self) -> bool {
        let Some(device) = &mut self.block_device else { return false };
        match device.phase {
            Phase::Starting => device.stop_wanted = true,
            Phase::Live if device.stays => {
                device.phase = Phase::Left;
                device.slots.leave();
                let path = device.path();
                tracing::info!("{path} stays for the next server");
                self.about.events.report(What::BlockDeviceLeft { path });
                return false;
            }
            Phase::Live => {
                let first = AskedToEnd { since: self.now, again: false, told: false };
                device.asked = Some(device.asked.map_or(first, |asked| AskedToEnd { again: true, ..asked }));
                return device.remove();
            }
            Phase::Removing => {}
            Phase::Removed | Phase::Left | Phase::Failed => return false,
        }
        true
    }

    /// Tries again to remove a block device that was in use when the server was to end.
    pub(super) fn remove_block_device_once_free(&mut self) {
        let is_watched = self.watchdog.notifier.is_there();
        let Some(device) = self.block_device.as_mut().filter(|device| device.is_live()) else { return };
        if is_watched && device.asked.is_some() {
            self.watchdog.notifier.progress();
            if !device.remove() {
                self.stop.want();
            }
        }
    }

    /// Whether the server goes on for a program that uses the block device, and may stop that.
    fn goes_on_for(&self, asked: AskedToEnd) -> bool {
        let last_used = self.front.block_device_asked.unwrap_or(asked.since).max(asked.since);
        let lasts = |since: Nanos, within| since.saturating_add(within) > self.now;
        let is_waited_for = !self.watchdog.notifier.is_there()
            || (lasts(last_used, UNMOUNTS_WITHIN) && lasts(asked.since, UNMOUNTED_WITHIN));
        !asked.again && is_waited_for
    }

    /// No program uses the block device, and it is being removed: requests in flight do not wait for a device that fails.
    pub(super) fn block_device_goes(&mut self) {
        self.volume.backend.hurry(self.now.saturating_add(OUTAGE_PATIENCE));
    }

    /// The other thread has removed the block device, or left it as it is.
    pub(super) fn block_device_removed(&mut self, removal: Removal) {
        let asked = self.device().asked;
        let goes_on = asked.filter(|asked| self.goes_on_for(*asked));
        let device = self.device();
        let path = device.path();
        match (removal, goes_on) {
            (Removal::Removed, _) => device.phase = Phase::Removed,
            (Removal::Left { why }, Some(asked)) => {
                device.phase = Phase::Live;
                device.asked = Some(AskedToEnd { told: true, ..asked });
                if !asked.told {
                    tracing::warn!(
                        "{path} is in use ({why}), so the volume goes on being served: unmount it first; or end the server again, and \
                         programs wait until peryton serve --ublk takes the device over"
                    );
                    self.watchdog.notifier.status(&format!("waiting until {path} is not in use: unmount it"));
                }
                return;
            }
            (Removal::Left { why }, None) => {
                device.phase = Phase::Left;
                device.slots.leave();
                tracing::warn!(
                    "{path} stays ({why}): its requests wait until peryton serve --ublk takes it over; peryton disconnect \
                     {path} lets them fail"
                );
                self.about.events.report(What::BlockDeviceLeft { path });
            }
        }
        self.stop.want();
    }

    /// A command that waited for a request has ended.
    #[inline]
    pub(super) fn block_device_event(&mut self, slot: u32, result: i32) {
        let now = self.now;
        let device = self.device();
        let queues = &device.queues;
        match device.slots.arrived(now, slot, result, || queues.descriptor(slot)) {
            Arrived::Submit(request) => {
                self.front.block_device_asked = Some(now);
                self.submit_from_block_device(slot, &request);
            }
            Arrived::Refuse(result) => {
                tracing::warn!(result, "a request of the kernel was refused");
                self.answer_block_device(slot, result);
            }
            Arrived::Nothing => {}
            Arrived::Fault(result) => {
                tracing::error!(slot, result, "the kernel refuses a command for {}", device.path());
            }
        }
    }

    #[inline]
    fn submit_from_block_device(&mut self, slot: u32, request: &Request) {
        let data = || Data::At(self.block_device.as_ref().expect("it has slots").queues.data(slot));
        let (op, data) = match request.kind {
            Kind::Read => (Op::Read, data()),
            Kind::Write => (Op::Write, data()),
            Kind::WriteZeroes => (Op::Write, Data::Zeros { allocate: request.keeps }),
            Kind::Discard => (Op::Discard, Data::None),
            Kind::Flush => (Op::Flush, Data::None),
        };
        let asked = HostRequest { op, offset: request.offset, len: request.len };
        self.volume.submit(self.now, RequestId(u64::from(slot)), asked, data);
    }

    /// The volume has answered the request in `slot`.
    #[inline]
    pub(super) fn block_device_replied(&mut self, slot: u32, result: Result<(), RequestError>) {
        let now = self.now;
        let device = self.block_device.as_mut().expect("it has slots");
        let result = match device.slots.flushes(slot) {
            true => self.front.flush_errors.answer(&mut device.heard, result, self.front.flush_error_causes),
            false => result,
        };
        let reads = device.slots.reads(slot);
        match device.slots.replied(now, slot, result.map_err(|error| number_of(as_told(error, reads)))) {
            Replied::Flush => {
                let flush = HostRequest { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO };
                self.volume.submit(now, RequestId(u64::from(slot)), flush, Data::None);
            }
            Replied::Answer(answer) => {
                let asked = match answer.request.kind {
                    Kind::Read => Asked::Read,
                    Kind::Write | Kind::WriteZeroes => Asked::Write,
                    Kind::Flush => Asked::Flush,
                    Kind::Discard => Asked::Discard,
                };
                let flags = Flags::DURABLE
                    .when(answer.request.fua)
                    .with(Flags::ZEROS.when(answer.request.kind == Kind::WriteZeroes))
                    .with(Flags::FAILED.when(answer.result < 0));
                self.record(asked, answer.took, answer.request.offset, answer.request.len, flags);
                self.answer_block_device(slot, answer.result);
            }
            Replied::Nothing => {}
        }
        while let Some((slot, request)) = self.device().slots.next_discard() {
            self.submit_from_block_device(slot, &request);
        }
    }

    #[inline]
    fn answer_block_device(&mut self, slot: u32, result: i32) {
        let device = self.block_device.as_ref().expect("it has slots");
        let (bytes, fd) = (device.queues.command(slot, result), device.queues.fd());
        let command = SlotCommand { slot, operation: COMMIT_AND_FETCH_REQ, bytes };
        self.front.kernel.block_device(fd, &command);
    }

    /// The state of the block device, for the status; null without one.
    pub(super) fn block_device_status(&self) -> Value {
        self.block_device.as_ref().map_or(Value::Null, BlockDevice::status)
    }
}
