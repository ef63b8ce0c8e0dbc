//! Bounds on the number of erases that a log saves the flash, for any translation layer (Griffin, sections 6.2 and
//! 6.3). The host's writes and the writes that reach the primary are counted under an ideal page-mapped layer and under
//! an extremely simple block-mapped one.
//!
//! * Ideal: pages are mapped one by one and written in the order of the flash, and cleaning never copies. As many
//!   blocks are erased as the pages fill.
//! * Block-mapped: a page has one place in its block. The flash is in use, so every page holds data, and a write erases
//!   its block. Writes that continue in ascending order in the same block need no further erase, until a write
//!   elsewhere closes the block.
//!
//! Memory and time per page do not depend on the size of the device. The models of `peryton-device` (`ftl = "ideal"`,
//! `"block-mapped"`) give the erases of a run with everything that a drive does; this module gives both bounds of both
//! streams at once.

use peryton_device::Model;
use peryton_units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

/// Page and block size for models that have none: those of Griffin's drives (sections 2 and 6.4).
const PAGE: Bytes = Bytes::kib(4);
const BLOCK: Bytes = Bytes::kib(512);

/// Erases and sequentiality of a primary's writes, with the log and without.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FtlReport {
    /// The page size of the primary's flash.
    pub page_bytes: u64,
    /// The size of its erase blocks.
    pub block_bytes: u64,
    /// The host's writes, as if they went to the primary one by one.
    pub without_log: WriteStream,
    /// The primary's writes, including those that emptying the log at the end would add.
    pub with_log: WriteStream,
    /// Share of the erases that the log spared.
    pub erase_savings: EraseSavings,
}

/// A stream of writes to flash.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WriteStream {
    /// Number of page writes, including those of a part of a page.
    pub pages: u64,
    /// Share of the page writes that continue the previous page (Griffin, section 6.2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential_page_share: Option<f64>,
    /// Erases under the ideal layer.
    pub ideal_erases: u64,
    /// Erases under the block-mapped layer.
    pub block_mapped_erases: u64,
}

/// Shares of erases that the log saves; negative if there are more erases with the log.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EraseSavings {
    /// Under the ideal layer: a lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal: Option<f64>,
    /// Under the block-mapped layer: an upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_mapped: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stream {
    pages: u64,
    sequential: u64,
    erases: u64,
    /// The page after the one written last.
    next: Option<u64>,
    /// The block that was erased last, and the end of the writes to it since.
    open: Option<(u64, u64)>,
}

impl Stream {
    #[inline]
    fn write(&mut self, first: u64, end: u64, per_block: u64) {
        self.pages += end - first;
        self.sequential += end - first - 1 + u64::from(self.next == Some(first));
        self.next = Some(end);
        let mut from = first;
        while from < end {
            let block = from / per_block;
            let to = end.min((block + 1) * per_block);
            let goes_on = self.open.is_some_and(|(open, upto)| open == block && from >= upto);
            self.erases += u64::from(!goes_on);
            self.open = Some((block, to));
            from = to;
        }
    }

    fn report(&self, per_block: u64) -> WriteStream {
        WriteStream {
            pages: self.pages,
            sequential_page_share: (self.pages > 0).then(|| self.sequential as f64 / self.pages as f64),
            ideal_erases: self.pages.div_ceil(per_block),
            block_mapped_erases: self.erases,
        }
    }
}

/// Counts the writes to one primary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FtlBounds {
    page: u64,
    per_block: u64,
    host: Stream,
    device: Stream,
}

impl FtlBounds {
    pub(crate) fn new(primary: &Model) -> FtlBounds {
        let (page, per_block) = match primary {
            Model::Flash(flash) => (flash.page.0, u64::from(flash.pages_per_block)),
            Model::Fixed(_) | Model::Disk(_) => (PAGE.0, BLOCK.0 / PAGE.0),
        };
        FtlBounds::of(page, per_block)
    }

    fn of(page: u64, per_block: u64) -> FtlBounds {
        FtlBounds { page, per_block, host: Stream::default(), device: Stream::default() }
    }

    #[inline]
    fn pages(&self, at: Bytes, len: Bytes) -> (u64, u64) {
        (at.0 / self.page, (at.0 + len.0).div_ceil(self.page))
    }

    /// Counts a write of the host; byte `n` of the volume is byte `n` of the primary.
    #[inline]
    pub(crate) fn host_wrote(&mut self, at: Bytes, len: Bytes) {
        if len > Bytes::ZERO {
            let (first, end) = self.pages(at, len);
            self.host.write(first, end, self.per_block);
        }
    }

    /// Counts a write to the primary.
    #[inline]
    pub(crate) fn device_wrote(&mut self, at: Bytes, len: Bytes) {
        if len > Bytes::ZERO {
            let (first, end) = self.pages(at, len);
            self.device.write(first, end, self.per_block);
        }
    }

    /// Adds the writes of another primary of the same kind.
    pub(crate) fn add(&mut self, other: &FtlBounds) {
        for (sum, part) in [(&mut self.host, other.host), (&mut self.device, other.device)] {
            sum.pages += part.pages;
            sum.sequential += part.sequential;
            sum.erases += part.erases;
        }
    }

    /// Sets the counts to zero.
    pub(crate) fn reset(&mut self) {
        *self = FtlBounds::of(self.page, self.per_block);
    }

    pub(crate) fn report(&self) -> FtlReport {
        let spared = |with: u64, without: u64| (without > 0).then(|| 1.0 - with as f64 / without as f64);
        FtlReport {
            page_bytes: self.page,
            block_bytes: self.page * self.per_block,
            without_log: self.host.report(self.per_block),
            with_log: self.device.report(self.per_block),
            erase_savings: EraseSavings {
                ideal: spared(self.device.pages, self.host.pages),
                block_mapped: spared(self.device.erases, self.host.erases),
            },
        }
    }
}

/// The counts of one primary, or of several that follow one another as one device.
#[derive(Clone, Debug)]
pub(crate) struct PrimaryBounds {
    each: Vec<FtlBounds>,
    apart: u64,
}

impl PrimaryBounds {
    /// Of several, there is their number, and from the beginning of one to that of the next.
    pub(crate) fn new(primary: &Model, several: Option<(u32, Bytes)>) -> PrimaryBounds {
        let (count, apart) = several.map_or((1, u64::MAX), |(count, apart)| (count as usize, apart.0));
        PrimaryBounds { each: vec![FtlBounds::new(primary); count], apart }
    }

    /// Which primary has the byte.
    #[inline]
    fn of(&mut self, at: Bytes) -> &mut FtlBounds {
        let last = self.each.len() - 1;
        let index = if last == 0 { 0 } else { ((at.0 / self.apart) as usize).min(last) };
        &mut self.each[index]
    }

    /// Counts a write of the host, which lies within a volume.
    #[inline]
    pub(crate) fn host_wrote(&mut self, at: Bytes, len: Bytes) {
        self.of(at).host_wrote(at, len);
    }

    /// Counts a write to a primary.
    #[inline]
    pub(crate) fn device_wrote(&mut self, at: Bytes, len: Bytes) {
        self.of(at).device_wrote(at, len);
    }

    /// Sets the counts to zero.
    pub(crate) fn reset(&mut self) {
        self.each.iter_mut().for_each(FtlBounds::reset);
    }

    /// The counts of all of them.
    pub(crate) fn whole(&self) -> FtlBounds {
        let (first, rest) = self.each.split_first().expect("a log has a primary");
        let mut whole = *first;
        rest.iter().for_each(|other| whole.add(other));
        whole
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PER_BLOCK: u64 = 16;

    fn stream(writes: &[(u64, u64)]) -> FtlBounds {
        let mut bounds = FtlBounds::of(4096, PER_BLOCK);
        for (at, len) in writes {
            bounds.device_wrote(Bytes(at * 4096), Bytes(len * 4096));
        }
        bounds
    }

    #[test]
    fn sequential_writes_cost_every_layer_the_same() {
        let report = stream(&(0..320).map(|page| (page, 1)).collect::<Vec<_>>()).report().with_log;
        assert_eq!((report.pages, report.ideal_erases, report.block_mapped_erases), (320, 20, 20));
        assert_eq!(report.sequential_page_share, Some(319.0 / 320.0));
    }

    #[test]
    fn scattered_pages_cost_the_simple_layer_a_block_each() {
        let report = stream(&(0..160).map(|n| (n * 37 % 1600, 1)).collect::<Vec<_>>()).report().with_log;
        assert_eq!((report.ideal_erases, report.block_mapped_erases), (10, 160));
        assert_eq!(report.sequential_page_share, Some(0.0));
    }

    #[test]
    fn rewriting_a_page_and_going_back_erase_again_but_a_gap_does_not() {
        assert_eq!(stream(&[(3, 1), (3, 1), (2, 1)]).report().with_log.block_mapped_erases, 3);
        assert_eq!(stream(&[(3, 1), (9, 2)]).report().with_log.block_mapped_erases, 1);
        // A write over a border is in both blocks.
        assert_eq!(stream(&[(15, 2)]).report().with_log.block_mapped_erases, 2);
    }

    #[test]
    fn part_of_a_page_is_a_page() {
        let mut bounds = FtlBounds::of(4096, PER_BLOCK);
        bounds.host_wrote(Bytes(4000), Bytes(200));
        bounds.host_wrote(Bytes(0), Bytes(0));
        assert_eq!(bounds.report().without_log.pages, 2);
        assert_eq!(bounds.report().erase_savings.ideal, Some(1.0));
    }

    proptest! {
        /// The bounds are bounds: of each other, and against a list of pages.
        #[test]
        fn ideal_is_least_and_a_block_a_page_is_most(writes in prop::collection::vec((0u64..400, 1u64..40), 1..60)) {
            let report = stream(&writes).report().with_log;
            let pages: Vec<u64> = writes.iter().flat_map(|(at, len)| *at..at + len).collect();
            prop_assert_eq!(report.pages, pages.len() as u64);
            prop_assert!(report.ideal_erases <= report.block_mapped_erases);
            prop_assert!(report.block_mapped_erases <= report.pages);
            let next = pages.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            prop_assert_eq!(report.sequential_page_share, Some(next as f64 / pages.len() as f64));
        }
    }
}
