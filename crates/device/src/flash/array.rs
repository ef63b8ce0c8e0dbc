use super::{
    parameters::{FlashParameters, Geometry},
    slc_cache::{Room, SlcCache},
    timeline::Timeline,
};

/// The operations that a translation layer requests of the flash. Preconditioning runs the same layer with [`Untimed`].
pub(super) trait Operations {
    /// Programs `units` of one stripe with host data; returns when it is done.
    fn program(&mut self, die: u32, units: u32) -> u64;
    /// Reads `units` of one stripe into the controller, to be written elsewhere.
    fn fetch(&mut self, die: u32, units: u32);
    /// Programs `units` of one stripe, moved data.
    fn program_moved(&mut self, die: u32, units: u32);
    /// Erases one block.
    fn erase(&mut self, die: u32);
    /// Cleaning has moved a unit to this slot.
    #[inline]
    fn moved(&mut self, _unit: u32, _slot: u32) {}
    /// Reads `units` of one stripe that the host's command waits for, from `at` on; returns when they are there.
    fn look_up(&mut self, die: u32, units: u32, at: u64) -> u64;
    /// The clock.
    fn now(&self) -> u64;
    /// When the die will have done all that is booked.
    fn free_at(&self, die: u32) -> u64;
}

/// Flash without time: only the map matters.
pub(super) struct Untimed;

impl Operations for Untimed {
    fn program(&mut self, _die: u32, _units: u32) -> u64 {
        0
    }
    fn fetch(&mut self, _die: u32, _units: u32) {}
    fn program_moved(&mut self, _die: u32, _units: u32) {}
    fn erase(&mut self, _die: u32) {}
    fn look_up(&mut self, _die: u32, _units: u32, at: u64) -> u64 {
        at
    }
    fn now(&self) -> u64 {
        0
    }
    fn free_at(&self, _die: u32) -> u64 {
        0
    }
}

/// Work that is tried: it is counted, and takes no time and no energy.
pub(super) struct Tried<'a> {
    pub array: &'a mut Array,
    pub erases: u64,
    pub programmed_units: u64,
}

impl Operations for Tried<'_> {
    fn program(&mut self, _die: u32, units: u32) -> u64 {
        self.programmed_units += u64::from(units);
        self.array.now
    }
    fn fetch(&mut self, _die: u32, _units: u32) {}
    fn program_moved(&mut self, _die: u32, units: u32) {
        self.programmed_units += u64::from(units);
    }
    fn erase(&mut self, _die: u32) {
        self.erases += 1;
    }
    fn moved(&mut self, unit: u32, slot: u32) {
        self.array.moved(unit, slot);
    }
    fn look_up(&mut self, _die: u32, _units: u32, at: u64) -> u64 {
        at
    }
    fn now(&self) -> u64 {
        self.array.now
    }
    fn free_at(&self, die: u32) -> u64 {
        self.array.free_at(die)
    }
}

/// The state of each die.
#[derive(Clone, Copy, Debug, Default)]
struct Die {
    channel: u32,
    /// When the programs, erases and moves that are booked will have ended. Reads of the host go before them.
    free: u64,
    /// When the last read of the host will have left the page register.
    read_free: u64,
    /// The last erase that was booked.
    erase: (u64, u64),
    /// The end of the moves and erases that are booked, where reads do not go before these.
    cleaned: u64,
    /// The stripe that the page register has, and since when.
    kept: Option<(u32, u64)>,
}

/// The cost of moving a number of units of a stripe.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Over the channel, ns.
    transfer: u64,
    /// Energy to sense the pages and transfer them, in joules.
    read_j: f64,
    /// Energy to transfer them and program their pages, in joules.
    program_j: f64,
    /// Units of the pages that they begin.
    whole_pages: u32,
}

/// The dies and channels: when each is free, and the energy they have used.
#[derive(Clone, Debug)]
pub(super) struct Array {
    dies: Vec<Die>,
    channels: Vec<Timeline>,
    /// Costs by the number of units.
    costs: Vec<Cost>,
    read: u64,
    program: u64,
    erase: u64,
    /// The most that a read waits when the die programs or erases.
    suspend: u64,
    suspend_erase: u64,
    /// Of a command on the channel.
    command: u64,
    at_once: bool,
    reads_first: bool,
    keeps_page: bool,
    /// The share of a whole block's erase that an erased block stands for, if erases are put together; and what has come together.
    whole_erases: Option<f64>,
    owed: f64,
    page: u64,
    unit: u64,
    codeword: u64,
    ns_per_byte: f64,
    byte_transfer_j: f64,
    read_j: f64,
    erase_j: f64,
    /// The device's clock: no later request is for an earlier time.
    pub now: u64,
    /// When the data of the current command are in the controller.
    pub ready: u64,
    /// Energy spent since it was last taken, in joules.
    pub spent_j: f64,
    /// Units programmed, moved and padding ones included.
    pub programmed_units: u64,
    /// Blocks of the geometry erased.
    pub erases: u64,
    /// Of both, those in single-level mode.
    pub slc_units: u64,
    pub slc_erases: u64,
    /// What is written in single-level mode first.
    pub slc: Option<Box<SlcCache>>,
    stripe_units: u32,
    /// The die that folds next where the host waits for it: all in turn, whichever the host's own stripes go to.
    folds: u32,
}

impl Array {
    pub fn new(p: &FlashParameters, geometry: Geometry, slc: Option<Box<SlcCache>>) -> Array {
        const CODEWORD: u64 = 4096;
        let planes = f64::from(p.planes);
        let unit_transfer = geometry.unit as f64 * 1e3 / p.channel_mb_per_s;
        let unit_transfer_j = p.transfer_uj_per_kib * 1e-6 * geometry.unit as f64 / 1024.0;
        let (read_j, program_j) = (p.read_uj * 1e-6, p.program_uj * 1e-6);
        let cost = |units: u32| {
            // Pages of one plane that hold this many units.
            let pages = (u64::from(units) * geometry.unit).div_ceil(p.page.0) as f64;
            Cost {
                transfer: (unit_transfer * f64::from(units)) as u64,
                read_j: read_j * pages + unit_transfer_j * f64::from(units),
                program_j: program_j * pages + unit_transfer_j * f64::from(units),
                whole_pages: units.next_multiple_of(geometry.page_units),
            }
        };
        Array {
            dies: (0..geometry.dies).map(|die| Die { channel: die % geometry.channels, ..Die::default() }).collect(),
            channels: vec![Timeline::default(); geometry.channels as usize],
            costs: (0..=geometry.stripe_units.next_multiple_of(geometry.page_units)).map(cost).collect(),
            read: p.read.0,
            program: p.program.0,
            erase: if p.whole_erases { p.erase.0 } else { (p.erase.0 as f64 * geometry.block_scale).round() as u64 },
            suspend: p.suspend.map_or(u64::MAX, |cost| cost.0),
            suspend_erase: p.suspend_erase.or(p.suspend).map_or(u64::MAX, |cost| cost.0),
            command: p.channel_command.0,
            at_once: p.collect_at_once,
            reads_first: p.reads_first,
            keeps_page: p.keeps_page,
            whole_erases: p.whole_erases.then_some(geometry.block_scale),
            owed: 0.0,
            page: p.page.0,
            unit: geometry.unit,
            codeword: p.page.0.min(CODEWORD),
            ns_per_byte: 1e3 / p.channel_mb_per_s,
            byte_transfer_j: p.transfer_uj_per_kib * 1e-6 / 1024.0,
            read_j,
            erase_j: p.erase_uj * 1e-6 * planes * geometry.block_scale,
            now: 0,
            ready: 0,
            spent_j: 0.0,
            programmed_units: 0,
            erases: 0,
            slc_units: 0,
            slc_erases: 0,
            slc,
            stripe_units: geometry.stripe_units,
            folds: 0,
        }
    }

    /// Reads `bytes` of one stripe for the host from `at` on; returns when they are in the controller.
    #[inline]
    pub fn read(&mut self, die: u32, stripe: u32, bytes: u64, at: u64) -> u64 {
        let kept = self.dies[die as usize].kept.filter(|(kept, _)| self.keeps_page && *kept == stripe);
        if let Some((_, since)) = kept {
            let end = self.transfer(die, bytes, at.max(since));
            let die = &mut self.dies[die as usize];
            die.read_free = die.read_free.max(end);
            return end;
        }
        let (sensed, end) = self.sense(die, bytes, at);
        self.dies[die as usize].kept = Some((stripe, sensed));
        end
    }

    /// Moves what is in the page register of a die to the controller, no earlier than `ready`; returns when it is there.
    #[inline]
    fn transfer(&mut self, die: u32, bytes: u64, ready: u64) -> u64 {
        // Pages are checked in codewords, of which parts are not transferred.
        let bytes = (bytes + self.codeword - 1) & !(self.codeword - 1);
        let transfer = (self.ns_per_byte * bytes as f64) as u64;
        self.spent_j += self.byte_transfer_j * bytes as f64;
        self.channels[self.dies[die as usize].channel as usize].reserve(self.now, ready, transfer)
    }

    /// Reads `bytes` of one stripe into the page register and from there; returns when they are in either.
    #[inline]
    fn sense(&mut self, die: u32, bytes: u64, at: u64) -> (u64, u64) {
        let state = self.dies[die as usize];
        let mut start = at.max(state.read_free).max(state.cleaned);
        if state.free > start {
            // A read that has waited for another one goes before a program that would begin when that ends.
            let waited = at < state.read_free;
            start = if self.reads_first { start + self.residual(&state, start, waited) } else { state.free };
        }
        let sensed = self.commanded(state.channel, start) + self.read;
        let end = self.transfer(die, bytes, sensed);
        let pages = (bytes + self.page - 1) >> self.page.trailing_zeros();
        self.spent_j += self.read_j * pages as f64;
        let die = &mut self.dies[die as usize];
        die.read_free = end;
        if die.free > start {
            die.free += end - start;
        }
        (sensed, end)
    }

    /// When a die has the command that is given to it at `at` or as soon after that as its channel is free.
    #[inline]
    fn commanded(&mut self, channel: u32, at: u64) -> u64 {
        if self.command == 0 { at } else { self.channels[channel as usize].reserve(self.now, at, self.command) }
    }

    /// How long a read waits for what the die is busy with, or for its suspension: reads are served before operations that have not
    /// begun.
    fn residual(&self, die: &Die, at: u64, waited: bool) -> u64 {
        if (die.erase.0..die.erase.1).contains(&at) {
            return (die.erase.1 - at).min(self.suspend_erase);
        }
        let backlog = die.free - at;
        if waited && backlog.checked_rem(self.program) == Some(0) {
            0
        } else {
            self.rest_of_program(backlog).min(self.suspend)
        }
    }

    /// The rest of the program that is under way, of a backlog of programs.
    fn rest_of_program(&self, backlog: u64) -> u64 {
        if backlog < self.program {
            return backlog;
        }
        match backlog.checked_rem(self.program) {
            Some(0) => self.program,
            Some(rest) => rest,
            None => backlog,
        }
    }

    #[inline]
    fn program_stripe(&mut self, die: u32, units: u32, ready: u64, program: u64) -> u64 {
        let units = self.costs[units as usize].whole_pages;
        let cost = self.costs[units as usize];
        let die = &mut self.dies[die as usize];
        let free = die.free.max(die.read_free);
        // The page register is double: the next stripe is transferred while this one is programmed.
        let register = free.saturating_sub(program);
        let channel = &mut self.channels[die.channel as usize];
        let loaded = channel.reserve(self.now, ready.max(register).max(self.now), self.command + cost.transfer);
        let end = loaded.max(free) + program;
        die.free = end;
        die.kept = None;
        self.programmed_units += u64::from(units);
        self.spent_j += cost.program_j;
        end
    }

    /// A stripe of the host, fast while the cache has room. Where neither it nor the other cells have any, some of it is folded
    /// first, and keeps the dies from the host.
    #[inline(never)]
    fn program_with_cache(&mut self, die: u32, units: u32) -> u64 {
        let room = |array: &Array| array.slc.as_ref().map_or(Room::Direct, |slc| slc.room(units));
        while room(self) == Room::None {
            let at = self.folds;
            self.folds = if at + 1 == self.dies.len() as u32 { 0 } else { at + 1 };
            self.fold(at);
        }
        let in_cache = room(self) == Room::Cache;
        let mut program = self.program;
        if let Some(slc) = &mut self.slc {
            slc.programmed(units, in_cache);
            program = if in_cache { slc.program } else { program };
        }
        self.slc_units += if in_cache { u64::from(units) } else { 0 };
        let ready = self.ready;
        self.program_stripe(die, units, ready, program)
    }

    /// Brings a stripe's worth of the cache to cells of the usual mode, on this die; whether there is more.
    pub fn fold(&mut self, die: u32) -> bool {
        let stripe_units = self.stripe_units;
        let Some(slc) = self.slc.as_mut().filter(|slc| slc.wants_folding()) else { return false };
        let fold = slc.fold(stripe_units);
        let more = slc.wants_folding();
        if fold.live > 0 {
            self.fetch(die, fold.live);
            self.program_moved(die, fold.live);
        }
        (0..fold.erases).for_each(|_| self.erase(die));
        self.slc_erases += u64::from(fold.erases);
        more
    }

    /// Reads do not go before the cleaning that a die does until `end`, where it is done at once.
    #[inline]
    fn cleaning_until(&mut self, die: u32, end: u64) {
        if self.at_once {
            self.dies[die as usize].cleaned = end;
        }
    }

    /// Begins background work on an idle die no earlier than `at`.
    pub fn idle_until(&mut self, die: u32, at: u64) {
        let die = &mut self.dies[die as usize];
        die.free = die.free.max(at);
    }
}

impl Operations for Array {
    #[inline]
    fn program(&mut self, die: u32, units: u32) -> u64 {
        if self.slc.is_some() {
            return self.program_with_cache(die, units);
        }
        let ready = self.ready;
        self.program_stripe(die, units, ready, self.program)
    }

    #[inline]
    fn fetch(&mut self, die: u32, units: u32) {
        let cost = self.costs[units as usize];
        let state = self.dies[die as usize];
        let sensed = self.commanded(state.channel, state.free.max(state.read_free).max(self.now)) + self.read;
        // The controller checks and corrects every page, so moved data cross the channel twice.
        let end = self.channels[state.channel as usize].reserve(self.now, sensed, cost.transfer);
        let die = &mut self.dies[die as usize];
        die.free = end;
        die.kept = None;
        self.spent_j += cost.read_j;
    }

    #[inline]
    fn program_moved(&mut self, die: u32, units: u32) {
        let ready = self.dies[die as usize].free;
        let end = self.program_stripe(die, units, ready, self.program);
        self.cleaning_until(die, end);
    }

    fn erase(&mut self, die: u32) {
        self.erases += 1;
        self.spent_j += self.erase_j;
        if let Some(share) = self.whole_erases {
            self.owed += share;
            if self.owed < 1.0 {
                return;
            }
            self.owed -= 1.0;
        }
        let state = self.dies[die as usize];
        let start = self.commanded(state.channel, state.free.max(state.read_free).max(self.now));
        let end = start + self.erase;
        self.cleaning_until(die, end);
        let die = &mut self.dies[die as usize];
        die.free = end;
        die.kept = None;
        die.erase = (start, end);
    }

    fn moved(&mut self, unit: u32, _slot: u32) {
        if let Some(slc) = &mut self.slc {
            slc.forget(unit);
        }
    }

    fn look_up(&mut self, die: u32, units: u32, at: u64) -> u64 {
        let end = self.sense(die, u64::from(units) * self.unit, at).1;
        self.dies[die as usize].kept = None;
        end
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn free_at(&self, die: u32) -> u64 {
        let die = &self.dies[die as usize];
        die.free.max(die.read_free)
    }
}
