//! How much flash is bought, and what other capacities would give.

use peryton_plan::capacity::{Found, Plan};
use peryton_units::{person, person_ms, person_years};

use crate::table::{self, Column, Table};

/// The first designs that were simulated, of each set of devices the capacity of flash that is best.
pub(super) fn one_of_each(plan: &Plan, most: usize) -> Vec<&Found> {
    let mut shown: Vec<&Found> = Vec::new();
    for found in &plan.simulated {
        let shape = found.candidate.with_capacity(None);
        if shown.len() < most && !shown.iter().any(|one| one.candidate.with_capacity(None) == shape) {
            shown.push(found);
        }
    }
    shown
}

/// For people: the capacities of the flash of the best design and the runners-up, and the figures of others.
pub(super) fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for found in plan.chosen() {
        let Some(flash) = &found.flash else { continue };
        text += &format!("\n{}\n", found.label);
        for sentence in flash.sentences() {
            text += &format!("  {sentence}\n");
        }
    }
    if let Some(rows) = points(plan) {
        text += &format!("\n{}", rows.shown());
    }
    text
}

/// The figures of the best design with other capacities of flash.
pub(super) fn points(plan: &Plan) -> Option<Table> {
    let flash = plan.best.as_ref()?.flash.as_ref()?;
    let figures = |(title, matters)| Column::figures(title, matters);
    let mut header = vec![Column::figures("flash GB\nof the best", 9)];
    header.extend([("meets", 8), ("USD", 8), ("mean", 8), ("p99", 6), ("lifetime", 7), ("hit %", 5)].map(figures));
    let mut rows = Table::of(header);
    for point in &flash.points {
        rows.add_row([
            table::number(point.capacity_bytes as f64 / 1e9),
            if point.meets { "yes".to_owned() } else { format!("{}×", table::number(point.strain)) },
            table::cell(point.dollars, person),
            person_ms(point.mean_ms),
            person_ms(point.p99_ms),
            table::cell(point.lifetime_years, person_years),
            table::optional(point.fast_hit_ratio.map(|share| share * 100.0)),
        ]);
    }
    Some(rows)
}
