//! The frame of every page: its head, verdict and warnings, its foot, and words that pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use peryton_sim::Warning;
use serde_json::Value;

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
    let body = html! {
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
            p { "Made by Peryton " (peryton_version::VERSION) " with" }
            pre { code { (repeat) } }
        }
    };
    let data = [("data", figures.charts())];
    document(&Document { title: head.title, policy: Some(POLICY.trim()), data: &data, scripts: &[], body: &body })
}

/// What a page consists of.
pub struct Document<'a> {
    pub title: &'a str,
    /// The policy, if the page itself has to state it.
    pub policy: Option<&'a str>,
    /// Data for the scripts, by the id of their element.
    pub data: &'a [(&'a str, Value)],
    /// Scripts after the one that draws charts.
    pub scripts: &'a [&'a str],
    pub body: &'a Markup,
}

/// A page with the charts' scripts and their licence.
pub fn document(parts: &Document<'_>) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                @if let Some(policy) = parts.policy { meta http-equiv="Content-Security-Policy" content=(policy); }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "Peryton " (peryton_version::VERSION) };
                // Otherwise browsers ask for one.
                link rel="icon" href="data:,";
                title { (parts.title) }
                style { (PreEscaped(LIBRARY_STYLE)) (PreEscaped(STYLE)) }
            }
            body {
                (parts.body)
                details class="licence" {
                    summary { "Charts by uPlot 1.6.32, © 2022 Leon Sorokin, MIT licence" }
                    pre { (LIBRARY_LICENCE) }
                }
                @for (id, data) in parts.data {
                    script type="application/json" id=(id) { (PreEscaped(in_script(data))) }
                }
                script { (PreEscaped(LIBRARY)) }
                script { (PreEscaped(SCRIPT)) }
                @for script in parts.scripts { script { (PreEscaped(script)) } }
            }
        }
    };
    whole.into_string() + "\n"
}

/// JSON that may stand in a script element: no text in it ends that.
fn in_script(data: &Value) -> String {
    data.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The first letter of a sentence in upper case, and a full stop at its end.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// A warning of a simulation as a note of a page: its code, and what is wrong and what to do about it.
pub fn remedied(warning: &Warning) -> (String, String) {
    (warning.code.to_owned(), format!("{} Remedy: {}.", sentence(&warning.message), warning.remedy))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::page::figure::{Line, Scale};

    #[test]
    fn no_text_ends_the_script_that_it_stands_in() {
        let mut figures = Figures::default();
        let name = "</script><script>alert('&')</script><!--";
        let lines = vec![(name.to_owned(), vec![Line::new(name, 0, [(1.0, 2.0)])])];
        let place = figures.lines((name, name), (Scale::new("x", "s"), Scale::new(name, "")), lines, &[(1.0, name)]);
        let (data, place) = (in_script(&figures.charts()), place.into_string());
        assert!(!data.contains(['<', '>', '&']) && !place.contains("<script"), "{data}\n{place}");
        let back: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(back["charts"][0]["views"][0]["series"][0]["name"], name);
    }
}
