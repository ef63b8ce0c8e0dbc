//! Reports as pages: self-contained HTML files without scripts or resources from the network.

mod chart;
#[cfg(feature = "plan")]
mod lines;
mod simulation;
#[cfg(feature = "plan")]
mod sizing;
mod sorted;

use maud::{DOCTYPE, Markup, PreEscaped, html};

pub use simulation::simulation;
#[cfg(feature = "plan")]
pub use sizing::sizing;

/// Colours and sizes; they follow the reader's choice of light or dark.
const STYLE: &str = include_str!("style.css");

/// The frame around a report. `repeat` is the command that makes the report again.
fn page(title: &str, repeat: &str, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "Peryton " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
                footer {
                    p { "Made by Peryton " (env!("CARGO_PKG_VERSION")) " with" }
                    pre { code { (repeat) } }
                }
            }
        }
    };
    whole.into_string() + "\n"
}

/// The command line of this process, quoted for a shell.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("peryton".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word quoted so that a shell reads it as one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
