//! The reference of design keys says what the parser does. (That every key that is read is in it follows from types: the parser
//! reads nothing but a key of the reference.)
#![allow(missing_docs, clippy::unwrap_used)]

use peryton_engine::PlacementKind;
use peryton_sim::{Design, DesignKey, KeyDefault, design_keys};

/// A design with two devices, or one.
fn base(kind: PlacementKind) -> String {
    let devices = match kind {
        PlacementKind::Single => "[devices.hdd]\nprofile = 'seagate-st32000641as'\n",
        _ => {
            "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '1GiB'\n[devices.hdd]\nprofile = 'seagate-st32000641as'\n"
        }
    };
    let names = match kind {
        PlacementKind::Single | PlacementKind::Linear => "",
        PlacementKind::Logging => "primary = 'hdd'\nlog = 'ssd'\n",
        // A map of all of the disk.
        PlacementKind::Partitioned => "fast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\n",
        _ => "fast = 'ssd'\nslow = 'hdd'\n",
    };
    format!("{devices}[placement]\nmode = '{}'\n{names}", kind.name())
}

fn settings(key: &DesignKey, more: &[String]) -> Vec<String> {
    key.needs().iter().map(|need| need.replace("NAME", "hdd")).chain(more.iter().cloned()).collect()
}

fn set(key: &DesignKey, value: &str) -> String {
    format!("{}={value}", key.path.replace("NAME", "hdd"))
}

/// What a design is, apart from how it was written.
fn content(design: &Design) -> String {
    let Design { toml: _, overrides: _, ignored_overrides: _, .. } = design;
    let debug = format!("{design:#?}");
    let kept = debug.lines().filter(|line| !line.starts_with("    toml: "));
    let text: Vec<&str> = kept.collect();
    let text = text.join("\n");
    // Overrides are a list of texts.
    let start = text.find("\n    overrides: ").unwrap();
    let end = text[start + 1..].find("\n    ignored_overrides").unwrap() + start + 1;
    text[..start].to_owned() + &text[end..]
}

fn parsed(key: &DesignKey, kind: PlacementKind, more: &[String]) -> Result<Design, String> {
    let all = settings(key, more);
    let design =
        Design::parse(&base(kind), "d", &all).map_err(|error| format!("{} with {all:?}: {error}", kind.name()))?;
    match design.ignored_overrides.is_empty() {
        true => Ok(design),
        false => Err(format!("{}: {all:?} are ignored", kind.name())),
    }
}

/// Checks each key in each placement that has it; reports all that is wrong.
fn each(check: impl Fn(&DesignKey, PlacementKind) -> Result<(), String>) {
    let mut wrong = Vec::new();
    for key in design_keys() {
        wrong.extend(key.placements.iter().filter_map(|&kind| check(key, kind).err()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_default_is_what_holds_without_the_key() {
    each(|key, kind| {
        let KeyDefault::Value(value) = key.default else { return Ok(()) };
        let (without, with) = (parsed(key, kind, &[])?, parsed(key, kind, &[set(key, value)])?);
        let same = content(&without) == content(&with);
        same.then_some(()).ok_or_else(|| format!("{} = {value} is not the default in {}", key.path, kind.name()))
    });
}

#[test]
fn a_required_key_is_missed() {
    for key in design_keys().filter(|key| key.default == KeyDefault::Required && key.example().is_empty()) {
        for &kind in key.placements {
            let last = key.path.rsplit('.').next().unwrap();
            let text: Vec<String> =
                base(kind).lines().filter(|line| !line.starts_with(last)).map(str::to_owned).collect();
            let error = Design::parse(&text.join("\n"), "d", &[]).unwrap_err().to_string();
            assert!(error.contains(last) && error.contains("missing"), "{}: {error}", key.path);
        }
    }
}

/// The fear: a key is read, and ignored.
#[test]
fn another_value_changes_the_design_in_each_placement_that_has_the_key() {
    each(|key, kind| {
        if key.example().is_empty() {
            return Ok(());
        }
        let (without, with) = (parsed(key, kind, &[])?, parsed(key, kind, &[set(key, key.example())])?);
        let changed = content(&without) != content(&with);
        if changed == key.is_inert() {
            return Err(format!("{} = {} in {}: changed is {changed}", key.path, key.example(), kind.name()));
        }
        // Neither writes nor reads wear a disk.
        let is_of_a_disk = match key.path {
            "endurance.NAME.written" => true,
            "endurance.read_effect" => kind == PlacementKind::Single,
            _ => false,
        };
        if key.live && !is_of_a_disk {
            let (old, new) = (without.config(), with.config());
            if old.tuning == new.tuning {
                return Err(format!("{} is live but no setting of the engine", key.path));
            }
            if old.placement != new.placement || old.devices != new.devices {
                return Err(format!("{} is live but fixed by the format", key.path));
            }
        }
        Ok(())
    });
}

#[test]
fn other_placements_refuse_the_key_or_ignore_an_override() {
    for key in design_keys().filter(|key| !key.example().is_empty()) {
        for kind in PlacementKind::ALL.into_iter().filter(|kind| !key.placements.contains(kind)) {
            let mut all = settings(key, &[]);
            all.push(set(key, key.example()));
            match Design::parse(&base(kind), "d", &all) {
                Err(_) => {}
                Ok(design) => {
                    let ignored = design.ignored_overrides.contains(&(all.len() - 1));
                    assert!(ignored, "{} in {}", key.path, kind.name());
                }
            }
        }
    }
}

#[test]
fn the_words_are_those_that_the_parser_knows() {
    for key in design_keys().filter(|key| !(key.words)().is_empty()) {
        let words = (key.words)();
        let mut all = settings(key, &[]);
        all.push(set(key, "'zzzzzzzzzz'"));
        let error = Design::parse(&base(key.placements[0]), "d", &all).unwrap_err().to_string();
        for word in &words {
            assert!(error.contains(word), "{}: {word} is not in: {error}", key.path);
        }
        if key.example().is_empty() {
            continue;
        }
        for word in words {
            let mut all = settings(key, &[]);
            all.push(set(key, &format!("'{word}'")));
            let read = Design::parse(&base(key.placements[0]), "d", &all);
            // A word may need other settings, but is known.
            let unknown = read.is_err_and(|error| error.to_string().contains("is unknown"));
            assert!(!unknown, "{}: {word}", key.path);
        }
    }
}

#[test]
fn every_key_says_what_it_is_in_a_sentence_and_is_there_once() {
    let mut paths: Vec<&str> = design_keys().map(|key| key.path).collect();
    for key in design_keys() {
        let about = key.about();
        assert!(about.ends_with('.') && about.len() > 8, "{}: {about}", key.path);
        assert!(!key.type_name.is_empty(), "{}", key.path);
        let counts = key.type_name.contains("whole number") || key.type_name == "number";
        assert!(
            !counts || !key.unit.is_empty() || key.path == "seed.value" || key.type_name.contains("share"),
            "{} has no unit",
            key.path
        );
    }
    let count = paths.len();
    assert!(count > 80, "{count} keys");
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), count);
}

#[test]
fn a_path_of_a_design_finds_its_key() {
    let at = |path: &str| design_keys().find(|key| key.is_at(path)).map(|key| key.path);
    assert_eq!(at("devices.my-ssd.size"), Some("devices.NAME.size"));
    assert_eq!(at("placement.max_moves "), Some("placement.max_moves"));
    assert_eq!(at("endurance.read_effect"), Some("endurance.read_effect"));
    assert_eq!((at("placement"), at("placement.max_moves.x"), at("devices.size")), (None, None, None));
}
