//! The fear: a document shows a command that this program does not understand.

use std::{fs, path::Path};

use clap::{ArgAction, Command};

/// The commands in the documents of a folder, with the place of each.
fn commands(folder: &Path, into: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && path.ends_with("findings") {
            commands(&path, into);
        }
        if path.extension().is_none_or(|extension| extension != "md") || path.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a document is text");
        let (mut fenced, mut begun) = (false, String::new());
        for (number, line) in text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            let line = line.trim();
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let code = fenced || text.lines().nth(number).is_some_and(|line| line.starts_with("    "));
            if !code || (begun.is_empty() && !is_command(line)) {
                begun.clear();
                continue;
            }
            begun += line;
            match begun.strip_suffix('\\') {
                Some(goes_on) => begun = format!("{} ", goes_on.trim_end()),
                None => into.push((format!("{}:{}", path.display(), number + 1), std::mem::take(&mut begun))),
            }
        }
    }
}

/// Whether a line begins with this program, and not with its name in a drawing.
fn is_command(line: &str) -> bool {
    line.strip_prefix("peryton ").is_some_and(|rest| !rest.starts_with(' '))
}

/// The words of a command, up to a comment, a pipe or another command.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (None, ' ') => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(c),
        }
    }
    words
}

/// What a command has that the program does not know.
fn unknown(program: &Command, words: &[String]) -> Option<String> {
    let mut verb = program;
    let mut words = words.iter().skip(1).peekable();
    while let Some(below) = words.peek().and_then(|word| verb.find_subcommand(word)) {
        verb = below;
        words.next();
    }
    if verb.has_subcommands() && words.peek().is_some_and(|word| !word.starts_with('-') && *word != "…") {
        return words.next().cloned();
    }
    let mut takes_value = false;
    for word in words {
        if std::mem::take(&mut takes_value) {
            continue;
        }
        let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        let mut all = verb.get_arguments().chain(program.get_arguments());
        let found = match name.strip_prefix("--") {
            Some("" | "help" | "version") => continue,
            Some(long) => all.find(|arg| {
                arg.get_long() == Some(long) || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
            }),
            None => match name.strip_prefix('-').filter(|short| !short.is_empty()) {
                Some(short) => all.find(|arg| arg.get_short() == short.chars().next()),
                None => continue,
            },
        };
        let Some(arg) = found else { return Some(word.clone()) };
        takes_value = value.is_none() && matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    }
    None
}

#[test]
fn every_command_in_the_documents_is_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    commands(&root, &mut found);
    commands(&root.join("docs"), &mut found);
    assert!(found.len() > 60, "{}", found.len());
    let program = crate::cli::command();
    let wrong: Vec<String> = found
        .iter()
        .filter_map(|(place, command)| {
            Some(format!("{place}: '{}' in: {command}", unknown(&program, &words(command))?))
        })
        .collect();
    assert!(wrong.is_empty(), "{} commands are not understood:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_not_understood_is_found() {
    let program = crate::cli::command();
    let unknown = |text: &str| unknown(&program, &words(text));
    assert_eq!(unknown("peryton sim a.toml --trace '--no' --set a=b -o x.json | less --wide").as_deref(), None);
    assert_eq!(unknown("peryton trace info a --json  # --what").as_deref(), None);
    assert_eq!(unknown("peryton sim a.toml --tracee x").as_deref(), Some("--tracee"));
    assert_eq!(unknown("peryton simulate a.toml").as_deref(), Some("simulate"));
    assert_eq!(unknown("peryton trace look a").as_deref(), Some("look"));
    assert_eq!(unknown("peryton profiles -x").as_deref(), Some("-x"));
}
