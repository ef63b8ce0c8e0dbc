//! The baseline of a fit: the latencies of the fitted half, without any model.

use peryton_units::{Nanos, Op};

use super::{Fit, scored};
use crate::validate::{Measured, Validation};

/// How far the latencies of the one half are from those of the other, reads and writes apart; and without the slowest.
pub(super) fn score(name: &str, fitted: &[Measured], other: &[Measured]) -> (Validation, f64) {
    scored(&format!("{name}, without a model"), other, &latencies(fitted, other))
}

/// The latencies of the one half in the order of those of the other, reads and writes apart.
fn latencies(fitted: &[Measured], other: &[Measured]) -> Vec<Nanos> {
    let mut took = vec![Nanos::ZERO; other.len()];
    for op in [Op::Read, Op::Write] {
        let mut known: Vec<Nanos> = fitted.iter().filter(|r| r.io.op == op).map(|r| r.latency).collect();
        if known.is_empty() {
            known = fitted.iter().map(|request| request.latency).collect();
        }
        known.sort_unstable();
        let mut order: Vec<usize> = (0..other.len()).filter(|&index| other[index].io.op == op).collect();
        order.sort_by_key(|&index| other[index].latency);
        for (rank, &index) in order.iter().enumerate() {
            let at = (2 * rank + 1) * known.len() / (2 * order.len());
            took[index] = known.get(at).copied().unwrap_or_default();
        }
    }
    took
}

impl Fit {
    /// The kinds of requests of the half that was not fitted for which the model is no nearer than the latencies of the fitted half are:
    /// `all`, `read`, `write`.
    pub fn no_better(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        if self.other.demerit_ms >= self.null.demerit_ms {
            found.push("all");
        }
        for (model, null) in self.other.classes.iter().zip(&self.null.classes) {
            if model.demerit_ms >= null.demerit_ms {
                found.push(model.class);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;

    use super::*;
    use crate::Io;

    fn requests(op: Op, us: impl Iterator<Item = u64>) -> Vec<Measured> {
        let io = Io { op, at: Bytes(0), len: Bytes::kib(4) };
        us.map(|us| Measured { at: Nanos::ZERO, io, latency: Nanos::from_us(us) }).collect()
    }

    #[test]
    fn halves_with_the_same_latencies_are_no_way_apart() {
        let rising = [requests(Op::Read, 100..300), requests(Op::Write, 10..50)].concat();
        let falling = [requests(Op::Write, (10..50).rev()), requests(Op::Read, (100..300).rev())].concat();
        assert_eq!(score("a", &rising, &falling).0.demerit_ms, 0.0);
    }

    #[test]
    fn the_distance_is_that_of_each_kind() {
        let first = [requests(Op::Read, 100..300), requests(Op::Write, 10..50)].concat();
        let then = [requests(Op::Read, 150..350), requests(Op::Write, 10..50)].concat();
        let found = score("a", &first, &then).0;
        let of = |class: usize| (found.classes[class].demerit_ms * 1e3).round();
        assert_eq!((of(0), of(1)), (50.0, 0.0));
        // Without a write to learn from, writes take as long as reads.
        let alone = score("a", &requests(Op::Read, 100..101), &requests(Op::Write, 140..141)).0;
        assert_eq!((alone.classes[0].demerit_ms * 1e3).round(), 40.0);
    }
}
