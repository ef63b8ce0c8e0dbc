//! Comments of the source as texts for people.

/// Text without the links of Rust's documentation: `[`X`](path)` and `[`X`]` become `X`.
pub(crate) fn without_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("[`") {
        let Some(end) = rest[start..].find("`]").map(|end| start + end) else { break };
        plain += &rest[..start];
        plain += &rest[start + 1..=end];
        rest = &rest[end + 2..];
        if rest.starts_with('(')
            && let Some(close) = rest.find(')')
        {
            rest = &rest[close + 1..];
        }
    }
    // Lines are broken for the width of the source.
    (plain + rest).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_source_are_left_out() {
        let text = "The interval\naround it: see [`X`]. As in [`Report`](crate::Report), [0, 1] and `y`.";
        assert_eq!(without_links(text), "The interval around it: see `X`. As in `Report`, [0, 1] and `y`.");
    }
}
