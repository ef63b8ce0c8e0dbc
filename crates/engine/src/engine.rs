//! The engine's face: checks what comes in, hands it to the placement, and keeps the clock.

use std::ops::Range;

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    admission::AdaptiveView,
    climb::{ClimbView, Climber, Counted},
    command::{Commands, DeviceId, IoId, Request, RequestId},
    config::{Config, Placement, Tuning},
    core::{Core, Purpose},
    error::{ConfigError, DeviceError, RequestError, TuningError},
    failure::Burial,
    hybrid::{Hybrid, Layout, Mode},
    ledger::Ledger,
    linear::Linear,
    logging::{self, Logging},
    metadata::layout::MetadataLayout,
    volume::Identity,
};

#[derive(Debug)]
pub(crate) enum Placed {
    Linear(Linear),
    Hybrid(Box<Hybrid>),
    Logging(Box<Logging>),
}

/// A placement before its tables are made, which take memory in proportion to the volume.
pub(crate) enum Laid {
    Linear(Linear),
    Hybrid { mode: Mode, layout: Layout, partitioned: bool },
    Logging(logging::Layout),
}

/// What a configuration makes of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The volume that the host sees.
    pub volume: Bytes,
    /// How much of each device it occupies: data, spare extents and metadata.
    pub devices: Vec<Bytes>,
    /// Where data begins on each device.
    pub data_at: Vec<Bytes>,
}

impl Config {
    /// The sizes of the drive that [`Engine::new`] would make, without making it: as quick for a large one.
    ///
    /// # Errors
    /// Those of [`Engine::new`].
    pub fn sizes(&self) -> Result<Sizes, ConfigError> {
        self.sizes_with(None)
    }

    /// The same, with the number of spare extents that the format has settled.
    pub(crate) fn sizes_with(&self, spare: Option<u32>) -> Result<Sizes, ConfigError> {
        lay_out(self, spare).map(|(_, sizes)| sizes)
    }
}

/// No device is larger (512 PiB); the sizes of as many as there can be add up.
const LARGEST_DEVICE: Bytes = Bytes(1 << 59);

pub(crate) fn lay_out(config: &Config, spare: Option<u32>) -> Result<(Laid, Sizes), ConfigError> {
    let Config { devices, placement, tuning } = config;
    tuning.check()?;
    if let Some((device, size)) = devices.iter().copied().enumerate().find(|(_, size)| *size > LARGEST_DEVICE) {
        return Err(ConfigError::TooLarge { device, size, most: LARGEST_DEVICE });
    }
    let data_at = vec![MetadataLayout::bare().data_at; devices.len()];
    let mut sizes = Sizes { volume: Bytes::ZERO, devices: devices.clone(), data_at };
    let mut hybrid = |mode: Mode, pair, partitioned| -> Result<Laid, ConfigError> {
        let layout = Layout::new(mode, pair, devices, tuning, spare)?;
        layout.check(mode, tuning)?;
        sizes.volume = layout.volume_size();
        for device in [layout.fast, layout.slow] {
            sizes.devices[device.index()] = layout.device_bytes(device);
            sizes.data_at[device.index()] = layout.metadata.data_at;
        }
        Ok(Laid::Hybrid { mode, layout, partitioned })
    };
    let laid = match placement {
        Placement::Tiering(pair) => hybrid(Mode::Tiering, *pair, false)?,
        Placement::Caching(pair) => hybrid(Mode::Caching, *pair, false)?,
        Placement::Partitioned(pair) => hybrid(Mode::Caching, *pair, true)?,
        Placement::Single { device } => lay_in_a_row(std::slice::from_ref(device), devices, &mut sizes)?,
        Placement::Linear { devices: order } => lay_in_a_row(order, devices, &mut sizes)?,
        Placement::Logging(place) => {
            let layout = logging::Layout::new(*place, devices)?;
            sizes.volume = layout.volume_size();
            let (primary, log) = layout.device_bytes();
            sizes.devices[place.primary.index()] = primary;
            sizes.devices[place.log.index()] = log;
            for device in [place.primary, place.log] {
                sizes.data_at[device.index()] = layout.data_at(device);
            }
            Laid::Logging(layout)
        }
    };
    Ok((laid, sizes))
}

fn lay_in_a_row(order: &[DeviceId], devices: &[Bytes], sizes: &mut Sizes) -> Result<Laid, ConfigError> {
    let linear = Linear::new(order, devices)?;
    sizes.volume = linear.size();
    for device in order {
        sizes.devices[device.index()] = Linear::device_bytes(devices[device.index()]);
    }
    Ok(Laid::Linear(linear))
}

/// What a climb judges by.
fn counted(ledger: &Ledger, hybrid: &Hybrid) -> Counted {
    Counted {
        written: ledger.devices[hybrid.layout.fast.index()].bytes_written.iter().sum(),
        hits: ledger.fast_hits,
        misses: ledger.fast_misses,
    }
}

/// Where part of a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// For so many bytes.
    pub len: Bytes,
    /// The device that has the newest copy; `None` where nothing was ever written, or where parts are on either device.
    pub device: Option<DeviceId>,
    /// Something was written here, or may have been.
    pub mapped: bool,
    /// Newer than its home on the slow device.
    pub dirty: bool,
    /// Its only copy was lost.
    pub lost: bool,
}

/// A hybrid drive.
#[derive(Debug)]
pub struct Engine {
    pub(crate) core: Core,
    pub(crate) placed: Placed,
    /// What the configuration asked for.
    pub(crate) placement: Placement,
    pub(crate) data_bytes: Vec<Bytes>,
    volume_size: Bytes,
    pub(crate) device_bytes: Vec<Bytes>,
    move_buffer_bytes: Bytes,
    /// Moves settings while the drive runs, where the tuning asks for it.
    climber: Option<Box<Climber>>,
    /// What the devices know of the volume; a simulated one has nothing.
    pub(crate) identity: Option<Identity>,
    pub(crate) burial: Burial,
}

impl Engine {
    /// An empty, freshly formatted drive on devices that read as zeros.
    pub fn new(config: Config) -> Result<Engine, ConfigError> {
        Engine::sized(config, None)
    }

    /// The same, with the number of spare extents that the format has settled.
    pub(crate) fn sized(config: Config, spare: Option<u32>) -> Result<Engine, ConfigError> {
        let (laid, Sizes { volume: volume_size, devices: device_bytes, .. }) = lay_out(&config, spare)?;
        let Config { devices, placement, mut tuning } = config;
        tuning.spin_down_after.resize(devices.len(), None);
        let move_buffer_bytes = match &placement {
            Placement::Single { .. } | Placement::Linear { .. } => Bytes::ZERO,
            Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) => pair.extent,
            Placement::Logging(_) => Bytes(crate::logging::BUFFER),
        };
        let placed = match laid {
            Laid::Linear(linear) => Placed::Linear(linear),
            Laid::Hybrid { mode, layout, partitioned } => {
                let make = if partitioned { Hybrid::partitioned } else { Hybrid::new };
                let mut hybrid = make(mode, layout, &tuning);
                hybrid.begins_telling(&tuning);
                Placed::Hybrid(Box::new(hybrid))
            }
            Laid::Logging(layout) => Placed::Logging(Box::new(Logging::new(layout))),
        };
        let mut core = Core::new(devices.len(), tuning);
        core.tells_answers = matches!(placement, Placement::Partitioned(_));
        let climber = Climber::new(&placement, &core.tuning);
        let mut engine = Engine {
            climber,
            core,
            placed,
            placement,
            data_bytes: devices,
            volume_size,
            device_bytes,
            move_buffer_bytes,
            identity: None,
            burial: Burial::default(),
        };
        engine.reset_ledger();
        Ok(engine)
    }

    /// The size of the volume that the host sees.
    pub fn volume_size(&self) -> Bytes {
        self.volume_size
    }

    /// How much of each device the volume occupies: data, spare extents and metadata.
    pub fn device_bytes(&self) -> &[Bytes] {
        &self.device_bytes
    }

    /// How many move buffers (each one extent long) a driver must own. Grows when `max_moves` is raised.
    pub fn move_buffers(&self) -> u32 {
        match &self.placed {
            Placed::Linear(_) => 0,
            Placed::Hybrid(hybrid) => hybrid.move_buffers(&self.core.tuning),
            Placed::Logging(logging) => logging.move_buffers(&self.core.tuning),
        }
    }

    /// How long each move buffer is: an extent, or the longest append of a log.
    pub fn move_buffer_bytes(&self) -> Bytes {
        self.move_buffer_bytes
    }

    /// A request for this offset will come soon: `near` if it is among the next few. Changes nothing but what the
    /// processor has at hand; calls with `near` are of use only after one without.
    #[inline]
    pub fn prefetch(&self, offset: Bytes, near: bool) {
        if let Placed::Hybrid(hybrid) = &self.placed {
            hybrid.prefetch(offset, near);
        }
    }

    /// A request from the host. Pushes what has to be done onto `out`.
    #[inline]
    pub fn submit(&mut self, now: Nanos, id: RequestId, request: Request, out: &mut Commands) {
        let core = &mut self.core;
        core.now = now;
        core.ledger.requests[request.op as usize] += 1;
        let in_range = request.offset.0.checked_add(request.len.0).is_some_and(|end| end <= self.volume_size.0);
        if in_range
            && let Placed::Hybrid(hybrid) = &mut self.placed
            && hybrid.serves_at_once(core, now, id, request, out)
        {
            return;
        }
        self.submit_any(now, id, request, in_range, out);
    }

    /// Whatever is not an access to one extent where it lies.
    #[inline(never)]
    fn submit_any(&mut self, now: Nanos, id: RequestId, request: Request, in_range: bool, out: &mut Commands) {
        let core = &mut self.core;
        let index = core.begin(id);
        let mut result = Ok(());
        if request.op == Op::Flush {
            if core.owes_error && !core.burying {
                core.owes_error = false;
                result = Err(RequestError::Device);
            }
            match &mut self.placed {
                Placed::Linear(linear) => linear.flush(core, index, out),
                Placed::Hybrid(hybrid) => {
                    core.add_part(index);
                    hybrid.flush(core, now, index, out);
                }
                Placed::Logging(logging) => {
                    core.add_part(index);
                    logging.flush(core, now, index, out);
                }
            }
        } else if !in_range {
            result = Err(RequestError::OutOfRange);
        } else if request.len > Bytes::ZERO {
            match &mut self.placed {
                Placed::Linear(linear) => linear.submit(core, index, request, out),
                Placed::Hybrid(hybrid) => hybrid.submit(core, now, index, request, out),
                Placed::Logging(logging) => logging.submit(core, now, index, request, out),
            }
        }
        core.part_done(index, result, out);
        self.tell_answers(now);
    }

    /// Lets the dynamic controller know what was answered.
    #[inline]
    fn tell_answers(&mut self, now: Nanos) {
        if self.core.tells_answers
            && let Placed::Hybrid(hybrid) = &mut self.placed
        {
            hybrid.partition_answered(&mut self.core, now);
        }
    }

    /// A command that the driver has carried out, or failed to.
    #[inline]
    pub fn complete(&mut self, now: Nanos, io: IoId, result: Result<(), DeviceError>, out: &mut Commands) {
        let core = &mut self.core;
        let failed = result.is_err() || core.dead != 0 && core.is_dead(core.in_flight(io).device);
        core.now = now;
        if !failed
            && let Placed::Hybrid(hybrid) = &mut self.placed
            && let Purpose::Host { request, first, count: 1 } = core.in_flight(io).purpose
            && hybrid.ends_at_once(core, now, io, request, first, out)
        {
            return;
        }
        self.complete_any(now, io, failed, out);
    }

    /// Whatever is not the end of an access that nothing waits for.
    #[inline(never)]
    fn complete_any(&mut self, now: Nanos, io: IoId, failed: bool, out: &mut Commands) {
        let core = &mut self.core;
        let command = core.finish(now, io, failed);
        if let Placed::Hybrid(hybrid) = &mut self.placed {
            hybrid.partition_served(now, &command);
        }
        match (command.purpose, &mut self.placed) {
            (Purpose::Host { request, first, count }, Placed::Hybrid(hybrid)) => {
                hybrid.host_done(core, now, &command, (request, first, count), failed, out);
            }
            (Purpose::HostPast { request, first, count }, Placed::Hybrid(hybrid)) => {
                let result = if failed { Err(RequestError::Device) } else { Ok(()) };
                for extent in first..first + count {
                    hybrid.past_done(core, now, extent, request, failed, out);
                }
                core.part_done(request, result, out);
            }
            (Purpose::HostFlush, Placed::Linear(linear)) => linear.flushed(core, command.device, failed, out),
            (Purpose::Host { request, .. }, _) => {
                let result = if failed { Err(RequestError::Device) } else { Ok(()) };
                core.part_done(request, result, out);
            }
            (Purpose::Through { write }, Placed::Hybrid(hybrid)) => {
                hybrid.through_step(core, now, write, command.device, failed, out);
            }
            (Purpose::Move { index }, Placed::Hybrid(hybrid)) => hybrid.move_step(core, now, index, failed, out),
            (Purpose::Commit, Placed::Hybrid(hybrid)) => hybrid.commit_step(core, now, failed, out),
            (Purpose::Checkpoint, Placed::Hybrid(hybrid)) => {
                hybrid.checkpoint_step(core, now, command.device, failed, out);
            }
            (Purpose::Discarded { place }, Placed::Hybrid(hybrid)) => hybrid.place_discarded(core, now, place, out),
            (Purpose::Log(step), Placed::Logging(logging)) => logging.step(core, now, step, failed, out),
            (Purpose::Probe, _) => core.answered_probe(command.device),
            (Purpose::Burial, _) => self.burial_step(failed, out),
            (purpose, _) => unreachable!("{purpose:?} on a drive of another placement"),
        }
        if failed || self.core.burying {
            self.after_failure(now, &command, failed, out);
        }
        self.tell_answers(now);
    }

    /// Timers: spin-down, write-back delay, commit interval. Cheap when nothing is due. Returns the next deadline.
    pub fn tick(&mut self, now: Nanos, out: &mut Commands) -> Option<Nanos> {
        if now < self.core.deadline() {
            return self.deadline();
        }
        self.core.now = now;
        self.core.clear_deadline();
        match &mut self.placed {
            Placed::Linear(_) => {}
            Placed::Hybrid(hybrid) => hybrid.tick(&mut self.core, now, out),
            Placed::Logging(logging) => logging.tick(&mut self.core, now, out),
        }
        if self.core.burying {
            self.bury(now, out);
        }
        self.core.tick_power(now, out);
        self.climb(now, out);
        self.deadline()
    }

    /// Whether a driver that can read what a device programs, its own moves included, should say so now
    /// ([`Engine::programmed`]), and of which device. To be asked after a tick; a device that does not say is asked again
    /// some seconds later.
    pub fn asks_what_was_programmed(&mut self, now: Nanos) -> Option<DeviceId> {
        let Placed::Hybrid(hybrid) = &mut self.placed else { return None };
        if self.climber.as_ref().is_some_and(|climber| climber.asks_what_was_programmed()) {
            return Some(hybrid.layout.fast);
        }
        match &mut hybrid.controller {
            Some(controller) => controller.asks_what_was_programmed(now),
            None => hybrid.admission_asks_what_was_programmed(&self.core, now),
        }
    }

    /// What a device has programmed so far, as it counts itself. What makes a device last (write regulation, MixedStore,
    /// section 5.4; caps of hill climbing; adaptive admission) then need not believe in the write amplification that it was
    /// told.
    pub fn programmed(&mut self, device: DeviceId, bytes: Bytes) {
        let Placed::Hybrid(hybrid) = &mut self.placed else { return };
        let written = Bytes(self.core.ledger.devices[device.index()].bytes_written.iter().sum());
        if let Some(controller) = &mut hybrid.controller {
            controller.programmed(device, bytes, written);
        }
        if let Some(climber) = self.climber.as_mut().filter(|_| device == hybrid.layout.fast) {
            climber.programmed(bytes.0);
        }
        hybrid.programmed(device, bytes, written);
    }

    /// Whether a driver that can measure what all devices have drawn should say so now ([`Engine::drew`]). To be asked after
    /// a tick; it is for caps on power.
    pub fn asks_what_was_drawn(&self) -> bool {
        self.climber.as_ref().is_some_and(|climber| climber.asks_what_was_drawn())
    }

    /// What all devices together have drawn since some time, in microjoules. Less than before means since another time.
    pub fn drew(&mut self, microjoules: u64) {
        if let Some(climber) = &mut self.climber {
            climber.drew(microjoules);
        }
    }

    fn climb(&mut self, now: Nanos, out: &mut Commands) {
        let (Some(climber), Placed::Hybrid(hybrid)) = (&mut self.climber, &mut self.placed) else { return };
        if !climber.is_due(&mut self.core, now) {
            return;
        }
        let counted = counted(&self.core.ledger, hybrid);
        let before = self.core.tuning.clone();
        if climber.tick(&mut self.core, now, counted) {
            hybrid.retuned(&mut self.core, &before, now, out);
        }
    }

    /// Where hill climbing stands; `None` where nothing climbs.
    pub fn climbing(&self) -> Option<ClimbView> {
        self.climber.as_ref().map(|climber| climber.view(&self.core.tuning))
    }

    /// The next deadline, without doing anything: never later than the true one.
    #[inline]
    pub fn deadline(&self) -> Option<Nanos> {
        let deadline = self.core.deadline();
        (deadline != Nanos::MAX).then_some(deadline)
    }

    /// Live re-tuning; everything but what the format fixed. Errors leave the engine as it was.
    pub fn retune(&mut self, now: Nanos, mut tuning: Tuning, out: &mut Commands) -> Result<(), TuningError> {
        tuning.spin_down_after.resize(self.device_bytes.len(), None);
        tuning.check()?;
        if let Placed::Hybrid(hybrid) = &self.placed {
            hybrid.check(&tuning)?;
        }
        // The climb begins anew, from what the user wants now.
        let climber = Climber::new(&self.placement, &tuning);
        let before = std::mem::replace(&mut self.climber, climber);
        if let (Some(climber), Some(before)) = (&mut self.climber, before) {
            climber.resume(&before);
        }
        let before = std::mem::replace(&mut self.core.tuning, tuning);
        self.core.now = now;
        self.core.due(now);
        if let Placed::Hybrid(hybrid) = &mut self.placed {
            hybrid.retuned(&mut self.core, &before, now, out);
        }
        Ok(())
    }

    /// The present tuning.
    pub fn tuning(&self) -> &Tuning {
        &self.core.tuning
    }

    /// Everything counted so far.
    pub fn ledger(&self) -> &Ledger {
        &self.core.ledger
    }

    /// Starts counting anew, as after a warm-up.
    pub fn reset_ledger(&mut self) {
        let before = std::mem::replace(&mut self.core.ledger, Ledger::new(self.device_bytes.len()));
        if let (Some(climber), Placed::Hybrid(hybrid)) = (&mut self.climber, &self.placed) {
            climber.books_reset(&mut self.core, counted(&before, hybrid));
        }
        if let Placed::Logging(_) = self.placed {
            self.core.ledger.logging = Some(Default::default());
        }
        if self.core.tells_answers {
            self.core.ledger.partition = Some(Default::default());
        }
    }

    /// Fills the map as a scan of the whole volume would, without I/O (GreenDM, section 3.3): tiering maps every
    /// extent, lowest addresses to the fast device first. The other placements have nothing to fill.
    pub fn fill(&mut self) {
        if let Placed::Hybrid(hybrid) = &mut self.placed {
            hybrid.fill(&self.core.tuning);
        }
    }

    /// Extents of the cache that are newer than their homes (caching, write-back).
    pub fn dirty_extents(&self) -> u32 {
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.dirty,
            _ => 0,
        }
    }

    /// Writes everything that only the fast device has home, without delay. To be called again, as completions come,
    /// until [`Engine::dirty_extents`] is zero; what the host writes meanwhile counts as well. What a log has goes to the
    /// primary.
    pub fn write_all_back(&mut self, now: Nanos, out: &mut Commands) {
        self.core.now = now;
        match &mut self.placed {
            Placed::Linear(_) => {}
            Placed::Hybrid(hybrid) => hybrid.write_all_back(&mut self.core, now, out),
            Placed::Logging(logging) => logging.write_all_home(&mut self.core, now, out),
        }
    }

    /// What [`Engine::write_all_back`] has still to do, in extents; of a log in blocks.
    pub(crate) fn away(&self) -> u64 {
        match &self.placed {
            Placed::Logging(logging) => logging.blocks_away(),
            _ => u64::from(self.dirty_extents()),
        }
    }

    /// Where the volume's byte at `offset` is, and for how many bytes from there that holds; `None` past the end.
    pub fn whereabouts(&self, offset: Bytes) -> Option<Whereabouts> {
        if offset >= self.volume_size {
            return None;
        }
        let rest = self.volume_size - offset;
        Some(match &self.placed {
            Placed::Linear(linear) => linear.whereabouts(offset),
            Placed::Hybrid(hybrid) => hybrid.whereabouts(offset),
            Placed::Logging(_) => Whereabouts { len: rest, device: None, mapped: true, dirty: false, lost: false },
        })
    }

    /// Whether nothing is in flight and nothing waits: no request, no move, no commit.
    pub fn is_idle(&self) -> bool {
        self.core.is_idle()
            && !self.core.burying
            && match &self.placed {
                Placed::Linear(_) => true,
                Placed::Hybrid(hybrid) => hybrid.is_idle(),
                Placed::Logging(logging) => logging.is_idle(),
            }
    }

    /// Panics if the engine's own books do not agree. For tests: it walks the whole map.
    pub fn check_invariants(&self) {
        match &self.placed {
            Placed::Linear(_) => {}
            Placed::Hybrid(hybrid) => hybrid.check_invariants(self.core.is_idle()),
            Placed::Logging(logging) => logging.check_invariants(self.core.is_idle()),
        }
    }

    /// Where the adaptive admission threshold stands; `None` where it is fixed or there is no admission.
    pub fn adaptive_admission(&self) -> Option<AdaptiveView> {
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.adaptive_admission(),
            _ => None,
        }
    }

    /// A hint that the host has dropped the range from its own cache, and will read it from here next time: what the log
    /// has of it migrates (Griffin, section 7). Placements without a log ignore it.
    pub fn evict(&mut self, now: Nanos, range: Range<Bytes>, out: &mut Commands) {
        if let Placed::Logging(logging) = &mut self.placed {
            logging.evict(&mut self.core, now, range, out);
        }
    }
}
