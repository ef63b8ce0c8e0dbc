//! The frame of every page: its head, verdict and warnings, its foot, and words that pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::figure::Figures;

/// Colours and sizes; they follow the reader's choice of light or dark.
const STYLE: &str = include_str!("style.css");
/// The chart library (`uplot/README.md`).
const LIBRARY: &str = include_str!("uplot/uPlot.iife.min.js");
const LIBRARY_LICENCE: &str = include_str!("uplot/LICENSE");
const LIBRARY_STYLE: &str = include_str!("uplot/uPlot.min.css");
/// What draws the charts with it.
const SCRIPT: &str = include_str!("page.js");
/// What a browser lets a page do: run the scripts with these hashes, which a test compares with the files, and nothing else.
const POLICY: &str = include_str!("policy.txt");

/// What is at the top of every page.
pub struct Head<'a> {
    pub title: &'a str,
    /// Two sentences: the answer, and what it rests on.
    pub verdict: [String; 2],
    /// What makes the figures misleading: a code, and a sentence.
    pub warnings: Vec<(String, String)>,
}

/// The frame around a report. `repeat` is the command that makes the report again.
pub fn page(head: &Head<'_>, repeat: &str, figures: &Figures, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY.trim());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "Peryton " (env!("CARGO_PKG_VERSION")) };
                title { (head.title) }
                style { (PreEscaped(LIBRARY_STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (head.title) }
                    p class="verdict" { strong { (head.verdict[0]) } " " (head.verdict[1]) }
                    @if !head.warnings.is_empty() {
                        section class="warnings" aria-labelledby="unfair" {
                            h2 id="unfair" { "Before believing these figures" }
                            ul { @for (code, text) in &head.warnings { li class="note" id=(code) { (text) } } }
                        }
                    }
                    noscript { p class="about" { "The charts need scripts, which this browser does not run. The tables have the figures." } }
                    (body)
                }
                footer {
                    p { "Made by Peryton " (env!("CARGO_PKG_VERSION")) " with" }
                    pre { code { (repeat) } }
                    details {
                        summary { "Charts by uPlot 1.6.32, © 2022 Leon Sorokin, MIT licence" }
                        pre { (LIBRARY_LICENCE) }
                    }
                }
                script type="application/json" id="data" { (PreEscaped(figures.data())) }
                script { (PreEscaped(LIBRARY)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    whole.into_string() + "\n"
}

/// The first letter of a sentence in upper case, and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// A number in groups of three digits.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join("\u{202f}")
}

/// A number with its noun.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The end of a verdict: how many warnings are below it.
pub fn warned_below(count: usize) -> String {
    match count {
        0 => "; no warning applies".to_owned(),
        1 => "; the warning below limits it".to_owned(),
        count => format!("; the {count} warnings below limit it"),
    }
}
