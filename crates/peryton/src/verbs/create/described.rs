//! The design that options describe.

use peryton_device::Profile;
use peryton_drive::Linux;
use peryton_engine::PlacementKind;
use peryton_units::Bytes;

use super::Args;
use crate::{
    failure::Failure,
    new_design::{Named, NewDesign, NewDevice, names},
};

/// The profiles of designs to simulate, unless others are named.
const FAST: &str = "wd-black-sn850x-2tb";
const SLOW: &str = "seagate-exos-x20-20tb";
/// The share of the volume that the smaller device of a design to simulate has.
const SMALL_SHARE: u64 = 16;

pub fn gather(args: &Args) -> Result<NewDesign, Failure> {
    use PlacementKind::{Caching, Partitioned};
    let mode = args.mode.unwrap_or(Caching);
    refuse_what_does_not_apply(args, mode)?;
    let given = [
        (&args.fast, &args.fast_profile, args.fast_size, FAST),
        (&args.slow, &args.slow_profile, args.slow_size, SLOW),
    ];
    let mut devices = Vec::new();
    for (path, profile, size, usual) in given.into_iter().take(names(mode).len()) {
        let may_be_made = size.is_some() || args.size.is_some();
        let path = path.as_ref().map(|path| Named::of(path, &Linux::default(), may_be_made)).transpose()?;
        let named = profile.as_ref().map(|name| Profile::named(name)).transpose()?;
        let profile = match (named, &path) {
            (None, None) => Some(Profile::named(usual)?),
            (named, _) => named,
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
        size_up(&mut new);
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
fn size_up(new: &mut NewDesign) {
    let capacity = |device: &NewDevice| device.profile.as_ref().map_or(Bytes::ZERO, |profile| profile.capacity);
    let largest = new.devices.iter().map(capacity).max().unwrap_or(Bytes::ZERO);
    if largest == Bytes::ZERO {
        return;
    }
    let volume = *new.volume.get_or_insert(readable(Bytes::gib(1024).min(Bytes(largest.0 / 2))));
    let small = match new.mode {
        PlacementKind::Single => return,
        PlacementKind::Logging => 1,
        _ => 0,
    };
    let device = &mut new.devices[small];
    if device.size.is_none() && device.profile.is_some() {
        let most = capacity(device);
        device.size = Some(readable(Bytes((volume.0 / SMALL_SHARE).max(Bytes::mib(64).0)).min(most)));
    }
}

/// A smaller size that is easier to read.
fn readable(size: Bytes) -> Bytes {
    let unit = [Bytes::gib(1), Bytes::mib(1)].into_iter().find(|unit| size >= *unit).unwrap_or(Bytes(1));
    Bytes(size.0 - size.0 % unit.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs::File, path::Path};

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

    #[test]
    fn every_mode_makes_a_design() {
        for mode in PlacementKind::ALL {
            let text = gather(&args(&format!("--mode {}", mode.name()))).unwrap();
            let text = text.written(Path::new("new.toml"), &[]).unwrap().text;
            let design = Design::parse(&text, "design", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(design.placement.kind(), mode);
            assert!(design.volume >= Bytes::gib(900), "{}: {}", mode.name(), design.volume);
            assert!(text.lines().filter(|line| line.contains('#')).count() > 3, "{text}");
        }
    }

    /// The fear: a design names files and the profiles of larger drives, and its simulation is of those drives, or refused.
    #[test]
    fn a_device_with_a_path_and_a_profile_has_the_size_of_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let [fast, slow] = ["fast", "slow"].map(|name| folder.path().join(name));
        for (path, mib) in [(&fast, 64), (&slow, 256)] {
            File::create(path).and_then(|file| file.set_len(mib << 20)).unwrap();
        }
        let text =
            format!("--fast {} --slow {} --fast-profile {FAST} --slow-profile {SLOW}", fast.display(), slow.display());
        let path = folder.path().join("d.toml");
        let written = gather(&args(&text)).unwrap().written(&path, &[]).unwrap();
        let design = Design::parse(&written.text, "d", &[]).unwrap();
        assert!(design.volume > Bytes::mib(250) && design.volume < Bytes::mib(256), "{}", design.volume);
        assert_eq!(design.volume, written.in_place(&path).unwrap().design().volume);
    }

    #[test]
    fn files_that_are_to_be_made_need_a_size() {
        let error = gather(&args("--fast /tmp/none.fast --slow /tmp/none.slow")).unwrap_err();
        assert!(format!("{error:?}").contains("none.fast"), "{error:?}");
        let new = gather(&args("--fast a --slow b --fast-size 64MiB --size 256MiB")).unwrap();
        assert!(new.can_be_served());
        let design = gather(&args("--fast-profile fixed")).unwrap().written(Path::new("d"), &[]).unwrap();
        let design = Design::parse(&design.text, "d", &[]);
        assert_eq!(design.unwrap().devices[0].path.as_deref(), None::<&Path>);
    }
}
