//! The page of `peryton trace mrc`: miss ratios against the size of the cache.

use maud::html;
use peryton_sim::CurveRow;
use peryton_units::Bytes;

use super::{
    figure::{Figures, Line, Points, Scale},
    frame::{Head, counted, page, sentence, warned_below},
};
use crate::table::{self, Table};

/// The curves as a page.
pub fn miss_ratios(rows: &[CurveRow], figures_of_each: &Table, trace: &str, repeat: &str) -> String {
    let mut figures = Figures::default();
    let mut names: Vec<String> = rows.iter().map(|row| row.replacement.to_string()).collect();
    names.dedup();
    let policies: Vec<&str> = names.iter().map(String::as_str).collect();
    let of = |policy: &str| rows.iter().filter(|row| row.replacement.to_string() == policy).collect::<Vec<_>>();
    type Ratio = fn(&CurveRow) -> Option<f64>;
    let ratios: &[(&str, Ratio)] = &[
        ("accesses", |row| Some(row.ratios.blocks.all)),
        ("reads", |row| row.ratios.blocks.read),
        ("writes", |row| row.ratios.blocks.write),
        ("bytes", |row| Some(row.ratios.bytes.all)),
    ];
    let view = |(name, ratio): &(&str, Ratio)| {
        let line = |(index, policy): (usize, &&str)| {
            let points =
                of(policy).into_iter().filter_map(|row| Some((row.ratios.cache_bytes as f64, ratio(row)? * 100.0)));
            let interval = |row: &CurveRow| {
                let interval = row.interval.filter(|_| *name == "accesses")?;
                Some((row.ratios.cache_bytes as f64, [interval.low * 100.0, interval.high * 100.0]))
            };
            let band = of(policy).into_iter().filter_map(interval);
            Line::new(policy, index, points).band(band).points(if rows.len() / policies.len() > 40 {
                Points::Hidden
            } else {
                Points::Marked
            })
        };
        ((*name).to_owned(), policies.iter().enumerate().map(line).collect())
    };
    let views = ratios.iter().map(view).collect();
    let axes = (Scale::new("size of the cache", "bytes").log(), Scale::new("", "%").up_to(100.0));
    let mut warnings = Vec::new();
    let worst = rows.iter().filter_map(|row| row.sampling_error).fold(0.0, f64::max);
    let halves = rows.iter().filter_map(|row| row.interval).map(|interval| (interval.high - interval.low) / 2.0);
    let widest = halves.fold(0.0, f64::max);
    let rate = rows.iter().map(|row| row.rate).fold(1.0, f64::min);
    if rate < 1.0 {
        let text = format!(
            "a sample of {} % of the blocks stands for all; LRU's error in it, up to {} %-points, was taken from every curve, and what is left is \
             up to {} %-points (95 %, shaded), except in caches of which fewer than 100 blocks were simulated",
            table::number(rate * 100.0),
            table::number(worst * 100.0),
            table::number(widest * 100.0)
        );
        warnings.push(("sampled".to_owned(), sentence(&text)));
    }
    let body = html! {
        h2 { "Misses" }
        div class="charts one" { (figures.lines(("Miss ratio", "%"), axes, views, &[])) }
        h2 { "Figures" }
        p class="about" { (table::SORTED) }
        (figures_of_each)
    };
    let verdict = [answer(&policies, &of), {
        let text = format!(
            "This rests on every request of {trace}{} {}, on a cache that is empty at the start, and on {}{}",
            rows.first().map_or_else(String::new, |row| format!(" (hash {})", row.of.trace_hash)),
            match rows.first().and_then(|row| row.of.block_bytes) {
                Some(block) => format!("in blocks of {}", Bytes(block)),
                None => "for objects of their own sizes".to_owned(),
            },
            counted(policies.len(), "policy that takes in every miss", "policies that take in every miss"),
            warned_below(warnings.len())
        );
        sentence(&text)
    }];
    page(&Head { title: &format!("Miss ratios of {trace}"), verdict, warnings }, repeat, &figures, &body)
}

type Of<'a> = dyn Fn(&str) -> Vec<&'a CurveRow> + 'a;

/// Where a larger cache stops helping, and where another policy gains most.
fn answer(policies: &[&str], of: &Of<'_>) -> String {
    /// Misses within this of the least count as the least.
    const NEAR: f64 = 0.01;
    let Some(first) = policies.first().map(|policy| of(policy)).filter(|rows| !rows.is_empty()) else {
        return "The trace has no accesses.".to_owned();
    };
    let least = first[first.len() - 1].ratios.blocks.all;
    let enough = first.iter().find(|row| row.ratios.blocks.all <= least + NEAR).unwrap_or(&first[first.len() - 1]);
    let mut text = format!(
        "with {} a cache of {} misses {} % of the accesses, and no larger size misses less by more than a percentage point",
        policies[0],
        Bytes(enough.ratios.cache_bytes),
        table::number(enough.ratios.blocks.all * 100.0)
    );
    let others: Vec<(&str, Vec<&CurveRow>)> =
        policies[1..].iter().filter(|policy| **policy != "opt").map(|policy| (*policy, of(policy))).collect();
    let gain = |(index, row): (usize, &&CurveRow)| {
        let best = others.iter().map(|(policy, rows)| (rows[index].ratios.blocks.all, *policy));
        let (ratio, policy) = best.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((row.ratios.blocks.all - ratio, ratio, policy, index))
    };
    if let Some((gain, ratio, policy, index)) =
        first.iter().enumerate().filter_map(gain).max_by(|a, b| a.0.total_cmp(&b.0))
    {
        text += &match gain > NEAR {
            true => format!(
                "; most is gained by {policy} at {}, {} % in place of {} %",
                Bytes(first[index].ratios.cache_bytes),
                table::number(ratio * 100.0),
                table::number(first[index].ratios.blocks.all * 100.0)
            ),
            false => "; no other policy misses less by more than a percentage point at any size".to_owned(),
        };
    }
    sentence(&text)
}
