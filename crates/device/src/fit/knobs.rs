//! The values of a profile that are fitted, each with the range in which real devices have it.

use toml::{Table, Value};

/// What a value is in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Nanoseconds.
    Time,
    /// A number with decimals.
    Number,
    /// A whole number.
    Count,
    /// Bytes in steps of 4 KiB.
    Memory,
}

/// A value that is fitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Knob {
    /// Its keys in the model's table; with a dot for an inner table.
    pub keys: &'static [&'static str],
    /// The least value.
    low: f64,
    /// The largest value.
    high: f64,
    /// The usual value, which stays if the requests do not decide.
    pub usual: f64,
    unit: Unit,
}

const fn knob(keys: &'static [&'static str], (low, usual, high): (f64, f64, f64), unit: Unit) -> Knob {
    Knob { keys, low, high, usual, unit }
}

const US: f64 = 1e3;
const MS: f64 = 1e6;
const KIB: f64 = 1024.0;

/// The values that latencies can tell apart: the times of cells, controller and buffer, and how much runs in parallel. Values that are
/// hidden behind others (erases, spare, planes, a channel's rate, precedence) are those of the template.
pub(super) const FLASH: &[Knob] = &[
    knob(&["read"], (20.0 * US, 50.0 * US, 150.0 * US), Unit::Time),
    knob(&["program"], (50.0 * US, 600.0 * US, 3.0 * MS), Unit::Time),
    knob(&["read_overhead"], (2.0 * US, 20.0 * US, 150.0 * US), Unit::Time),
    knob(&["write_overhead"], (2.0 * US, 10.0 * US, 100.0 * US), Unit::Time),
    knob(&["read_interval"], (0.5 * US, 8.0 * US, 50.0 * US), Unit::Time),
    knob(&["write_interval"], (0.5 * US, 5.0 * US, 30.0 * US), Unit::Time),
    knob(&["out_of_order"], (0.1, 0.5, 1.0), Unit::Number),
    knob(&["nap_exit"], (1.0 * US, 100.0 * US, 3.0 * MS), Unit::Time),
    knob(&["channels"], (2.0, 16.0, 128.0), Unit::Count),
    knob(&["interface_mb_per_s"], (100.0, 1500.0, 12_000.0), Unit::Number),
    knob(&["write_buffer"], (1024.0 * KIB, 4096.0 * KIB, 65_536.0 * KIB), Unit::Memory),
];

pub(super) const DISK: &[Knob] = &[
    knob(&["rpm"], (3600.0, 7200.0, 15_600.0), Unit::Number),
    knob(&["heads"], (1.0, 4.0, 20.0), Unit::Count),
    knob(&["seek.single"], (0.1 * MS, 0.8 * MS, 3.0 * MS), Unit::Time),
    knob(&["seek.average"], (3.0 * MS, 8.0 * MS, 16.0 * MS), Unit::Time),
    knob(&["seek.full"], (6.0 * MS, 16.0 * MS, 35.0 * MS), Unit::Time),
    knob(&["head_switch"], (0.05 * MS, 0.8 * MS, 2.0 * MS), Unit::Time),
    knob(&["write_settle"], (0.01 * MS, 0.2 * MS, 2.0 * MS), Unit::Time),
    knob(&["tracks.outer_mb_per_s"], (5.0, 100.0, 400.0), Unit::Number),
    knob(&["controller.interface_mb_per_s"], (5.0, 100.0, 1200.0), Unit::Number),
    knob(&["controller.read_hit"], (0.01 * MS, 0.1 * MS, 3.0 * MS), Unit::Time),
    knob(&["controller.read_miss"], (0.01 * MS, 0.3 * MS, 3.0 * MS), Unit::Time),
    knob(&["controller.write_hit"], (0.01 * MS, 0.2 * MS, 3.0 * MS), Unit::Time),
    knob(&["controller.write_miss"], (0.01 * MS, 0.3 * MS, 3.0 * MS), Unit::Time),
    knob(&["buffer.segments"], (1.0, 8.0, 64.0), Unit::Count),
    knob(&["buffer.segment"], (32.0 * KIB, 256.0 * KIB, 8192.0 * KIB), Unit::Memory),
    knob(&["buffer.write_cache"], (4.0 * KIB, 1024.0 * KIB, 65_536.0 * KIB), Unit::Memory),
];

pub(super) const FIXED: &[Knob] = &[
    knob(&["read"], (0.3 * US, 100.0 * US, 100.0 * MS), Unit::Time),
    knob(&["write"], (0.3 * US, 100.0 * US, 100.0 * MS), Unit::Time),
    knob(&["read_mb_per_s"], (10.0, 2000.0, 200_000.0), Unit::Number),
    knob(&["write_mb_per_s"], (10.0, 2000.0, 200_000.0), Unit::Number),
    knob(&["parallelism"], (1.0, 32.0, 256.0), Unit::Count),
    knob(&["read_interval"], (1.0, 1.0 * US, 2.0 * MS), Unit::Time),
    knob(&["write_interval"], (1.0, 1.0 * US, 2.0 * MS), Unit::Time),
    knob(&["shared_mb_per_s"], (10.0, 10_000.0, 200_000.0), Unit::Number),
    knob(&["shared_write_mb_per_s"], (10.0, 10_000.0, 200_000.0), Unit::Number),
];

impl Knob {
    /// The same value, known within about this factor.
    pub fn near(self, value: f64, factor: f64) -> Knob {
        let factor = factor.max(1.01);
        self.between(value / factor, value, value * factor)
    }

    /// The same value, known to lie between two others.
    pub fn between(self, low: f64, usual: f64, high: f64) -> Knob {
        if usual.is_finite() && low > 0.0 { Knob { low, usual, high, ..self } } else { self }
    }

    /// The value at a place of its range, 0 to 1, with three digits.
    fn at(&self, place: f64) -> f64 {
        let value = self.low * (self.high / self.low).powf(place.clamp(0.0, 1.0));
        match self.unit {
            Unit::Count => value.round().max(1.0),
            Unit::Memory => (value / (4.0 * KIB)).round().max(1.0) * 4.0 * KIB,
            Unit::Time | Unit::Number => {
                let scale = 10f64.powf(value.log10().floor() - 2.0);
                (value / scale).round() * scale
            }
        }
    }

    /// The place of the usual value.
    pub fn usual_place(&self) -> f64 {
        (self.usual / self.low).ln() / self.width()
    }

    /// The logarithm of its range.
    pub fn width(&self) -> f64 {
        (self.high / self.low).ln()
    }

    /// The value in the form of a profile.
    fn value(&self, place: f64) -> Value {
        let number = self.at(place);
        match self.unit {
            Unit::Time => Value::String(format!("{}ns", number.round() as u64)),
            Unit::Number => Value::Float(format!("{number:.4}").parse().unwrap_or(number)),
            Unit::Count => Value::Integer(number as i64),
            Unit::Memory => Value::String(format!("{}B", number as u64)),
        }
    }
}

/// The values at these places, as a design gives them.
pub(super) fn overrides(knobs: &[Knob], places: &[f64]) -> Table {
    let mut table = Table::new();
    for (knob, &place) in knobs.iter().zip(places) {
        for key in knob.keys {
            let value = knob.value(place);
            let Some((outer, inner)) = key.split_once('.') else {
                table.insert((*key).to_owned(), value);
                continue;
            };
            let entry = table.entry(outer.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(entry) = entry else { continue };
            // An overhead holds after a read and after a write.
            let value = if outer == "controller" && inner != "interface_mb_per_s" {
                Value::Table(Table::from_iter([
                    ("after_read".to_owned(), value.clone()),
                    ("after_write".to_owned(), value),
                ]))
            } else {
                value
            };
            entry.insert(inner.to_owned(), value);
        }
    }
    follow(&mut table);
    table
}

/// Values that follow from others, because the model refuses what no device can be.
fn follow(table: &mut Table) {
    // The rates of tracks at both ends cannot be distinguished in a trace of a few seconds: the inner one is 0.6 of the outer.
    if let Some(Value::Table(tracks)) = table.get_mut("tracks")
        && let Some(outer) = tracks.get("outer_mb_per_s").and_then(Value::as_float)
    {
        tracks.insert("inner_mb_per_s".to_owned(), Value::Float((outer * 60.0).round() / 100.0));
    }
}
