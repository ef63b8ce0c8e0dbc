//! What has become of the devices of a run.

use peryton_engine::DeviceId;

use crate::design::Kind;

/// What has become of a run's devices.
#[derive(Clone, Debug)]
pub(crate) struct Deaths {
    pub(crate) kind: Kind,
    /// The volume is opened without these.
    pub(crate) without: Vec<DeviceId>,
    /// A cache that never wrote back: nothing can be lost with it.
    pub(crate) never_back: bool,
    /// Nothing else is asked while this is read.
    pub(crate) quiet: bool,
    /// What is left is an older image: there is nothing to compare it with.
    pub(crate) over: bool,
}

impl Deaths {
    pub(crate) fn new(kind: Kind) -> Deaths {
        Deaths { kind, without: Vec::new(), never_back: kind == Kind::Caching, quiet: false, over: false }
    }
}
