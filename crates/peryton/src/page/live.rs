//! The page of a volume that is being served. Its figures come from the server once a second (`live.js`).

use maud::{Markup, html};
use peryton_drive::LivePage;
use serde_json::json;

use super::frame::{Document, document};

/// What asks the server and fills the page.
const SCRIPT: &str = include_str!("live.js");
/// What a browser lets the page do: run the scripts with these hashes, ask the server that it came from, and nothing else.
const POLICY: &str = include_str!("live-policy.txt");

/// The page of a volume with this name.
pub fn live(name: &str) -> LivePage {
    let about = json!({ "version": peryton_version::VERSION });
    let html = document(&Document {
        title: name,
        // The server sends it.
        policy: None,
        data: &[("data", json!({ "charts": [] })), ("page", about)],
        scripts: &[SCRIPT],
        body: &body(name),
    });
    LivePage { html: html.into(), policy: POLICY.trim().into() }
}

fn body(name: &str) -> Markup {
    html! {
        main class="live" {
            h1 { (name) }
            p id="connection" class="connection" role="status" hidden { }
            p class="verdict" { strong id="verdict-state" { "Asking the server." } " " span id="verdict-more" { "The first figures come after a second." } }
            noscript { p class="about" { "This page needs scripts, which this browser does not run. " code { "peryton top" } " shows the same on a terminal." } }
            section id="warnings" class="warnings" aria-label="What needs attention" role="status" hidden { ul id="warnings-list" { } }
            dl id="tiles" class="tiles" { }
            h2 { "Over time" }
            p class="controls" {
                label class="choice" for="span" { "Show the last " }
                select id="span" {
                    option value="300" { "5 minutes" }
                    option value="900" { "15 minutes" }
                    option value="3600" { "hour" }
                }
                button id="pause" type="button" class="plain" aria-pressed="false" { "pause" }
            }
            div id="over-time" class="charts" { }
            h2 { "Response times" }
            div id="distributions" class="charts" { }
            h2 { "Where" }
            div id="where" class="charts one" { }
            h2 { "Health" }
            p id="about" { }
            (table(&DEVICES, "devices"))
            p class="about" { "The rate of writes is that of the last hour at most. " em { "Lasts" } " is how long a new device would last at this rate. A new device has 1,000,000 eu of life; what wore it before Peryton counted is not known (" code { "peryton status --mark" } " sets the mark)." }
            p id="no-drives" class="about" { "No drive beneath the volume is read (" code { "peryton serve --health" } ", docs/monitor.md)." }
            div id="of-drives" hidden {
                (table(&DRIVES, "drives"))
                p class="about" { "The figures are those that each drive reports. Only drives that count the writes to their flash have a " em { "write amplification" } ", and " em { "left" } " is estimated at the rate of the life so far." }
            }
            h2 { "Settings" }
            p class="about" { "Settings that override the design. They hold when the volume is served again, until they are taken back (" code { "peryton set" } ")." }
            ul id="in-force" class="in-force" { }
            h2 { "Events" }
            (table(&EVENTS, "events"))
        }
        footer { p { "Peryton " (peryton_version::VERSION) ", " code { "peryton serve --http" } ". The same figures: " a href="live.json" { "live.json" } ", " a href="metrics" { "metrics" } "." } }
    }
}

/// The columns of the devices; the first two have text.
const DEVICES: [&str; 15] = [
    "device",
    "state",
    "size",
    "used",
    "errors",
    "retries",
    "failed flushes",
    "outages",
    "power",
    "written since opened",
    "written now",
    "wear budget",
    "lasts",
    "life left, eu",
    "used since the mark, eu",
];
/// The columns of the drives beneath them; the first two have text.
const DRIVES: [&str; 11] = [
    "drive",
    "says",
    "of device",
    "read",
    "temperature",
    "life used",
    "spare",
    "media errors",
    "written by hosts",
    "write amplification",
    "left",
];
const EVENTS: [&str; 3] = ["time", "event", "about"];

fn table(columns: &[&str], id: &str) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(id) {
            table {
                thead { tr { @for (index, column) in columns.iter().enumerate() {
                    th scope="col" class=[(index < 2 || columns.len() == EVENTS.len()).then_some("text")] { (column) }
                } } }
                tbody id=(id) { }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_for_its_volume_and_no_name_becomes_markup() {
        let page = live("<b class=hostile>&");
        assert!(!page.html.contains("<b class=hostile>") && page.html.contains("&lt;b class=hostile&gt;&amp;"));
        for part in [
            "default-src 'none'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'none'",
            "base-uri 'none'",
        ] {
            assert!(page.policy.contains(part), "{}", page.policy);
        }
        assert!(!page.policy.contains('\n'));
    }
}
