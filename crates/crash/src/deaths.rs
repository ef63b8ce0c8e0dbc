//! Which devices of a run have died, and what follows for the checks.

use peryton_engine::DeviceId;

use crate::design::Kind;

/// Which devices of a run have died, and what follows for the checks.
#[derive(Clone, Debug)]
pub(crate) struct Deaths {
    pub(crate) kind: Kind,
    /// The volume is opened without these devices.
    pub(crate) without: Vec<DeviceId>,
    /// True once a flush of the host succeeded after a device died, the volume was closed, or the process died and all that was
    /// answered counts as durable.
    /// Data that the device had not flushed may be gone with it; the model does not know this.
    pub(crate) flushed_since: bool,
    /// True if the device that the volume was opened without may lack data that the model takes for durable.
    pub(crate) stale: bool,
    /// True while the drive is a cache that has never written back and whose slow device has always been there: then no
    /// device failure may lose data.
    pub(crate) never_back: bool,
    /// True while the whole volume is read for a check: the host submits nothing else.
    pub(crate) quiet: bool,
    /// True once only the primary of a log is left: it holds an older image that the model cannot check.
    pub(crate) over: bool,
    /// True once an empty device has replaced one: what only that one had is lost. Also once a device has come back that was given up because
    /// its flushes failed: its own map lacks what it could not flush, and that stays lost.
    pub(crate) replaced: bool,
    /// True once data in a log has rotted.
    pub(crate) rotten: bool,
    /// True once the power failed during a recovery without a device that the survivors had not durably given up.
    pub(crate) forgotten: bool,
}

impl Deaths {
    /// `back`: whether the volume begins with write-back.
    pub(crate) fn new(kind: Kind, back: bool) -> Deaths {
        Deaths {
            kind,
            without: Vec::new(),
            flushed_since: false,
            stale: false,
            never_back: kind == Kind::Caching && !back,
            quiet: false,
            over: false,
            replaced: false,
            rotten: false,
            forgotten: false,
        }
    }
}
