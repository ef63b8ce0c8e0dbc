/// The entry of `known` that `word` was most likely meant to be, or none if all are far from it.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Hostile input must not buy a quadratic comparison.
    const LONGEST: usize = 128;
    if word.len() > LONGEST {
        return None;
    }
    let word_chars: Vec<char> = word.to_lowercase().chars().collect();
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(&word_chars, candidate), candidate))
        .filter(|&(distance, candidate)| {
            // A word that begins another is an abbreviation of it, however much is missing.
            distance <= 1 + word_chars.len().max(candidate.len()) / 3
                || (word.len() >= 3 && candidate.starts_with(word))
                || (word.len() >= 3 && candidate.contains(word))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Edits (insert, delete, substitute) from one word to the other.
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Turns serde's "unknown field `x`, expected one of `a`, `b`" into a line with the one key that was probably meant.
pub fn explain_unknown_key(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else { return message.to_owned() };
    let Some((key, rest)) = rest.split_once('`') else { return message.to_owned() };
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    match nearest(key, known.iter().copied()) {
        Some(meant) => format!("unknown key '{key}': did you mean '{meant}'?"),
        None => format!("unknown key '{key}': use one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_key_and_noise_finds_none() {
        let known = ["channels", "dies_per_channel", "page", "pages_per_block"];
        assert_eq!(nearest("chanels", known), Some("channels"));
        assert_eq!(nearest("pages_per_blok", known), Some("pages_per_block"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(
            explain_unknown_key("unknown field `pgae`, expected one of `channels`, `page`"),
            "unknown key 'pgae': did you mean 'page'?"
        );
    }
}
