//! The answer to a question that no design meets.

use peryton_plan::capacity::{Gives, Infeasible, Plan};

use crate::table;

/// For people: that nothing meets the budgets, and what would have to give. Figures of designs that don't are no answer.
pub(super) fn shown(plan: &Plan, infeasible: &Infeasible) -> String {
    let why = match (&infeasible.binding, infeasible.overloaded) {
        (_, true) => "every design falls behind: requests come faster than the devices answer them".to_owned(),
        (Some(binding), false) => format!("{binding} is out of reach of every design that was simulated"),
        (None, false) => "every design wears out within a month".to_owned(),
    };
    let mut text = format!("Nothing meets this: {why}.\n");
    for one in &infeasible.impossible_alone {
        if Some(*one) != infeasible.binding {
            text += &format!("Not even {one} alone can be met.\n");
        }
    }
    if !infeasible.gives.is_empty() {
        text += "What would have to give:\n";
    }
    for gives in &infeasible.gives {
        text += &match gives {
            Gives::Load { label, share, requests_per_s, .. } => format!(
                "  the load: {label} carries {} of it within the budgets, {} requests a second\n",
                table::share(*share),
                table::number(*requests_per_s)
            ),
            Gives::Budget { budget, best, label } => {
                format!("  {budget}: the best is {}, by {label}\n", budget.metric.show(*best))
            }
            Gives::Most { most } => {
                format!(
                    "  the number of devices: the nearest design has all {most} of a kind that it may have (--most)\n"
                )
            }
        };
    }
    if plan.infeasible.is_some() && infeasible.gives.is_empty() {
        text += "No smaller load of this kind is met either: look at other devices (--devices, --era all), or other budgets.\n";
    }
    text
}
