//! Opens a volume again that has stopped because a flush failed, so that the server need not be restarted.

use peryton_engine::Opened;

use super::Server;
use crate::{events::What, open::Device, shared_memory::SharedMemory, storage::Files};

impl Server {
    /// Opens the volume again if it has stopped and nothing is in flight. This thread does nothing else meanwhile: the
    /// time depends on the size of the log, as when a server starts.
    #[inline]
    pub(super) fn reopen_if_stopped(&mut self) {
        let rests = || self.volume.backend.in_flight() == 0 && self.notes.is_idle() && !self.stop.is_asked();
        if self.volume.engine().waits_to_be_reopened() && rests() && self.now >= self.reopening.due {
            self.reopen();
        }
    }

    #[cold]
    fn reopen(&mut self) {
        self.about.devices.iter().flatten().for_each(Device::drop_cached);
        let notifier = &self.watchdog.notifier;
        let opened = match Files::new(&self.about.devices).map(|files| files.notifying(notifier)) {
            Ok(mut files) => self.volume.engine_mut().reopen(&mut files).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let pause_s = self.reopening.failed(self.now).as_s_f64();
                tracing::error!(error, pause_s, "the volume has stopped and cannot be opened again yet");
                return;
            }
        };
        self.watchdog.notifier.goes_on();
        self.reopening.succeeded();
        self.volume.backend.trust();
        let memory = SharedMemory::begin(&self.reopening.process_death, self.volume.engine_mut(), &self.about.devices);
        self.volume.keep_in(memory);
        let Opened { clean, generation, commits, .. } = opened;
        tracing::warn!(
            generation,
            commits,
            "the volume had stopped after a failed flush; it was recovered and goes on"
        );
        self.about.events.report(What::Opened { clean, generation });
        self.about.opened = opened;
    }
}
