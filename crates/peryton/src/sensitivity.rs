//! Text about the estimates in a result, and about those that affect it.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use indicatif::ProgressStyle;
use peryton_sim::{Design, Options, Report, Sensitivity, SimError, Subject, Swing, TraceFactory, sensitivity};

use crate::{table, terminal};

/// One line that names the estimates; empty if there are none.
pub fn estimates(by_profile: &BTreeMap<String, Vec<String>>, asked: bool) -> String {
    if by_profile.is_empty() {
        return String::new();
    }
    let each = by_profile.iter().map(|(profile, values)| format!("{} of {profile}", values.len()));
    let remedy = if asked { "" } else { "; which of them matter: --sensitivity" };
    format!(
        "Rests on estimated values: {} (peryton profiles NAME --values{remedy})\n",
        each.collect::<Vec<_>>().join(", ")
    )
}

/// Runs the simulations with a progress bar.
pub fn run<T: Send>(
    subjects: &[Subject],
    trace: &TraceFactory<'_>,
    options: &Options,
    figures: &(dyn Fn(&Design, &Report) -> T + Sync),
) -> Result<Sensitivity<T>, SimError> {
    let bar = terminal::bar(0);
    let style = ProgressStyle::with_template("{spinner} estimates off by 30 % {wide_bar} {pos}/{len} {eta}");
    bar.set_style(style.expect("the template is a constant"));
    bar.enable_steady_tick(Duration::from_millis(100));
    let most = Mutex::new(0);
    let result = sensitivity(subjects, trace, options, figures, &|done, of| {
        // Simulations end in any order.
        let mut most = most.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *most = done.max(*most);
        bar.set_length(of);
        bar.set_position(*most);
    });
    bar.finish_and_clear();
    result
}

/// The least change that is printed.
const LEAST_CHANGE: f64 = 0.01;
/// The most rows.
const MOST_ROWS: usize = 20;

/// The compared figures: mean and p99 in ms, lifetime in years, power in watts.
pub type Compared = [Option<f64>; 4];

/// The estimates that change a figure, the largest effect first. `now` are the figures without a change.
pub fn shown<T>(found: &Sensitivity<T>, now: &BTreeMap<String, T>, of: fn(&T) -> Compared) -> String {
    let mut rows: Vec<(f64, [String; 7])> = Vec::new();
    for swing in &found.swings {
        for (design, then) in &swing.designs {
            let Some(now) = now.get(design) else { continue };
            let (now, then) = (of(now), of(then));
            let change = |figure: usize| {
                let both = now[figure].zip(then[figure]).filter(|(now, _)| *now > 0.0);
                both.map(|(now, then)| then / now - 1.0)
            };
            let changes = [change(0), change(1), change(2), change(3)];
            let most = changes.iter().flatten().fold(0.0, |most: f64, change| most.max(change.abs()));
            if most >= LEAST_CHANGE {
                let percent = |change: Option<f64>| table::cell(change, |change| format!("{:+.1}", change * 100.0));
                let [mean, p99, lifetime, power] = changes.map(percent);
                rows.push((most, [design.clone(), value(swing), off_by(swing), mean, p99, lifetime, power]));
            }
        }
    }
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let tried = found.swings.len().div_ceil(2);
    if rows.is_empty() {
        return format!("\nNone of {tried} estimates changes mean, p99, lifetime or power by 1 % if it is 30 % off\n");
    }
    let mut shown =
        table::figures(&["design", "estimate", "off by\n%", "mean ms\n%", "p99 ms\n%", "lifetime\n%", "power\n%"]);
    let more = rows.len().saturating_sub(MOST_ROWS);
    for (_, row) in rows.into_iter().take(MOST_ROWS) {
        shown.add_row(row);
    }
    let more = if more > 0 { format!("{more} more rows, with less, are left out\n") } else { String::new() };
    format!("\n{}{more}{}", shown.shown(), left(found))
}

fn left<T>(found: &Sensitivity<T>) -> String {
    let mut text = String::new();
    if !found.not_varied.is_empty() {
        text += &format!(
            "Not tried, for they are no quantities or would be another device: {}\n",
            found.not_varied.join(", ")
        );
    }
    if found.left_out > 0 {
        text += &format!("{} more estimates were not tried\n", found.left_out);
    }
    text
}

/// The profile and the path of the value.
pub fn value<T>(swing: &Swing<T>) -> String {
    format!("{} {}", swing.profile, swing.value)
}

/// The change of the value in percent.
pub fn off_by<T>(swing: &Swing<T>) -> String {
    format!("{:+.0}", swing.off_by * 100.0)
}
