//! Which dotted paths are keys of designs, and which one was probably meant by another.

use super::{design_keys, model_keys};

/// The table of a device that has the parameters of its model.
const MODEL: &str = "model";
/// What follows a device's name in the paths of a design that is in its place.
const DESIGN: &str = ".design.";

/// The parameter of a device model that a path names.
fn parameter(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("devices.")?;
    let (device, rest) = rest.split_once('.')?;
    Some((device, rest.strip_prefix(MODEL)?.strip_prefix('.')?))
}

/// The path within the design of a device that is a drive, and what is before that.
fn inside(path: &str) -> Option<(&str, &str)> {
    let (device, _) = path.strip_prefix("devices.")?.split_once('.')?;
    path.split_at_checked("devices.".len() + device.len() + DESIGN.len()).filter(|(before, _)| before.ends_with(DESIGN))
}

/// Whether a design may have a key, or a table of keys, at this dotted path, in which devices have names.
///
/// ```
/// use peryton_sim::{is_design_key, nearest_design_key};
///
/// assert!(is_design_key("placement.promotion.threshold") && is_design_key("placement.promotion"));
/// assert!(is_design_key("devices.ssd.size") && is_design_key("devices.hdd.model.rpm"));
/// assert!(!is_design_key("devices.ssd.sice"));
/// assert_eq!(nearest_design_key("devices.ssd.sice").as_deref(), Some("devices.ssd.size"));
/// ```
pub fn is_design_key(path: &str) -> bool {
    if let Some((_, inside)) = inside(path) {
        return is_design_key(inside);
    }
    if let Some((_, mine)) = parameter(path) {
        return model_keys().iter().any(|key| is_at_or_below(&key.path, mine));
    }
    let depth = path.split('.').count();
    // A table is a path that keys begin with.
    let cut = |key: &str| key.split('.').take(depth).collect::<Vec<_>>().join(".");
    design_keys().any(|key| is_at(&cut(key.path), path))
}

fn is_at_or_below(key: &str, path: &str) -> bool {
    key == path || key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a key, in which `NAME` is any device, is this path.
fn is_at(key: &str, path: &str) -> bool {
    let (mut mine, mut theirs) = (key.split('.'), path.split('.').map(str::trim));
    loop {
        match (mine.next(), theirs.next()) {
            (None, None) => return true,
            (Some("NAME"), Some(name)) if !name.is_empty() => {}
            (Some(mine), Some(theirs)) if mine == theirs => {}
            _ => return false,
        }
    }
}

/// The key that was probably meant by a path that is none; `None` if all are far from it.
pub fn nearest_design_key(path: &str) -> Option<String> {
    if let Some((before, inside)) = inside(path) {
        return nearest_design_key(inside).map(|meant| format!("{before}{meant}"));
    }
    let device = path.split('.').nth(1).filter(|name| !name.is_empty()).unwrap_or("NAME");
    let keys = design_keys().map(|key| named(key.path, device));
    let parameters = model_keys().into_iter().map(|key| format!("devices.{device}.{MODEL}.{}", key.path));
    let known: Vec<String> = match parameter(path) {
        Some(_) => parameters.collect(),
        None => keys.collect(),
    };
    peryton_device::nearest(path, known.iter().map(String::as_str)).map(str::to_owned)
}

/// The path of a key, with a device's name in it.
fn named(key: &str, device: &str) -> String {
    key.split('.').map(|part| if part == "NAME" { device } else { part }).collect::<Vec<_>>().join(".")
}

/// What a person meant by a key that no design has, or where to look.
pub(crate) fn meant_by(path: &str) -> String {
    nearest_design_key(path)
        .map_or_else(|| "peryton keys lists all".to_owned(), |meant| format!("did you mean '{meant}'?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tables_and_parameters_are_known_and_others_are_not() {
        for path in [
            "name",
            "volume.size",
            "placement",
            "placement.writeback.delay",
            "power.hdd.spin_down_after",
            "endurance.read_effect",
            "endurance.ssd.written",
            "devices.ssd",
            "devices.ssd.model",
            "devices.ssd.model.precondition",
            "devices.cold.design",
            "devices.cold.design.placement.mode",
            "devices.cold.design.devices.cold.design.devices.ssd.model.precondition",
        ] {
            assert!(is_design_key(path), "{path}");
        }
        for path in
            ["", ".", "size", "volume.", "devices..size", "placement.promotion.threshold.x", "devices.ssd.model.colour"]
        {
            assert!(!is_design_key(path), "{path}");
        }
    }

    #[test]
    fn a_typing_error_finds_its_key() {
        for (path, meant) in [
            ("placement.promotion.treshold", "placement.promotion.threshold"),
            ("placment.max_moves", "placement.max_moves"),
            ("devices.fast.sise", "devices.fast.size"),
            ("devices.hdd.model.rmp", "devices.hdd.model.rpm"),
            ("power.disk.spin_down", "power.disk.spin_down_after"),
            ("devices.cold.design.placment.fast", "devices.cold.design.placement.fast"),
        ] {
            assert_eq!(nearest_design_key(path).as_deref(), Some(meant), "{path}");
        }
        assert_eq!(nearest_design_key("colour.of.the.case"), None);
        assert_eq!(nearest_design_key(&"x".repeat(100_000)), None);
    }
}
