//! Calls that are compiled into the loop for the usual case, and kept out of line elsewhere.

use peryton_device::{Accepted, Io, Tag};
use peryton_engine::{Commands, Engine, IoId, Request, RequestId};
use peryton_units::Nanos;

use crate::array::Array;

#[inline(never)]
pub(super) fn submit(engine: &mut Engine, now: Nanos, id: RequestId, request: Request, out: &mut Commands) {
    engine.submit(now, id, request, out);
}

#[inline(never)]
pub(super) fn complete(engine: &mut Engine, now: Nanos, io: IoId, out: &mut Commands) {
    engine.complete(now, io, Ok(()), out).expect("it is in flight");
}

#[inline(never)]
pub(super) fn carry_out(device: &mut Array, now: Nanos, tag: Tag, io: Io) -> Accepted {
    device.submit(now, tag, io)
}
