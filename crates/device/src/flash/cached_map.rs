use std::ops::Range;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{
    array::{Operations, Untimed},
    counts::{FtlStats, MappingStats},
    layer::TranslationLayer,
    open_stripe::Programmed,
    page_map::{Cleaning, PageMap},
    parameters::{FlashParameters, Geometry, Precondition},
    segmented_lru::SegmentedLru,
    translation_pages::TranslationPages,
};

/// Bytes of an entry on flash: the page number, at its place in the translation page.
const ENTRY_ON_FLASH: u64 = 4;
/// Bytes of an entry in RAM: logical and physical page number (DFTL, section 5.1).
const ENTRY_IN_RAM: u64 = 8;
/// A discard of less than this part of a translation page changes entries one by one.
const FEW: u32 = 8;

/// The demand-cached map (DFTL; Gupta, Kim and Urgaonkar 2009): a page-mapped layer whose table is on flash, in
/// translation pages. RAM holds the directory of these pages and the recently used entries.
///
/// * A missing entry costs the read of its translation page; other entries of the same command in that page come with
///   it, so a command reads no page twice.
/// * A changed entry that leaves the cache costs the write of its page, with all other changed entries of that page.
/// * Cleaning changes cached entries in RAM. The pages of entries that are not cached are written when the block is
///   erased, each once.
///
/// The [`PageMap`] inside decides where data goes; this layer does not change that.
#[derive(Clone, Debug)]
pub(super) struct CachedMap {
    map: PageMap,
    cache: SegmentedLru,
    pages: TranslationPages,
    units: u32,
    /// Entries of a translation page, as a power of two.
    page_shift: u32,
    page_units: u32,
    per_die: u32,
    /// Units that cleaning has moved since the last erase of each die and whose entries are not cached: unit and slot.
    moved: Vec<Vec<(u32, u32)>>,
    cleaned: Cleaned,
    /// The translation page that the present command read last, and when it was known.
    at_hand: Option<(u32, u64)>,
    counts: MappingStats,
    /// The content of the translation pages, as slots plus one; only for [`CachedMap::check`].
    #[cfg(debug_assertions)]
    on_flash: Vec<u32>,
}

/// The counts of the layer inside.
#[derive(Clone, Debug, Default)]
struct Cleaned {
    moved: Vec<(u32, u32)>,
    erased: Vec<u32>,
}

/// Passes operations on, and notes those of cleaning.
struct Noting<'a, F> {
    flash: &'a mut F,
    cleaned: &'a mut Cleaned,
}

impl<F: Operations> Operations for Noting<'_, F> {
    fn program(&mut self, die: u32, units: u32) -> u64 {
        self.flash.program(die, units)
    }
    fn fetch(&mut self, die: u32, units: u32) {
        self.flash.fetch(die, units);
    }
    fn program_moved(&mut self, die: u32, units: u32) {
        self.flash.program_moved(die, units);
    }
    fn erase(&mut self, die: u32) {
        self.cleaned.erased.push(die);
        self.flash.erase(die);
    }
    fn moved(&mut self, unit: u32, slot: u32) {
        self.cleaned.moved.push((unit, slot));
        self.flash.moved(unit, slot);
    }
    fn look_up(&mut self, die: u32, units: u32, at: u64) -> u64 {
        self.flash.look_up(die, units, at)
    }
    fn now(&self) -> u64 {
        self.flash.now()
    }
    fn free_at(&self, die: u32) -> u64 {
        self.flash.free_at(die)
    }
}

impl CachedMap {
    pub fn new(p: &FlashParameters, g: Geometry) -> CachedMap {
        let entries = (u64::from(g.page_units) * g.unit / ENTRY_ON_FLASH) as u32;
        let cached = (p.map_cache.0 / ENTRY_IN_RAM).clamp(1, u64::from(g.units)) as u32;
        CachedMap {
            map: PageMap::new(p, g),
            cache: SegmentedLru::new(g.units, cached),
            pages: TranslationPages::new(g.units.div_ceil(entries), p.over_provisioning, &g),
            units: g.units,
            page_shift: entries.trailing_zeros(),
            page_units: g.page_units,
            per_die: g.blocks_per_die * g.block_units,
            moved: vec![Vec::new(); g.dies as usize],
            cleaned: Cleaned::default(),
            at_hand: None,
            counts: MappingStats::default(),
            #[cfg(debug_assertions)]
            on_flash: vec![0; g.units as usize],
        }
    }

    /// The layer that places the data.
    pub fn map(&self) -> &PageMap {
        &self.map
    }

    pub fn map_mut(&mut self) -> &mut PageMap {
        &mut self.map
    }

    /// Completes preconditioning of the map inside: the translation pages are on flash, overwritten in random order if
    /// `random` is given, and nothing is cached.
    pub fn settle(&mut self, random: Option<&mut Pcg64Mcg>) {
        let pages = self.units.div_ceil(1 << self.page_shift);
        for page in 0..pages {
            if self.units_of(page).any(|unit| self.map.locate(unit).is_some()) {
                self.pages.write(page, &mut Untimed, &mut self.counts);
            }
            for unit in self.units_of(page) {
                self.says(unit);
            }
        }
        if let Some(random) = random {
            for _ in 0..2 * pages {
                self.pages.write(random.random_range(0..pages), &mut Untimed, &mut self.counts);
            }
        }
        self.reset_counts();
    }

    fn units_of(&self, page: u32) -> Range<u32> {
        page << self.page_shift..((page + 1) << self.page_shift).min(self.units)
    }

    /// Updates the translation page with the place of this unit.
    fn says(&mut self, unit: u32) {
        #[cfg(debug_assertions)]
        {
            self.on_flash[unit as usize] = self.map.locate(unit).map_or(0, |slot| slot + 1);
        }
        let _ = unit;
    }

    /// Looks up `units` entries from `first` on at time `at`; returns when they are known.
    /// `continues`: for the command of the last call.
    pub fn translate(&mut self, first: u32, units: u32, continues: bool, at: u64, flash: &mut impl Operations) -> u64 {
        if !continues {
            self.at_hand = None;
        }
        let (mut from, end) = (first, first + units);
        let mut known = at;
        while from < end {
            let page = from >> self.page_shift;
            let to = self.units_of(page).end.min(end);
            let hits = (from..to).filter(|&unit| self.cache.touch(unit)).count() as u32;
            self.counts.lookups += u64::from(to - from);
            self.counts.hits += u64::from(hits);
            if hits < to - from {
                let page_known = match self.at_hand {
                    Some((of, known)) if of == page => known,
                    _ => self.read_page(page, at, flash),
                };
                self.at_hand = Some((page, page_known));
                known = known.max(page_known);
                (from..to).for_each(|unit| self.bring_in(unit, flash));
            }
            from = to;
        }
        known
    }

    fn read_page(&mut self, page: u32, at: u64, flash: &mut impl Operations) -> u64 {
        // The directory knows which pages do not exist.
        if !self.pages.exists(page) {
            return at;
        }
        self.counts.reads += 1;
        flash.look_up(self.pages.die_of(page), self.page_units, at)
    }

    fn bring_in(&mut self, unit: u32, flash: &mut impl Operations) {
        if self.cache.contains(unit) {
            return;
        }
        if let Some(victim) = self.cache.victim() {
            if self.cache.is_dirty(victim) {
                self.write_back(victim >> self.page_shift, flash);
                self.counts.evictions += 1;
            }
            self.cache.remove(victim);
        }
        self.cache.insert(unit);
    }

    /// Writes a translation page with all that was changed of it in RAM.
    fn write_back(&mut self, page: u32, flash: &mut impl Operations) {
        self.pages.write(page, flash, &mut self.counts);
        let (map, units) = (&self.map, self.units_of(page));
        #[cfg(debug_assertions)]
        let on_flash = &mut self.on_flash;
        self.cache.clean(units, |unit| {
            #[cfg(debug_assertions)]
            {
                on_flash[unit as usize] = map.locate(unit).map_or(0, |slot| slot + 1);
            }
            let _ = (map, unit);
        });
    }

    /// An entry is another now.
    fn changed(&mut self, unit: u32, flash: &mut impl Operations) {
        self.bring_in(unit, flash);
        self.cache.set_dirty(unit);
    }

    /// Writes a unit that was looked up before; returns what was programmed if this unit completed a stripe.
    pub fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        let before = self.map.locate(unit);
        let programmed = self.map.write(unit, &mut Noting { flash, cleaned: &mut self.cleaned });
        if self.map.locate(unit) != before {
            self.changed(unit, flash);
        }
        self.after_cleaning(flash);
        programmed
    }

    pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        self.map.flush(flash)
    }

    /// The units are no longer needed.
    pub fn discard(&mut self, units: Range<u32>, flash: &mut impl Operations) {
        let Range { mut start, end } = units;
        while start < end {
            let page = start >> self.page_shift;
            let whole = self.units_of(page);
            let part = start..whole.end.min(end);
            start = part.end;
            if part.len() as u32 * FEW < 1 << self.page_shift {
                self.translate(part.start, part.len() as u32, false, flash.now(), flash);
                for unit in part {
                    if self.map.locate(unit).is_some() {
                        self.map.discard(unit);
                        self.changed(unit, flash);
                    }
                }
                continue;
            }
            // The page must say first which slots are no longer valid.
            if part.clone().any(|unit| !self.cache.contains(unit)) {
                self.read_page(page, flash.now(), flash);
            }
            for unit in part.clone() {
                self.map.discard(unit);
                self.cache.remove(unit);
            }
            if part == whole {
                self.pages.drop_page(page);
            } else if self.pages.exists(page) {
                self.write_back(page, flash);
                self.counts.updates += 1;
            }
            part.for_each(|unit| self.says(unit));
        }
    }

    /// As [`PageMap::collect_in_background`].
    pub fn collect_in_background(&mut self, at: u32, ahead: u32, flash: &mut impl Operations) -> bool {
        let more = self.map.collect_in_background(at, ahead, &mut Noting { flash, cleaned: &mut self.cleaned });
        self.after_cleaning(flash);
        more
    }

    fn after_cleaning(&mut self, flash: &mut impl Operations) {
        if self.cleaned.moved.is_empty() && self.cleaned.erased.is_empty() {
            return;
        }
        let mut cleaned = std::mem::take(&mut self.cleaned);
        for (unit, slot) in cleaned.moved.drain(..) {
            if self.map.locate(unit) != Some(slot) {
                continue; // written or discarded since
            }
            if self.cache.contains(unit) {
                self.cache.set_dirty(unit);
            } else {
                self.moved[(slot / self.per_die) as usize].push((unit, slot));
            }
        }
        for die in cleaned.erased.drain(..) {
            let mut batch = std::mem::take(&mut self.moved[die as usize]);
            self.update(&mut batch, flash);
            batch.clear();
            self.moved[die as usize] = batch;
        }
        self.cleaned = cleaned;
    }

    /// Updates the translation pages with the units that were moved out of a block, each page once.
    fn update(&mut self, batch: &mut [(u32, u32)], flash: &mut impl Operations) {
        let shift = self.page_shift;
        batch.sort_unstable();
        for same_page in batch.chunk_by(|a, b| a.0 >> shift == b.0 >> shift) {
            let mut write = false;
            for &(unit, slot) in same_page {
                if self.map.locate(unit) != Some(slot) {
                    continue;
                }
                if self.cache.contains(unit) {
                    self.cache.set_dirty(unit);
                } else {
                    write = true;
                    self.says(unit);
                }
            }
            if write {
                self.write_back(same_page[0].0 >> shift, flash);
                self.counts.updates += 1;
            }
        }
    }

    pub fn counts(&self) -> MappingStats {
        self.counts
    }

    /// A new account; wear stays.
    pub fn reset_counts(&mut self) {
        self.counts = MappingStats::default();
        self.map.reset_counts();
    }

    /// Number of blocks of translation pages, in addition to those of the data.
    pub fn translation_blocks(&self) -> u32 {
        self.pages.blocks()
    }

    /// Erase counts of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        let (data, pages) = (self.map.blocks().wear(), self.pages.wear());
        (data.0.min(pages.0), data.1.max(pages.1))
    }

    pub fn forget_wear(&mut self) {
        self.map.forget_wear();
        self.pages.forget_wear();
    }

    /// Panics if a unit is lost, duplicated, or counted wrong, or if neither RAM nor flash has its place. For tests.
    pub fn check(&self) {
        self.map.check();
        self.pages.check();
        assert!(self.cache.len() <= self.cache.capacity(), "{} entries are cached", self.cache.len());
        #[cfg(debug_assertions)]
        {
            let moved: std::collections::BTreeSet<(u32, u32)> = self.moved.iter().flatten().copied().collect();
            for unit in 0..self.units {
                let truth = self.map.locate(unit);
                let on_flash = self.on_flash[unit as usize].checked_sub(1);
                let page = unit >> self.page_shift;
                assert!(on_flash.is_none() || self.pages.exists(page), "the page that knows unit {unit} is on flash");
                let in_ram = self.cache.is_dirty(unit) || truth.is_some_and(|slot| moved.contains(&(unit, slot)));
                assert!(on_flash == truth || in_ram, "unit {unit} is at {truth:?}, not at {on_flash:?}");
            }
        }
    }
}

impl TranslationLayer for CachedMap {
    fn new(p: &FlashParameters, g: Geometry) -> CachedMap {
        CachedMap::new(p, g)
    }

    #[inline]
    fn locate(&self, unit: u32) -> Option<u32> {
        self.map().locate(unit)
    }

    #[inline]
    fn is_open(&self, slot: u32) -> bool {
        self.map().is_open(slot)
    }

    #[inline]
    fn die_of(&self, slot: u32) -> u32 {
        self.map().die_of(slot)
    }

    #[inline]
    fn pending(&self) -> u32 {
        self.map().pending()
    }

    #[inline]
    fn write(&mut self, unit: u32, flash: &mut impl Operations) -> Programmed {
        CachedMap::write(self, unit, flash)
    }

    fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        CachedMap::flush(self, flash)
    }

    fn discard(&mut self, units: Range<u32>, flash: &mut impl Operations) {
        CachedMap::discard(self, units, flash)
    }

    fn wear(&self) -> (u32, u32) {
        CachedMap::wear(self)
    }

    fn forget_wear(&mut self) {
        CachedMap::forget_wear(self)
    }

    #[inline]
    fn translate(&mut self, first: u32, units: u32, continues: bool, at: u64, flash: &mut impl Operations) -> u64 {
        CachedMap::translate(self, first, units, continues, at, flash)
    }

    #[inline]
    fn background_wanted(&self) -> bool {
        self.map().background_wanted()
    }

    fn wants_background(&self, die: u32) -> bool {
        self.map().wants_background(die)
    }

    fn collect_in_background(&mut self, die: u32, ahead: u32, flash: &mut impl Operations) -> bool {
        CachedMap::collect_in_background(self, die, ahead, flash)
    }

    fn cleaning(&self) -> Cleaning {
        self.map().cleaning()
    }

    fn extra_blocks(&self) -> u32 {
        self.translation_blocks()
    }

    fn stats(&self) -> FtlStats {
        FtlStats { mapping: Some(self.counts()), ..TranslationLayer::stats(self.map()) }
    }

    fn reset_counts(&mut self) {
        CachedMap::reset_counts(self)
    }

    fn precondition(&mut self, state: Precondition, g: &Geometry, random: &mut Pcg64Mcg) {
        TranslationLayer::precondition(self.map_mut(), state, g, random);
        self.settle((state == Precondition::Random).then_some(random));
    }

    fn check(&self) {
        CachedMap::check(self)
    }
}
