//! A choice by several figures at once: fronts on which nothing is better, and weights that the reader moves.

use serde_json::{Value, json};

/// The figures of a thing to choose.
pub struct Candidate {
    pub name: String,
    /// Whether it keeps the budgets, if there are any.
    pub meets: Option<bool>,
    /// In the order of the axes; absent where not known.
    pub values: Vec<Option<f64>>,
}

/// An axis: its name, its unit, whether more is better, its weight at the start, and whether an absent value is as good as the best.
pub struct Axis {
    pub name: &'static str,
    pub unit: &'static str,
    pub more: bool,
    pub weight: u8,
    pub absent_is_best: bool,
}

impl Axis {
    pub const fn less(name: &'static str, unit: &'static str) -> Axis {
        Axis { name, unit, more: false, weight: 1, absent_is_best: false }
    }
}

/// The data of the chart; the axes that at most half of the candidates have are left out. `start`: the names of the axes that are drawn first. `None` if there
/// is nothing to choose from.
pub fn choice(axes: &[Axis], candidates: &[Candidate], start: [&str; 2]) -> Option<Value> {
    // A figure that few have would leave out most of the others as soon as it has a weight.
    let is_known = |index: &usize| {
        let known = candidates.iter().filter(|one| one.values[*index].is_some_and(|value| value > 0.0)).count();
        known * 2 > candidates.len() || (axes[*index].absent_is_best && known > 0)
    };
    let kept: Vec<usize> = (0..axes.len()).filter(is_known).collect();
    if candidates.len() < 2 || kept.len() < 2 {
        return None;
    }
    let axis = |index: &usize| {
        let Axis { name, unit, more, weight, absent_is_best } = axes[*index];
        json!({ "name": name, "unit": unit, "more": more, "weight": weight, "absent": if absent_is_best { "best" } else { "unknown" } })
    };
    let point = |one: &Candidate| {
        let value = |index: &usize| one.values[*index].filter(|value| value.is_finite());
        json!({ "name": one.name, "meets": one.meets, "values": kept.iter().map(value).collect::<Vec<_>>() })
    };
    let place = |name: &str, other: usize| kept.iter().position(|index| axes[*index].name == name).unwrap_or(other);
    let first = place(start[0], 0);
    let second = Some(place(start[1], 1)).filter(|second| *second != first).unwrap_or(usize::from(first == 0));
    Some(json!({
        "kind": "weigh", "axes": kept.iter().map(axis).collect::<Vec<_>>(),
        "points": candidates.iter().map(point).collect::<Vec<_>>(), "start": [first, second],
    }))
}

/// What the score is.
pub const EXPLAINED: &str = "For each figure: how many times worse than the best of all. The score is the weighted geometric mean of these \
    factors; 1 would be the best in every figure.";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn axes_without_figures_are_left_out_and_one_thing_is_no_choice() {
        let axes = [Axis::less("a", "ms"), Axis::less("b", "USD"), Axis::less("c", "W")];
        let one = |values: [Option<f64>; 3]| Candidate { name: "<x>".into(), meets: None, values: values.to_vec() };
        let two = [one([Some(1.0), None, Some(2.0)]), one([Some(3.0), None, Some(f64::INFINITY)])];
        let found = choice(&axes, &two, ["c", "b"]).unwrap();
        assert_eq!((found["axes"].as_array().unwrap().len(), &found["start"]), (2, &json!([1, 0])));
        assert_eq!(found["points"][1]["values"], json!([3.0, null]));
        assert!(choice(&axes, &two[..1], ["a", "c"]).is_none());
        assert!(choice(&axes, &[one([Some(1.0), None, None]), one([Some(2.0), None, None])], ["a", "c"]).is_none());
    }
}
