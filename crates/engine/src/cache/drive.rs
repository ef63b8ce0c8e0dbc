//! A drive of a fast and a slow device with a map between them: what tiering, caching and partitioned share.

use std::collections::VecDeque;

use peryton_policy::{
    BuiltInPolicy, Gate,
    admission::Costs,
    partition::Controller,
    replacement::{Capacity, ForeseenVictims},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Cause, DeviceId},
    api::config::{self, Tuning},
    cache::access::{Fenced, Follows, Fragment, Mode, Router, ThroughWrite},
    cache::blocks::Units,
    cache::emptying::Emptying,
    cache::journal::map_journal::MapJournal,
    cache::layout::CacheLayout,
    cache::map::extent_map::ExtentMap,
    cache::movers::table::{InRun, Move},
    cache::ready::ReadyQueue,
    cache::reshape::Reshape,
    cache::rollback::Held,
    cache::routes::readahead::Readahead,
    cache::routes::sync_writer::SyncWriter,
    cache::step::CacheIo,
    cache::streams::Streams,
    cache::tuner::Tuner,
    cache::warm::state::Warm,
    cache::writeback::urgency::Cleaner,
    io::RequestIndex,
    io::slab::Slab,
};

pub(in crate::cache) fn new_policy(layout: &CacheLayout, tuning: &Tuning) -> BuiltInPolicy {
    BuiltInPolicy::new(tuning.replacement, Capacity { slots: layout.fast_slots, size: u64::from(layout.fast_usable) })
}

pub(in crate::cache) fn new_gate(layout: &CacheLayout, tuning: &Tuning) -> Gate {
    Gate::new(&tuning.admission, layout.fast_usable, Bytes(layout.extent_bytes))
}

/// A tiering, caching or partitioned drive.
#[derive(Debug)]
pub(crate) struct CacheDrive {
    pub(in crate::cache) mode: Mode,
    pub(in crate::cache) router: Router,
    pub(in crate::cache) gone: Fenced,
    pub(in crate::cache) layout: CacheLayout,
    pub(in crate::cache) map: ExtentMap,
    pub(in crate::cache) policy: BuiltInPolicy,
    pub(in crate::cache) gate: Gate,
    pub(in crate::cache) moves: Slab<Move>,
    pub(in crate::cache) waiter_lists: Vec<Vec<Fragment>>,
    /// Moves whose buffers hold acknowledged writes that no device has yet.
    pub(in crate::cache) volatile: Vec<u32>,
    /// Copying moves in flight (MCML bounds these), and how many of them move data off the fast device.
    pub(in crate::cache) copying: u32,
    pub(in crate::cache) demoting: u32,
    /// Move buffers that are free.
    pub(in crate::cache) buffers: Vec<u32>,
    pub(in crate::cache) buffer_count: u32,
    /// Whether extents are being moved off the fast device, from when fewer than LT are free until HT are.
    pub(in crate::cache) making_room: bool,
    /// Whether dirty extents may leave the fast device because the host is idle (partitioned).
    pub(in crate::cache) tidying: bool,
    /// After a device failure, no extent leaves the fast device before this time.
    pub(in crate::cache) room_pauses_until: Nanos,
    /// Number of places that a device is discarding before they become free.
    pub(in crate::cache) discarding: u32,
    /// Allocations that wait for a free place.
    pub(in crate::cache) allocation_waiters: Vec<u32>,
    /// The prefetched extents that the policy is likely to name next.
    pub(in crate::cache) foreseen: ForeseenVictims,
    /// How many victims are taken as the policy names them, dirty or not, because the last search for a clean one found none.
    pub(in crate::cache) victims_as_they_come: u32,
    /// Sequential streams among the misses (caching), and misses while the fast device was congested.
    pub(in crate::cache) streams: Streams,
    pub(in crate::cache) congested_misses: u64,
    /// When dirty extents are written back, and how many of them are being written.
    pub(in crate::cache) cleaner: Cleaner,
    pub(in crate::cache) writing_back: u32,
    /// The most extents that may be dirty, and from how many on the drive hurries to clean.
    pub(in crate::cache) most_dirty: u32,
    pub(in crate::cache) crowded_from: u32,
    /// The most extents of which a part is dirty.
    pub(in crate::cache) most_dirty_in_part: u32,
    /// The units in which the slow device maps its data.
    pub(in crate::cache) units: Units,
    /// Writes in flight of blocks that their extents did not have.
    pub(in crate::cache) allocating_writes: u32,
    pub(in crate::cache) through: Slab<ThroughWrite>,
    pub(in crate::cache) through_in_flight: Vec<u32>,
    /// The work that follows host commands in flight, besides their answers. The host's queue depth bounds it.
    pub(in crate::cache) follows: Follows,
    pub(in crate::cache) journal: MapJournal,
    /// The rule that decides where writes go (partitioned).
    pub(in crate::cache) controller: Option<Controller>,
    /// Whether reads that miss bring in the rest of their extents.
    pub(in crate::cache) readahead: Readahead,
    /// Whether the host flushes after every few writes.
    pub(in crate::cache) sync_writer: SyncWriter,
    /// Blocks to be copied to the fast device because they are read often (partitioned).
    pub(in crate::cache) candidates: VecDeque<(u32, u16)>,
    /// Host flushes that wait for moves whose writes were acknowledged from RAM, each with the sequence number of the
    /// last move that it waits for.
    pub(in crate::cache) flushes: Vec<(RequestIndex, u64)>,
    /// Number of moves started so far; a flush waits for the moves up to the current number.
    pub(in crate::cache) sequence: u64,
    /// A flush has failed: everything is held until the map is rolled back.
    pub(in crate::cache) held: Option<Box<Held>>,
    /// For each device, its stamp ([`Io::stamp`](crate::io::Io::stamp)) when a write to both last ended.
    pub(in crate::cache) wrote_both: Option<[u64; 2]>,
    /// Accesses, moves and flushes that may go on, because their wait is over.
    pub(in crate::cache) ready: ReadyQueue,
    /// Moves settings while the drive runs, where the tuning asks for it.
    pub(in crate::cache) tuner: Option<Box<Tuner>>,
    /// Snapshots of the policies' state.
    pub(in crate::cache) warm: Warm,
    /// The slots that are being emptied, because the fast device becomes smaller.
    pub(in crate::cache) emptying: Option<Emptying>,
    /// The layout from which the next recovery takes the map, if a device was resized.
    pub(crate) reshape: Option<Reshape>,
    /// The placement as the configuration has it.
    pub(in crate::cache) placement: config::Placement,
}

impl CacheDrive {
    pub(crate) fn new(placement: &config::Placement, layout: CacheLayout, tuning: &Tuning) -> CacheDrive {
        let partitioned = matches!(placement, config::Placement::Partitioned(_));
        let mode = if matches!(placement, config::Placement::Tiering(_)) { Mode::Tiering } else { Mode::Caching };
        let router = match mode {
            Mode::Tiering => Router::Tiering,
            Mode::Caching if partitioned => Router::Partitioned,
            Mode::Caching => Router::Caching,
        };
        CacheDrive {
            mode,
            router,
            gone: Fenced::default(),
            layout,
            map: ExtentMap::new(layout, mode == Mode::Caching),
            policy: new_policy(&layout, tuning),
            gate: new_gate(&layout, tuning),
            moves: Slab::new(),
            waiter_lists: Vec::new(),
            volatile: Vec::new(),
            copying: 0,
            demoting: 0,
            buffers: Vec::new(),
            buffer_count: 0,
            making_room: false,
            tidying: false,
            room_pauses_until: Nanos::ZERO,
            discarding: 0,
            allocation_waiters: Vec::new(),
            foreseen: ForeseenVictims::default(),
            victims_as_they_come: 0,
            streams: Streams::new(),
            congested_misses: 0,
            cleaner: Cleaner::new(),
            writing_back: 0,
            most_dirty: u32::MAX,
            crowded_from: u32::MAX,
            most_dirty_in_part: u32::MAX,
            units: Units::default(),
            allocating_writes: 0,
            through: Slab::new(),
            through_in_flight: Vec::new(),
            follows: Follows::new(),
            journal: MapJournal::new(
                layout.metadata,
                [layout.fast, layout.slow],
                (layout.extents, mode == Mode::Caching),
            ),
            controller: partitioned.then(|| Controller::new(&tuning.partition)),
            readahead: Readahead::default(),
            sync_writer: SyncWriter::new(),
            candidates: VecDeque::new(),
            flushes: Vec::new(),
            sequence: 0,
            held: None,
            wrote_both: None,
            ready: ReadyQueue::default(),
            tuner: Tuner::new(placement, tuning),
            warm: Warm::default(),
            emptying: None,
            reshape: None,
            placement: placement.clone(),
        }
    }

    pub(in crate::cache) fn take_buffer(&mut self) -> u32 {
        self.buffers.pop().unwrap_or_else(|| {
            self.buffer_count += 1;
            self.buffer_count - 1
        })
    }

    /// The inputs of admission: the devices' recent latencies, and their remaining write budgets.
    pub(in crate::cache) fn admission_costs(&self, io: &CacheIo) -> Costs {
        let ([fast_read, fast_write], [slow_read, slow_write]) =
            (io.latency(self.layout.fast), io.latency(self.layout.slow));
        let wear = |device: DeviceId| self.gate.wear(device.index(), io.stats.written_to(device));
        let served = |device: DeviceId| {
            let traffic = &io.stats.devices[device.index()];
            [traffic.reads, traffic.writes].map(|by| by[Cause::Host as usize])
        };
        let ([cache_reads, cache_writes], [storage_reads, storage_writes]) =
            (served(self.layout.fast), served(self.layout.slow));
        Costs {
            served: [cache_reads, cache_writes, storage_reads, storage_writes],
            latency: [fast_read, fast_write, slow_read, slow_write],
            wear: [wear(self.layout.fast), wear(self.layout.slow)],
            energy: [self.layout.fast, self.layout.slow]
                .map(|device| io.tuning.admission.energy.get(device.index()).copied().flatten().unwrap_or_default()),
        }
    }

    #[inline(always)]
    pub(in crate::cache) fn move_buffer(&self, index: u32) -> Buffer {
        let row = &self.moves[index];
        match row.run {
            None => Buffer::Move { index: row.buffer, offset: Bytes::ZERO },
            Some(InRun { run, place }) => Buffer::Run {
                index: self.cleaner.runs[run].buffer,
                offset: Bytes(u64::from(place) * self.layout.extent_bytes),
            },
        }
    }

    /// The devices that are not gone.
    pub(crate) fn alive(&self) -> Vec<DeviceId> {
        let of = |device, gone: bool| (!gone).then_some(device);
        [of(self.layout.fast, self.gone.fast), of(self.layout.slow, self.gone.slow)].into_iter().flatten().collect()
    }
}
