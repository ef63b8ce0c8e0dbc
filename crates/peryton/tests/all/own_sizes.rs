//! The fear: a design that leaves sizes to its devices means another volume tomorrow, or one that does not fit.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

use crate::common::peryton;
use crate::serving::Serving;
use serde_json::Value;

const MIB: u64 = 1 << 20;
/// Odd sizes: neither whole blocks nor whole extents.
const OWN: [(&str, u64); 2] = [("small.img", 8 * MIB + 12_288), ("large.img", 33 * MIB + 512)];

/// A folder with two empty devices, and a design that has no word about them but their paths.
fn folder(placement: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    OWN.iter().for_each(|(name, bytes)| File::create(folder.path().join(name)).unwrap().set_len(*bytes).unwrap());
    design(folder.path(), "path = 'small.img'", "path = 'large.img'", placement);
    folder
}

fn design(folder: &Path, small: &str, large: &str, placement: &str) {
    let text = format!("[devices.small]\n{small}\n[devices.large]\n{large}\n[placement]\n{placement}");
    fs::write(folder.join("v.toml"), text).unwrap();
}

fn pair(mode: &str) -> String {
    format!("mode = '{mode}'\nfast = 'small'\nslow = 'large'\nextent = '64KiB'\n")
}

fn placements() -> [(&'static str, String); 5] {
    [
        ("caching", pair("caching")),
        ("tiering", pair("tiering")),
        ("partitioned", pair("partitioned")),
        ("logging", "mode = 'logging'\nlog = 'small'\nprimary = 'large'\n".to_owned()),
        ("linear", "mode = 'linear'\ndevices = ['small', 'large']\n".to_owned()),
    ]
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&peryton(folder, args).ok().out).unwrap()
}

#[test]
fn devices_are_used_as_a_whole_and_never_beyond_their_end() {
    for (mode, placement) in placements() {
        let folder = folder(&placement);
        let made = json(folder.path(), &["create", "v.toml", "--json"]);
        for (index, (name, own)) in OWN.into_iter().enumerate() {
            let used = made["devices"][index]["used"].as_u64().unwrap();
            assert!(used <= own && used + MIB > own, "{mode}: {used} of the {own} bytes of {name} are used");
            assert_eq!(fs::metadata(folder.path().join(name)).unwrap().len(), own, "{mode}: {name} has another size");
        }
        let (serving, mut client) = Serving::start(folder.path(), &[]);
        let size = client.size;
        assert_eq!(made["size"].as_u64(), Some(size), "{mode}");
        client.write(size - 4096, &[7; 4096], true).unwrap();
        drop((client, serving));
        let check = peryton(folder.path(), &["check", "v.toml"]);
        assert_eq!(check.code & !(4 | 8), 0, "{mode}: {}{}", check.out, check.err);
        let (_serving, mut client) = Serving::start(folder.path(), &[]);
        assert_eq!((client.size, client.read(size - 4096, 4096)), (size, Ok(vec![7; 4096])), "{mode}");
    }
}

#[test]
fn a_volume_keeps_its_size_when_its_devices_grow_and_when_one_is_lost() {
    for (mode, placement) in placements() {
        let folder = folder(&placement);
        let size = json(folder.path(), &["create", "v.toml", "--json"])["size"].as_u64().unwrap();
        for (name, _) in OWN {
            let device = fs::OpenOptions::new().write(true).open(folder.path().join(name)).unwrap();
            device.set_len(64 * MIB).unwrap();
        }
        let (serving, client) = Serving::start(folder.path(), &[]);
        assert_eq!(client.size, size, "{mode}");
        drop((client, serving));
        // A volume that is formatted again takes what is there now.
        let again = json(folder.path(), &["create", "v.toml", "--force", "--json"])["size"].as_u64().unwrap();
        assert!(again > size + 20 * MIB, "{mode}: {again}");
        let (serving, client) = Serving::start(folder.path(), &[]);
        assert_eq!(client.size, again, "{mode}");
        drop((client, serving));
        // A device of another volume, which was formatted later, is in its place; it must not be asked.
        let other = tempfile::tempdir().unwrap();
        File::create(other.path().join("large.img")).unwrap().set_len(40 * MIB).unwrap();
        fs::rename(folder.path().join("small.img"), other.path().join("small.img")).unwrap();
        fs::copy(folder.path().join("v.toml"), other.path().join("v.toml")).unwrap();
        peryton(other.path(), &["create", "v.toml", "--force"]).ok();
        fs::rename(other.path().join("small.img"), folder.path().join("small.img")).unwrap();
        let (serving, client) = Serving::start(folder.path(), &["--without", "small"]);
        assert_eq!(client.size, again, "{mode}, without a device");
        drop((client, serving));
        fs::remove_file(folder.path().join("small.img")).unwrap();
        let (_serving, client) = Serving::start(folder.path(), &["--without", "small"]);
        assert_eq!(client.size, again, "{mode}, without a device");
    }
}

#[test]
fn a_lost_device_is_replaced_by_a_larger_one_and_the_volume_stays_as_it_is() {
    let folder = folder(&pair("caching"));
    let size = json(folder.path(), &["create", "v.toml", "--json"])["size"].as_u64().unwrap();
    let small = folder.path().join("small.img");
    fs::remove_file(&small).unwrap();
    File::create(&small).unwrap().set_len(20 * MIB).unwrap();
    peryton(folder.path(), &["replace", "v.toml", "small", "--with", "small.img"]).ok();
    let (_serving, client) = Serving::start(folder.path(), &[]);
    assert_eq!(client.size, size);
}

/// The fear: the volume does not start again, because its design says what was true before the change.
#[test]
fn a_volume_keeps_its_sizes_whatever_the_design_says() {
    let folder = folder(&pair("caching"));
    let paths = ["path = 'small.img'", "path = 'large.img'"];
    let given = format!("{}[volume]\nsize = '12MiB'\n", pair("caching"));
    design(folder.path(), &format!("size = '4MiB'\n{}", paths[0]), paths[1], &given);
    peryton(folder.path(), &["create", "v.toml", "--force"]).ok();
    {
        let (_serving, _client) = Serving::start(folder.path(), &[]);
        let run = peryton(folder.path(), &["resize", "v.toml", "small", "--wait"]).ok();
        assert!(
            run.out.contains("v.toml:2: devices.small.size: is 4MiB, and the volume has 6592KiB there"),
            "{}",
            run.out
        );
        let run = peryton(folder.path(), &["resize", "v.toml", "large", "--wait"]).ok();
        assert!(run.out.contains("volume.size: is 12MiB, and the volume has 33488896 there"), "{}", run.out);
    }
    let (_serving, client) = Serving::start(folder.path(), &[]);
    assert!(client.size > 30 * MIB, "{}", client.size);
    let log = fs::read_to_string(folder.path().join("serve.log")).unwrap();
    assert!(log.contains("devices.small.size: is 4MiB, and the volume has"), "{log}");
    // A new volume has what the design says.
    drop((client, _serving));
    let made = json(folder.path(), &["create", "v.toml", "--force", "--json"]);
    assert_eq!(made["size"].as_u64(), Some(12 * MIB));
}

/// The fear: what was said of sizes is lost with the block that an installer or a partitioning tool writes first.
#[test]
fn sizes_are_found_where_the_first_superblock_is_damaged() {
    for (mode, placement) in placements() {
        let folder = folder(&placement);
        let size = json(folder.path(), &["create", "v.toml", "--json"])["size"].as_u64().unwrap();
        for (name, _) in OWN {
            let device = fs::OpenOptions::new().write(true).open(folder.path().join(name)).unwrap();
            device.write_all_at(&[0xee; 4096], 0).unwrap();
        }
        // By the copies at the end, which are at another distance from it than where the devices end.
        let large = fs::OpenOptions::new().write(true).open(folder.path().join("large.img")).unwrap();
        large.set_len(34 * MIB).unwrap();
        let (_serving, client) = Serving::start(folder.path(), &[]);
        assert_eq!(client.size, size, "{mode}");
    }
}

#[test]
fn a_profile_may_be_given_without_a_size_and_a_size_without_a_profile() {
    // The one profile has 300 GB, and the other 10 MiB; the devices have what they have.
    let folder = folder("");
    let tiny = "profile = 'fixed'\nmodel = { capacity = '10MiB' }\npath = 'large.img'";
    design(folder.path(), "profile = 'intel-320-300gb'\npath = 'small.img'", tiny, &pair("caching"));
    let made = json(folder.path(), &["create", "v.toml", "--json"]);
    for (index, (name, own)) in OWN.into_iter().enumerate() {
        let used = made["devices"][index]["used"].as_u64().unwrap();
        assert!(used <= own && used + MIB > own, "{used} of the {own} bytes of {name} are used");
    }
    design(folder.path(), "path = 'small.img'", "path = 'large.img'\nsize = '16MiB'", &pair("caching"));
    let made = json(folder.path(), &["create", "v.toml", "--force", "--json"]);
    assert_eq!(made["size"].as_u64(), Some(16 * MIB), "{made}");
    let (serving, client) = Serving::start(folder.path(), &[]);
    assert_eq!(client.size, 16 * MIB);
    drop((client, serving));
    // The size of the volume instead of that of a device.
    design(
        folder.path(),
        "path = 'small.img'",
        "path = 'large.img'",
        &format!("{}[volume]\nsize = '12MiB'\n", pair("caching")),
    );
    peryton(folder.path(), &["create", "v.toml", "--force"]).ok();
    let (serving, client) = Serving::start(folder.path(), &[]);
    assert_eq!(client.size, 12 * MIB);
    drop((client, serving));
}

#[test]
fn what_may_change_while_the_volume_is_served_can_be_changed_without_profiles() {
    let folder = folder(&pair("caching"));
    peryton(folder.path(), &["create", "v.toml"]).ok();
    let (_serving, client) = Serving::start(folder.path(), &[]);
    peryton(folder.path(), &["set", "v.toml", "placement.max_moves=4", "placement.write=through"]).ok();
    peryton(folder.path(), &["set", "v.toml", "climb.caps.lifetime_years=5"])
        .fails(2, &["climb.caps.lifetime_years", "endurance.NAME.written"]);
    drop(client);
}

/// The fear: a device gets another name in the design, and nothing says that its motor runs day and night again.
#[test]
fn a_kept_setting_that_does_not_fit_an_edited_design_is_reported() {
    let folder = folder(&pair("caching"));
    peryton(folder.path(), &["create", "v.toml"]).ok();
    let (serving, client) = Serving::start(folder.path(), &[]);
    let asleep = "power.large.spin_down_after=5min";
    peryton(folder.path(), &["set", "v.toml", "placement.max_moves=4", asleep]).ok();
    drop((client, serving));
    let text = fs::read_to_string(folder.path().join("v.toml")).unwrap();
    let renamed = text.replace("devices.large", "devices.disk").replace("slow = 'large'", "slow = 'disk'");
    fs::write(folder.path().join("v.toml"), renamed).unwrap();
    let (_serving, _client) = Serving::start(folder.path(), &[]);
    let settings = &json(folder.path(), &["status", "v.toml", "--json"])["settings"];
    assert_eq!(*settings, serde_json::json!(["placement.max_moves=4"]));
    let events = peryton(folder.path(), &["events", "v.toml", "--json"]).ok().out;
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reported = events.iter().find(|event| event["event"] == "not_set").unwrap();
    assert_eq!(reported["setting"], asleep);
    let log = fs::read_to_string(folder.path().join("serve.log")).unwrap();
    let why =
        format!("a setting that was kept with the volume is not in force: {asleep}: does not apply to this design");
    assert!(log.contains(&why), "{log}");
}

#[test]
fn swapped_paths_and_other_modes_are_found_without_sizes() {
    let folder = folder(&pair("caching"));
    peryton(folder.path(), &["create", "v.toml"]).ok();
    design(folder.path(), "path = 'large.img'", "path = 'small.img'", &pair("caching"));
    peryton(folder.path(), &["serve", "v.toml"]).fails(2, &["of the volume: swap the paths"]);
    design(folder.path(), "path = 'small.img'", "path = 'large.img'", &pair("tiering"));
    peryton(folder.path(), &["serve", "v.toml"]).fails(2, &["placement.mode is tiering in the design and caching on"]);
    design(
        folder.path(),
        "path = 'small.img'",
        "path = 'large.img'",
        "mode = 'caching'\nfast = 'small'\nslow = 'large'\nextent = '128KiB'\n",
    );
    peryton(folder.path(), &["serve", "v.toml"]).fails(2, &["extent"]);
    // Smaller extents need more metadata, so that a volume of this size has no room: what is wrong is the design, not the device.
    let sized = |size: u64| format!("path = 'large.img'\nsize = {size}");
    let small = pair("caching").replace("64KiB", "16KiB");
    design(folder.path(), "path = 'small.img'", &sized(33 * MIB), &small);
    peryton(folder.path(), &["serve", "v.toml"]).fails(2, &["placement.extent", "16KiB in the design and 64KiB"]);
}

/// The fear: nothing tells which device is the wrong one, and a verb blames one of them, or has the paths exchanged that are not.
#[test]
fn devices_that_do_not_belong_together_are_each_named_with_their_volume() {
    let folder = folder(&pair("caching"));
    let volume =
        || json(folder.path(), &["create", "v.toml", "--force", "--json"])["volume"].as_str().unwrap().to_owned();
    let named = |small: &str, large: &str| {
        let path = |name: &str| format!("path = '{name}'");
        design(folder.path(), &path(small), &path(large), &pair("caching"));
    };
    let first = volume();
    for (name, _) in OWN {
        fs::rename(folder.path().join(name), folder.path().join(format!("other-{name}"))).unwrap();
    }
    for (name, own) in OWN {
        File::create(folder.path().join(name)).unwrap().set_len(own).unwrap();
    }
    let second = volume();
    let fail = |said: &str| {
        for verb in ["serve", "repair", "export"] {
            peryton(folder.path(), &[verb, "v.toml"]).fails(2, &[said]);
        }
        let check = peryton(folder.path(), &["check", "v.toml"]);
        assert!(check.code == 2 && check.out.contains(said), "{}", check.out);
        dump_fails(folder.path(), said);
    };
    let of_both = |small: &str, as_small: (&str, &str), large: &str, as_large: (&str, &str)| {
        format!(
            "the design names devices of different volumes, not of one: {small}: device 'small' is '{}' of volume {}; \
             {large}: device 'large' is '{}' of volume {}: name those of one",
            as_small.0, as_small.1, as_large.0, as_large.1
        )
    };
    named("small.img", "other-large.img");
    fail(&of_both("small.img", ("small", &second), "other-large.img", ("large", &first)));
    named("other-large.img", "small.img");
    fail(&of_both("other-large.img", ("large", &first), "small.img", ("small", &second)));
    named("small.img", "other-small.img");
    fail(&of_both("small.img", ("small", &second), "other-small.img", ("small", &first)));
    fs::copy(folder.path().join("small.img"), folder.path().join("copy.img")).unwrap();
    named("small.img", "copy.img");
    fail("copy.img: device 'large' is 'small' of the volume, or a copy of it: name the right one");
    named("large.img", "small.img");
    fail("of the volume: swap the paths");
}

/// Checks that the metadata are printed, and the volume is refused.
fn dump_fails(folder: &Path, said: &str) {
    let dump = peryton(folder, &["dump", "v.toml"]);
    assert!(dump.code == 2 && dump.err.contains(said), "{}: {}", dump.code, dump.err);
    assert!(dump.out.contains("device small (") && dump.out.contains("device large ("), "{}", dump.out);
}

/// The fear: a script takes what is no volume for one, because its metadata could be printed.
#[test]
fn what_is_no_volume_is_printed_and_said_to_be_none() {
    let folder = folder(&pair("caching"));
    dump_fails(folder.path(), "device 'small' (small.img) is not part of a Peryton volume");
    peryton(folder.path(), &["create", "v.toml"]).ok();
    peryton(folder.path(), &["dump", "v.toml"]).ok();
    File::create(folder.path().join("large.img")).unwrap();
    dump_fails(folder.path(), "device 'large' (large.img) is not part of a Peryton volume");
    // What is left out says how large it is, where no other device has a volume: nothing is wrong with it.
    let replace = peryton(folder.path(), &["replace", "v.toml", "small", "--with", "new.img"]);
    assert!(replace.code == 2 && replace.err.contains("devices.large.size: missing"), "{}", replace.err);
}

#[test]
fn what_cannot_be_known_is_asked_for() {
    let folder = folder("");
    let format = |small: &str, large: &str, placement: &str| {
        design(folder.path(), small, large, placement);
        peryton(folder.path(), &["create", "v.toml"])
    };
    let (small, large, caching) = ("path = 'small.img'", "path = 'large.img'", pair("caching"));
    format("path = 'none.img'", large, &caching).fails(2, &["devices.small.size", "none.img", "give a size"]);
    format(small, "size = '8MiB'", &caching).fails(2, &["devices.large.path", "missing"]);
    format(small, "", &caching).fails(2, &["devices.large.path", "missing"]);
    format(small, "path = 'large.img'\nmodel = { rpm = 7200 }", &caching).fails(2, &["devices.large.model", "profile"]);
    let bounded = format!("{caching}[climb.caps]\nlifetime_years = 5\n");
    format(small, large, &bounded).fails(2, &["climb.caps.lifetime_years", "endurance.NAME.written"]);
    format(small, large, &format!("{bounded}[endurance.small]\nwritten = '1TiB'\n")).ok();
    peryton(folder.path(), &["sim", "v.toml", "--trace", "none.csv"])
        .fails(2, &["devices.small.profile", "peryton profiles"]);
    let device = fs::OpenOptions::new().write(true).open(folder.path().join("small.img")).unwrap();
    device.set_len(4096).unwrap();
    format(small, large, &caching).fails(2, &["devices.small", "give it more"]);
}

/// The fear: no device is attached, and the operator is told to give sizes.
#[test]
fn a_volume_without_any_of_its_devices_says_that_none_is_there() {
    let folder = folder(&pair("caching"));
    let at = folder.path();
    peryton(at, &["create", "v.toml"]).ok();
    fs::remove_file(at.join("small.img")).unwrap();
    let (kept, large) = (at.join("kept.img"), at.join("large.img"));
    fs::rename(&large, &kept).unwrap();
    for verb in ["serve", "check", "repair", "dump", "export"] {
        peryton(at, &[verb, "v.toml"])
            .fails(2, &["small.img: device 'small' is not there", "neither is another", "attach it"]);
    }
    File::create(&large).unwrap().set_len(64 * MIB).unwrap();
    peryton(at, &["serve", "v.toml"]).fails(2, &["device 'small' is not there", "no other has a volume"]);
    fs::rename(&kept, &large).unwrap();
    peryton(at, &["serve", "v.toml"]).fails(2, &["device 'small' is not there", "--without small"]);
}
