//! Requests that were measured with a fixed number in flight, replayed with as many. Each begins after the one before it in its place
//! has ended, and after the same pause as on the device. The device's own latencies decide nothing.

use peryton_units::Nanos;

use super::{
    Measured, most_in_flight,
    paced::{paced, starts},
};
use crate::Device;

/// Replays requests on a model from `start` on. Returns how long each took, and when the last one ended.
pub fn replay_closed(device: &mut Device, requests: &[Measured], start: Nanos) -> (Vec<Nanos>, Nanos) {
    paced(device, requests, &starts(requests, Nanos::MAX), most_in_flight(requests), start)
}

#[cfg(test)]
mod tests {
    use peryton_units::{Bytes, Op};

    use super::*;
    use crate::{Io, Profile};

    #[test]
    fn a_slower_model_gets_its_requests_later_and_keeps_their_gaps() {
        let io = Io { op: Op::Read, at: Bytes::ZERO, len: Bytes(4096) };
        // Two slots; in each a request of 100 us, and 10 us later the next.
        let requests: Vec<Measured> =
            (0..6).map(|n| Measured { at: Nanos::from_us(n / 2 * 110), io, latency: Nanos::from_us(100) }).collect();
        let text = "name = 'x'\ndescription = 'x'\nclass = 'fixed'\n[fixed]\nread = '1ms'\nwrite = '1ms'\ncapacity = '1MiB'\nparallelism = 2";
        let mut device = Profile::parse(text, "x").unwrap().build(None, 1).unwrap();
        let (took, end) = replay_closed(&mut device, &requests, Nanos::from_ms(5));
        assert_eq!(took, vec![Nanos::from_ms(1); 6]);
        assert_eq!(end, Nanos::from_us(5_000 + 3 * 1_000 + 2 * 10));
    }
}
