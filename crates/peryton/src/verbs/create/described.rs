//! The design that options describe, and the answers to the questions that they leave open.

use peryton_device::Profile;
use peryton_drive::Linux;
use peryton_engine::PlacementKind;
use peryton_units::Bytes;

use super::{Args, asking::Asking, mode};
use crate::{
    failure::Failure,
    new_design::{Named, NewDesign, NewDevice, Write, names},
};

/// The profiles of designs to simulate, unless others are named.
const FAST: &str = "wd-black-sn850x-2tb";
const SLOW: &str = "seagate-exos-x20-20tb";
/// The share of the volume that the smaller device of a design to simulate has.
const SMALL_SHARE: u64 = 16;

pub fn gather(args: &Args, asking: &mut Asking<'_>) -> Result<NewDesign, Failure> {
    use PlacementKind::{Caching, Logging, Partitioned, Single};
    let asks = asking.is_there();
    let mode = match args.mode {
        Some(mode) => mode,
        None => asking.answer(
            "How are the devices to be used?\n  caching      the slow device has all data, the fast one copies of what is used most\n  \
             tiering      each extent is on one of them: together they are the volume\n  partitioned  writes go to the device \
             that answers sooner\n  logging      writes are appended to a log on the slow device before the fast one\n  linear       one \
             after the other, without moves\n  single       there is one device only",
            Caching.name(),
            |text| mode(text).ok_or_else(|| "one of these words".to_owned()),
        )?,
    };
    refuse_what_does_not_apply(args, mode)?;
    let given = [
        (&args.fast, &args.fast_profile, args.fast_size, FAST),
        (&args.slow, &args.slow_profile, args.slow_size, SLOW),
    ];
    let mut devices = Vec::new();
    for (name, (path, profile, size, usual)) in names(mode).iter().zip(given) {
        let path = match path {
            Some(path) => Some(path.clone()),
            None => asking.answer(
                &format!("Which block device or image file is the {name} one, such as /dev/sdb? (empty: a design to simulate)"),
                "",
                |text| Ok((!text.is_empty()).then(|| text.into())),
            )?,
        };
        let may_be_made = size.is_some() || args.size.is_some();
        let path = path.map(|path| Named::of(&path, &Linux::default(), may_be_made)).transpose()?;
        let profile = match profile {
            Some(name) => Some(Profile::named(name)?),
            None if path.is_some() => None,
            None => Some(asking.answer(
                &format!("Which model is the {name} device? A name of `peryton profiles`, or the path of a profile"),
                usual,
                |text| Profile::named(text).map_err(|error| error.to_string()),
            )?),
        };
        devices.push(NewDevice { path, profile, size });
    }
    let mut new = NewDesign { mode, devices, volume: args.size, write: args.write };
    // The slow device of a cache is as large as the volume.
    if let (Caching | Partitioned, [_, slow @ NewDevice { size: None, profile: None, .. }], Some(_)) =
        (mode, &mut new.devices[..], args.size)
    {
        slow.size = new.volume.take();
    }
    let paths = new.devices.iter().filter(|device| device.path.is_some()).count();
    if paths > 0 && !new.can_be_served() && args.fast_profile.is_none() && args.slow_profile.is_none() {
        let missing = if new.devices[0].path.is_none() { "--fast" } else { "--slow" };
        return Err(Failure::bad_input(format!("{missing}: is missing: name both devices")));
    }
    if paths < new.devices.len() {
        size_up(&mut new, asking)?;
    }
    if new.write.is_none() && mode == Caching && asks {
        new.write = Some(asking.answer(
            "When are writes acknowledged?\n  back     once the fast device has them: quick, but losing it loses what was not written \
             back\n  through  once both have them: losing the fast device loses nothing\n  around   once the slow device has them; they \
             are not cached",
            "back",
            |text| <Write as clap::ValueEnum>::from_str(text, false).map_err(|_| "one of these words".to_owned()),
        )?);
    }
    if mode == Single || mode == Logging {
        new.write = None;
    }
    Ok(new)
}

fn refuse_what_does_not_apply(args: &Args, mode: PlacementKind) -> Result<(), Failure> {
    let is_single = mode == PlacementKind::Single;
    for (given, option) in [
        (args.slow.is_some(), "--slow"),
        (args.slow_profile.is_some(), "--slow-profile"),
        (args.slow_size.is_some(), "--slow-size"),
    ] {
        if given && is_single {
            return Err(Failure::bad_input(format!(
                "{option}: a design with --mode single has one device: leave it out"
            )));
        }
    }
    if args.write.is_some() && mode != PlacementKind::Caching {
        return Err(Failure::bad_input(format!("--write: has no effect with --mode {}: leave it out", mode.name())));
    }
    Ok(())
}

/// Gives a design to simulate its sizes: that of the volume, and that of the smaller device.
fn size_up(new: &mut NewDesign, asking: &mut Asking<'_>) -> Result<(), Failure> {
    let capacity = |device: &NewDevice| device.profile.as_ref().map_or(Bytes::ZERO, |profile| profile.capacity);
    let largest = new.devices.iter().map(capacity).max().unwrap_or(Bytes::ZERO);
    if largest == Bytes::ZERO {
        return Ok(());
    }
    let volume = match new.volume {
        Some(volume) => volume,
        None => asking.answer(
            "How large is the volume to be? As large as the data, or as the span of addresses of the trace (peryton trace info)",
            &readable(Bytes::gib(1024).min(Bytes(largest.0 / 2))).to_string(),
            |text| size(text, largest),
        )?,
    };
    new.volume = Some(volume);
    let small = match new.mode {
        PlacementKind::Single => return Ok(()),
        PlacementKind::Logging => 1,
        _ => 0,
    };
    let device = &mut new.devices[small];
    if device.size.is_none() && device.profile.is_some() {
        let most = capacity(device);
        let usual = readable(Bytes((volume.0 / SMALL_SHARE).max(Bytes::mib(64).0)).min(most));
        let name = names(new.mode)[small];
        let question = format!("How much of the {name} device is to be used? (peryton size says how much is enough)");
        device.size = Some(asking.answer(&question, &usual.to_string(), |text| size(text, most))?);
    }
    Ok(())
}

/// A smaller size that is easier to read.
fn readable(size: Bytes) -> Bytes {
    let unit = [Bytes::gib(1), Bytes::mib(1)].into_iter().find(|unit| size >= *unit).unwrap_or(Bytes(1));
    Bytes(size.0 - size.0 % unit.0)
}

/// A size above 0 and up to another.
fn size(text: &str, most: Bytes) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(Bytes::ZERO) => Err("a size above 0".to_owned()),
        Ok(size) if size > most => Err(format!("at most {most}, which is what the device has")),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use clap::Parser;
    use peryton_sim::Design;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(text: &str) -> Args {
        Cli::parse_from(["create", "new.toml"].into_iter().chain(text.split_whitespace())).args
    }

    /// The design from these answers, and what was printed meanwhile.
    fn asked(options: &str, answers: &str) -> Result<(Design, String), Failure> {
        let (mut input, mut out) = (answers.as_bytes(), Vec::new());
        let text = gather(&args(options), &mut Asking::of(&mut input, &mut out))?;
        let text = text.written(Path::new("new.toml"), &[])?.text;
        Ok((Design::parse(&text, "design", &[]).unwrap(), String::from_utf8(out).unwrap()))
    }

    #[test]
    fn questions_are_asked_again_until_they_are_answered() {
        let (design, out) = asked("", "cash\ncaching\n\nwd-black\n\n\n\n64TiB\n2TiB\n\nthrough\n").unwrap();
        assert_eq!((design.volume, design.devices[0].data), (Bytes::gib(2048), Bytes::gib(128)));
        assert!(out.contains("one of these words") && out.contains("did you mean 'wd-black-sn850x-2tb'?"), "{out}");
        assert!(out.contains("at most") && out.matches("How are the devices").count() == 1, "{out}");
        assert!(design.toml.contains("write = \"through\""), "{}", design.toml);
    }

    #[test]
    fn what_options_say_is_not_asked() {
        let (design, out) = asked("--mode single --fast-profile intel-320-300gb --size 64GiB", "\n").unwrap();
        assert_eq!((design.volume, design.devices.len()), (Bytes::gib(64), 1));
        assert!(out.contains("block device") && !out.contains("How"), "{out}");
    }

    #[test]
    fn every_mode_makes_a_design_without_an_answer() {
        for mode in PlacementKind::ALL {
            let text = gather(&args(&format!("--mode {}", mode.name())), &mut Asking::nobody()).unwrap();
            let text = text.written(Path::new("new.toml"), &[]).unwrap().text;
            let design = Design::parse(&text, "design", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(design.placement.kind(), mode);
            assert!(design.volume >= Bytes::gib(900), "{}: {}", mode.name(), design.volume);
            assert!(text.lines().filter(|line| line.contains('#')).count() > 3, "{text}");
        }
    }

    #[test]
    fn an_end_without_an_answer_writes_nothing() {
        let error = asked("", "caching\n").unwrap_err();
        assert!(format!("{error:?}").contains("no answer"), "{error:?}");
    }

    #[test]
    fn files_that_are_to_be_made_need_a_size() {
        let error = gather(&args("--fast /tmp/none.fast --slow /tmp/none.slow"), &mut Asking::nobody()).unwrap_err();
        assert!(format!("{error:?}").contains("none.fast"), "{error:?}");
        let new = gather(&args("--fast a --slow b --fast-size 64MiB --size 256MiB"), &mut Asking::nobody()).unwrap();
        assert!(new.can_be_served());
        let design =
            gather(&args("--fast-profile fixed"), &mut Asking::nobody()).unwrap().written(Path::new("d"), &[]).unwrap();
        let design = Design::parse(&design.text, "d", &[]);
        assert_eq!(design.unwrap().devices[0].path.as_deref(), None::<&Path>);
    }
}
