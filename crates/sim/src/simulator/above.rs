//! The host's page cache between the requests of the trace and the engines, outside of the event loop's hot path.

use peryton_engine::{Request, RequestId};
use peryton_units::Nanos;

use super::Simulator;
use crate::page_cache::{Effect, PageCache, PageCacheReport};

/// The page cache of a run, if there is one.
pub(super) struct Above {
    cache: PageCache,
    /// Whether its effects are being carried out: what that causes is carried out afterwards.
    is_busy: bool,
}

impl Above {
    pub(super) fn new(cache: PageCache) -> Box<Above> {
        Box::new(Above { cache, is_busy: false })
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.cache.deadline()
    }

    pub(super) fn reset_stats(&mut self) {
        self.cache.reset_stats();
    }

    pub(super) fn report(&self) -> PageCacheReport {
        self.cache.report()
    }

    /// The run has ended: what is dirty stays so.
    pub(super) fn end(&mut self) {
        self.cache.end();
    }
}

impl<const SEVERAL: bool, const WATCHED: bool> Simulator<'_, SEVERAL, WATCHED> {
    /// A request of the host, which the page cache gets.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_cache(&mut self, volume: usize, id: u32, request: Request) {
        let Some(above) = &mut self.above else { return };
        above.cache.ask(self.now, volume, id, request);
        self.carry_out_cache();
    }

    #[cold]
    #[inline(never)]
    pub(super) fn tick_cache(&mut self) {
        let Some(above) = &mut self.above else { return };
        above.cache.tick(self.now);
        self.carry_out_cache();
    }

    /// An engine has answered the page cache.
    #[cold]
    #[inline(never)]
    pub(super) fn answer_cache(&mut self, id: RequestId, failed: bool) {
        let Some(above) = &mut self.above else { return };
        above.cache.answered(self.now, id.0 as u32, failed);
    }

    /// Carries out what the page cache asks for.
    #[cold]
    #[inline(never)]
    pub(super) fn carry_out_cache(&mut self) {
        match &mut self.above {
            Some(above) if !above.is_busy => above.is_busy = true,
            _ => return,
        }
        while let Some(effect) = self.above.as_mut().and_then(|above| above.cache.next_effect()) {
            match effect {
                Effect::Submit { volume, id, request } => {
                    self.hand_in(volume, id, request);
                    self.carry_out(volume);
                }
                Effect::Reply { volume, id, failed } => self.reply(volume, RequestId(u64::from(id)), failed),
            }
        }
        if let Some(above) = &mut self.above {
            above.is_busy = false;
        }
    }
}
