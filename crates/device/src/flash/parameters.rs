use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::{divisor::Divisor, slc_cache::SlcParameters};
use crate::BuildError;

/// The way from logical addresses to flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Any unit can be anywhere: a full table of mapping units, log-structured, with garbage collection.
    #[default]
    Page,
    /// As `PageMapped`, but the table is on flash and `map_cache` of it in RAM (DFTL).
    #[serde(alias = "dftl")]
    DemandCached,
    /// Every unit has a fixed place, and cleaning never copies: the lower bound on erases (Griffin, section 6.3), and
    /// the layer of media that are written in place.
    Ideal,
    /// A logical block is stored in one physical block; a unit that cannot be appended causes a merge.
    BlockMapped,
    /// Block-mapped, with a few log blocks that absorb overwrites in any order until a merge (BAST). A log belongs to one
    /// logical block.
    LogBlock,
    /// Block-mapped, with one log for a stream of overwrites on each die, and logs that all logical blocks share (FAST).
    #[serde(alias = "fast")]
    SharedLog,
}

/// The block that garbage collection chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Collection {
    /// The block with the least valid data.
    #[default]
    Greedy,
    /// The block with the greatest age × (1 − u) / 2u (Kawaguchi, Nishioka and Motoda 1995).
    CostBenefit,
    /// The block that was filled first, whatever is valid in it (called LRU by Desnoyers 2012).
    Fifo,
    /// Of `gc_choices` blocks drawn at random, the one with the least valid data (Van Houdt 2013).
    DChoices,
}

/// The die that the host's data go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The dies take turns, whatever is written.
    #[default]
    Turns,
    /// The address decides, so that what was written together may wait for one die (static allocation).
    Address,
}

/// The times at which static wear-levelling may work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LevelWear {
    /// Whenever erase counts are uneven enough.
    #[default]
    Always,
    /// Not during a burst of writes (MixedStore, section 5.5); delayed moves are made when the device is idle.
    Adaptive,
}

/// The content of the flash before the first command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precondition {
    /// Nothing, as from the factory or after a secure erase.
    #[default]
    Fresh,
    /// Every address written once, in order.
    Sequential,
    /// Overwritten at random until the write amplification is steady.
    Random,
}

/// The parts of a flash device. Rates are in MB (10⁶ bytes) per second.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FlashParameters {
    /// Channels between controller and dies.
    pub channels: u32,
    /// Dies on each channel; each works on one operation at a time.
    pub dies_per_channel: u32,
    /// Planes of a die, programmed and erased together.
    #[serde(default = "one")]
    pub planes: u32,
    /// Bytes of a page of one plane.
    pub page: Bytes,
    /// Pages of an erase block of one plane.
    pub pages_per_block: u32,
    /// Bytes that one entry of the mapping table covers; a smaller write reads the rest first. Default: 4 KiB, or the
    /// page if that is smaller.
    pub mapping_unit: Option<Bytes>,
    /// Time from the array into the page register.
    pub read: Nanos,
    /// Time from the page register into the array, averaged over the bits of a cell.
    pub program: Nanos,
    /// Time to erase one block.
    pub erase: Nanos,
    /// The time lost when a read interrupts a program or an erase. If absent, a read waits for the end of the program or erase.
    pub suspend: Option<Nanos>,
    /// The same time for an erase, if it differs: many chips can suspend an erase but not a program. Default: `suspend`.
    pub suspend_erase: Option<Nanos>,
    /// Whether reads of the host go before programs, erases and moves that have not begun. If false, a die works in the order
    /// of arrival.
    #[serde(default = "yes")]
    pub reads_first: bool,
    /// Whether a die keeps the page that it read last in its register, until it programs or erases. Another read of that page
    /// then takes only a transfer. If false, the die reads the page again for each command.
    #[serde(default)]
    pub keeps_page: bool,
    /// Transfer rate of one channel.
    pub channel_mb_per_s: f64,
    /// Time for which a command and its address use the channel before the die begins. During this time the channel must be
    /// free of other dies' transfers. Zero: commands do not use the channel.
    #[serde(default)]
    pub channel_command: Nanos,
    /// Payload rate of the host interface, reads.
    pub interface_mb_per_s: f64,
    /// Payload rate for writes, if it differs.
    pub interface_write_mb_per_s: Option<f64>,
    /// Whether reads and writes can each use the whole interface rate at the same time.
    #[serde(default)]
    pub full_duplex: bool,
    /// Time of controller and protocol for a read command. The times of several commands overlap.
    #[serde(default)]
    pub read_overhead: Nanos,
    /// Time of controller and protocol per write command.
    #[serde(default)]
    pub write_overhead: Nanos,
    /// The time between the begin of a read command and that of the next command in the controller. It limits the rate of small
    /// reads.
    #[serde(default)]
    pub read_interval: Nanos,
    /// The same time after any other command.
    #[serde(default)]
    pub write_interval: Nanos,
    /// Commands that the drive takes at a time (32 for NCQ). Further commands wait outside until one of these ends. Absent: no
    /// limit.
    pub queue_depth: Option<u32>,
    /// Whether the controller begins writes before waiting reads. If false, it begins commands in the order of their arrival.
    #[serde(default)]
    pub writes_first: bool,
    /// How far the order of service is from that of arrival. 0: first come, first served. 1: all commands that wait for the
    /// controller are equally likely to be next. Waits keep their mean, and follow a Weibull distribution of shape 1 /
    /// `out_of_order`.
    #[serde(default)]
    pub out_of_order: f64,
    /// Idle time after which the drive takes a nap: a power state that it enters and leaves by itself; absent: never.
    pub nap_after: Option<Nanos>,
    /// The time for which the drive draws `busy_w` after its last command, because its controller and link do not idle at once.
    #[serde(default)]
    pub linger: Nanos,
    /// Time from the nap to the first command; commands that arrive meanwhile wait as well.
    #[serde(default)]
    pub nap_exit: Nanos,
    /// Program-erase cycles per block.
    pub cycles: u32,
    /// Physical bytes in addition to the addressable ones, as a share of these.
    pub over_provisioning: f64,
    /// The translation layer.
    #[serde(default)]
    pub ftl: Mapping,
    /// Log blocks of a `log-block` or `shared-log` layer, as a share of the data blocks.
    #[serde(default = "log_share")]
    pub log_blocks: f64,
    /// RAM for the entries of a `demand-cached` map, 8 bytes each.
    #[serde(default = "map_cache")]
    pub map_cache: Bytes,
    /// The die that the host's data go to.
    #[serde(default)]
    pub placement: Placement,
    /// Whether garbage collection empties a whole victim at once, while reads and writes of the host wait. If false, it moves a
    /// little with each stripe of the host, and reads go first.
    #[serde(default)]
    pub collect_at_once: bool,
    /// Victim selection.
    #[serde(default)]
    pub collection: Collection,
    /// Blocks that `d_choices` draws for each victim.
    #[serde(default = "gc_choices")]
    pub gc_choices: u32,
    /// Garbage collection begins when a die has this many free blocks left.
    #[serde(default = "gc_low")]
    pub gc_low: u32,
    /// Garbage collection in idle time continues until there are this many. A part of a drive gets the difference in proportion, at least one block.
    #[serde(default = "gc_high")]
    pub gc_high: u32,
    /// Idle time after which background work begins; absent: there is no background work.
    pub background_after: Option<Nanos>,
    /// Static wear-levelling moves cold data once erase counts of a die lie further apart than this; absent: never.
    pub wear_gap: Option<u32>,
    /// The times at which static wear-levelling may work.
    #[serde(default)]
    pub level_wear: LevelWear,
    /// The factor over the mean rate above which the host's writes are a burst, for `level_wear = "adaptive"`.
    #[serde(default = "burst")]
    pub burst: f64,
    /// A part of the flash that is written in single-level mode first; absent: there is none.
    pub slc_cache: Option<SlcParameters>,
    /// RAM that acknowledges writes at once; zero: a write is completed when it is programmed.
    #[serde(default)]
    pub write_buffer: Bytes,
    /// Whether the buffer serves reads of data that are not yet programmed. If false, such reads go to the die and wait for the
    /// program.
    #[serde(default)]
    pub buffer_serves_reads: bool,
    /// Only for the model of a part of the drive, whose blocks are smaller: whether its short erases are joined to erases of a
    /// whole block's length. These are as rare as in the drive, so latencies have the same tail. If false, every smaller block
    /// has a shorter erase.
    #[serde(default)]
    pub whole_erases: bool,
    /// Whether the buffer survives a power loss; then a flush has nothing to do.
    #[serde(default)]
    pub power_loss_protection: bool,
    /// The content of the flash at the start.
    #[serde(default)]
    pub precondition: Precondition,
    /// Watts when idle.
    pub idle_w: f64,
    /// Additional watts while a command is in service, besides the operations below.
    #[serde(default)]
    pub busy_w: f64,
    /// Watts in standby (slumber, DevSleep).
    pub standby_w: f64,
    /// Time from standby to the first command.
    #[serde(default)]
    pub wake: Nanos,
    /// Microjoules to sense one page of one plane.
    #[serde(default)]
    pub read_uj: f64,
    /// Microjoules to program one page of one plane.
    #[serde(default)]
    pub program_uj: f64,
    /// Microjoules to erase one block of one plane.
    #[serde(default)]
    pub erase_uj: f64,
    /// Microjoules per KiB moved over a channel.
    #[serde(default)]
    pub transfer_uj_per_kib: f64,
}

fn yes() -> bool {
    true
}
fn one() -> u32 {
    1
}
fn log_share() -> f64 {
    0.03
}
fn map_cache() -> Bytes {
    Bytes::kib(256)
}
fn burst() -> f64 {
    2.0
}
fn gc_choices() -> u32 {
    10
}
fn gc_low() -> u32 {
    2
}
fn gc_high() -> u32 {
    4
}

/// Slots and blocks have 32-bit numbers, of which one value means "none".
const MAX_SLOTS: u64 = u32::MAX as u64 - 1;
/// The most units that are preconditioned. Filling the table takes time and memory in proportion: 2²⁸ units are 1 TiB
/// at 4 KiB and need 2.3 GiB.
const MAX_PRECONDITIONED: u64 = 1 << 28;
/// The number of blocks on a die of a slice: as many as on the whole device, up to this. More blocks make no difference
/// to garbage collection.
const SLICE_BLOCKS_PER_DIE: f64 = 256.0;
/// The least number of data blocks on a die, as long as the blocks do not become too small for realistic cleaning.
const FEWEST_BLOCKS: u64 = 16;
/// The two blocks that a die fills, one for the host and one for garbage collection, are half empty on average.
const HALF_FILLED: f64 = 1.0;
/// The least spare units on a die in the model of a part of a drive: four and a half blocks of 64 units. With less, the
/// blocks being filled and kept free would make cleaning wait in situations in which the drive would not.
const LEAST_SPARE_UNITS: f64 = 288.0;
/// Blocks beyond the data that a die needs to work: one being filled by the host, one by garbage collection, one free.
pub(super) const WORKING_BLOCKS: u64 = 3;

/// The flash of the used part of a device, counted in mapping units ("slots").
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Geometry {
    pub channels: u32,
    pub dies: u32,
    /// Bytes of a mapping unit.
    pub unit: u64,
    /// Addressable units.
    pub units: u32,
    /// Number of units in one page of one plane.
    pub page_units: u32,
    /// Number of units written by one multi-plane program.
    pub stripe_units: u32,
    /// Number of units in one block (of all planes of a die).
    pub block_units: u32,
    pub blocks_per_die: u32,
    /// Free blocks beyond `gc_low` that a die provides in idle time.
    pub blocks_ahead: u32,
    per_stripe: Divisor,
    per_block: Divisor,
    per_die: Divisor,
    /// The size of a slice's block relative to a real block.
    pub block_scale: f64,
}

impl Geometry {
    pub fn blocks(&self) -> u32 {
        self.dies * self.blocks_per_die
    }
    pub fn slots(&self) -> u32 {
        self.blocks() * self.block_units
    }
    /// The mapping unit that contains this byte.
    #[inline]
    pub fn unit_of(&self, at: u64) -> u64 {
        at >> self.unit.trailing_zeros()
    }
    #[inline]
    pub fn stripe_of(&self, slot: u32) -> u32 {
        self.per_stripe.quotient(slot)
    }
    /// Whether this slot is the first of a stripe.
    #[inline]
    pub fn begins_stripe(&self, slot: u32) -> bool {
        self.per_stripe.divides(slot)
    }
    #[inline]
    pub fn block_of(&self, slot: u32) -> u32 {
        self.per_block.quotient(slot)
    }
    /// The die of a block. Blocks are numbered die by die.
    #[inline]
    pub fn die_of_block(&self, block: u32) -> u32 {
        self.per_die.quotient(block)
    }
}

impl FlashParameters {
    /// The mapping unit in force.
    pub(super) fn unit(&self) -> u64 {
        self.mapping_unit.unwrap_or(Bytes(self.page.0.min(4096))).0
    }

    fn check(&self) -> Result<(), BuildError> {
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        for (key, value, most) in [
            ("channels", self.channels, 256),
            ("dies_per_channel", self.dies_per_channel, 256),
            ("planes", self.planes, 64),
            ("pages_per_block", self.pages_per_block, 65_536),
            ("cycles", self.cycles, u32::MAX),
            ("queue_depth", self.queue_depth.unwrap_or(1), 1 << 20),
            ("gc_choices", self.gc_choices, 1 << 20),
            ("gc_low", self.gc_low, 1 << 20),
            ("gc_high", self.gc_high, 1 << 20),
        ] {
            if value == 0 || value > most {
                return range(
                    key,
                    value.to_string(),
                    "a whole number from 1 up (256 channels and dies, 64 planes at most)",
                );
            }
        }
        if !(self.page.0.is_power_of_two() && (512..=1 << 20).contains(&self.page.0)) {
            return range("page", self.page.to_string(), "a power of two from 512B to 1MiB");
        }
        let unit = self.unit();
        if !(unit.is_power_of_two() && unit >= 512 && unit <= self.page.0 * u64::from(self.planes)) {
            return range("mapping_unit", Bytes(unit).to_string(), "a power of two from 512B to page × planes");
        }
        if self.placement == Placement::Address && unit != self.page.0 * u64::from(self.planes) {
            let found = format!("address, with a mapping unit of {}", Bytes(unit));
            return range("placement", found, "turns, or address with mapping_unit = page × planes");
        }
        for (key, rate) in [
            ("channel_mb_per_s", self.channel_mb_per_s),
            ("interface_mb_per_s", self.interface_mb_per_s),
            ("interface_write_mb_per_s", self.interface_write_mb_per_s.unwrap_or(1.0)),
        ] {
            if !(rate > 0.0 && rate <= 1e6) {
                return range(key, rate.to_string(), "MB/s above 0, at most 1000000");
            }
        }
        for (key, value) in [
            ("idle_w", self.idle_w),
            ("busy_w", self.busy_w),
            ("standby_w", self.standby_w),
            ("read_uj", self.read_uj),
            ("program_uj", self.program_uj),
            ("erase_uj", self.erase_uj),
            ("transfer_uj_per_kib", self.transfer_uj_per_kib),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return range(key, value.to_string(), "a number from 0 up");
            }
        }
        const LONGEST: u64 = 10_000_000_000;
        for (key, time) in [
            ("read", self.read),
            ("program", self.program),
            ("erase", self.erase),
            ("suspend", self.suspend.unwrap_or_default()),
            ("suspend_erase", self.suspend_erase.unwrap_or_default()),
            ("channel_command", self.channel_command),
            ("read_overhead", self.read_overhead),
            ("write_overhead", self.write_overhead),
            ("read_interval", self.read_interval),
            ("write_interval", self.write_interval),
            ("wake", self.wake),
            ("nap_exit", self.nap_exit),
            ("linger", self.linger),
        ] {
            if time.0 > LONGEST {
                return range(key, time.to_string(), "at most 10s");
            }
        }
        if !(self.over_provisioning > 0.0 && self.over_provisioning <= 16.0) {
            return range("over_provisioning", self.over_provisioning.to_string(), "above 0 (0.07 is 7 %), at most 16");
        }
        if !(self.log_blocks > 0.0 && self.log_blocks <= 1.0) {
            return range("log_blocks", self.log_blocks.to_string(), "above 0, at most 1");
        }
        if self.map_cache.0 < 8 {
            return range("map_cache", self.map_cache.to_string(), "8B or more");
        }
        if !(self.burst > 1.0 && self.burst <= 1e6) {
            return range("burst", self.burst.to_string(), "above 1 (2 is twice the mean rate), at most 1000000");
        }
        if !(0.0..=1.0).contains(&self.out_of_order) {
            return range(
                "out_of_order",
                self.out_of_order.to_string(),
                "0 (first come, first served) to 1 (any order)",
            );
        }
        if self.gc_high < self.gc_low {
            return range("gc_high", self.gc_high.to_string(), "gc_low or more");
        }
        Ok(())
    }

    /// The number of bytes modelled if `used` of the `capacity` bytes are addressed. If the model is a small part of a
    /// used drive with cleaning, its blocks also contain other data, as fragmented as its own, that is not written to.
    pub(super) fn modelled(&self, capacity: Bytes, used: Bytes) -> Bytes {
        let cleaned = matches!(self.ftl, Mapping::Page | Mapping::DemandCached);
        if !cleaned || self.precondition == Precondition::Fresh {
            return used;
        }
        let dies = u64::from(self.channels) * u64::from(self.dies_per_channel);
        let units = (LEAST_SPARE_UNITS / self.over_provisioning).ceil() as u64;
        let units = units.saturating_mul(dies);
        used.max(Bytes(units.saturating_mul(self.unit()))).min(capacity)
    }

    /// Whether a model of so much of the device can begin with flash that was in use: the map of more would take too much memory.
    pub fn can_be_preconditioned(&self, used: Bytes) -> bool {
        used.0.div_ceil(self.unit()) <= MAX_PRECONDITIONED
    }

    /// The geometry of the flash for `used` of the `capacity` bytes.
    ///
    /// A part of a device gets all dies and channels and its proportional part of the spare capacity. If it would have
    /// fewer than [`SLICE_BLOCKS_PER_DIE`] blocks on a die, they are made smaller, and with them the time and energy of
    /// an erase, so that cleaning costs the same per byte as on the whole device. The blocks that a die keeps free and
    /// is filling are added: they would be most of the spare of a small part, but are almost nothing on the whole
    /// device. Those that it makes free ahead of need in idle time are on a part as few as its share of the drive: on a die
    /// of 50 blocks, of which four are spare, two more free blocks would leave half of the spare to data that is not valid any more.
    pub(super) fn geometry(&self, capacity: Bytes, used: Bytes) -> Result<Geometry, BuildError> {
        self.check()?;
        self.slc_cache.as_ref().map_or(Ok(()), |slc| slc.check(capacity))?;
        if used == Bytes::ZERO || used > capacity {
            return Err(BuildError::Used { used, capacity });
        }
        let unit = self.unit();
        let dies = self.channels * self.dies_per_channel;
        let page_units = (self.page.0 / unit).max(1);
        let stripe_units = self.page.0 * u64::from(self.planes) / unit;
        let real_block = stripe_units * u64::from(self.pages_per_block);
        let units = used.0.div_ceil(unit);
        let too_large = |limit: u64| BuildError::TooLarge { used, limit: Bytes(limit.saturating_mul(unit)) };
        if units > MAX_SLOTS {
            return Err(too_large(MAX_SLOTS / 2));
        }
        let fills = match self.precondition {
            Precondition::Fresh => false,
            Precondition::Sequential => self.ftl != Mapping::Page,
            Precondition::Random => true,
        };
        if fills && units > MAX_PRECONDITIONED {
            return Err(too_large(MAX_PRECONDITIONED));
        }
        let dies_u64 = u64::from(dies);
        let spare = 1.0 + self.over_provisioning;
        let whole = capacity.0.div_ceil(unit) as f64 / (dies_u64 * real_block) as f64;
        // The blocks kept free and being filled are as many on a part as on the whole device. So a part gets them in
        // addition to its spare, less the share that the whole device's spare already contains.
        let kept = f64::from(self.gc_low) + HALF_FILLED;
        let blocks = |block_units: u64| {
            let data = units as f64 / (dies_u64 * block_units) as f64;
            let exact = data * spare + kept * (1.0 - data / whole).max(0.0);
            let least = units.div_ceil(dies_u64 * block_units) + WORKING_BLOCKS;
            let blocks = (exact.round() as u64).max(least);
            (blocks, (blocks as f64 - exact).abs() / data)
        };
        let fair = (units as f64 * spare / (dies_u64 as f64 * (whole * spare).ceil().min(SLICE_BLOCKS_PER_DIE))) as u64;
        // Cleaning behaves differently with very few units in a block, so blocks have a least size; very few blocks are
        // even worse.
        let few = (units / dies_u64 / FEWEST_BLOCKS).min(64) / stripe_units;
        let least = stripe_units * few.max((16 / stripe_units).max(2)).min(u64::from(self.pages_per_block));
        let first = (fair / stripe_units * stripe_units).clamp(least, real_block);
        // With few blocks, a fraction of a block is much of the spare, so the size with the best fit is chosen among
        // those about as large.
        let (block_units, (blocks_per_die, _)) = (first..=real_block.min(first + first / 4))
            .step_by(stripe_units as usize)
            .map(|size| (size, blocks(size)))
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1))
            .expect("the first is one of them");
        let per_die = dies_u64 * block_units;
        if blocks_per_die * per_die > MAX_SLOTS {
            return Err(too_large(MAX_SLOTS / 2));
        }
        let narrow = |value: u64| u32::try_from(value).expect("bounded by MAX_SLOTS");
        let part = (units as f64 / per_die as f64 / whole).min(1.0);
        let blocks_ahead = (f64::from(self.gc_high - self.gc_low) * part).ceil() as u32;
        Ok(Geometry {
            channels: self.channels,
            dies,
            unit,
            units: narrow(units),
            page_units: narrow(page_units),
            stripe_units: narrow(stripe_units),
            block_units: narrow(block_units),
            blocks_per_die: narrow(blocks_per_die),
            blocks_ahead,
            per_stripe: Divisor::new(narrow(stripe_units)),
            per_block: Divisor::new(narrow(block_units)),
            per_die: Divisor::new(narrow(blocks_per_die)),
            block_scale: block_units as f64 / real_block as f64,
        })
    }
}
