//! What the loss of one drive would cost a volume, for `peryton create`: acknowledged writes that lie on one device alone, and arrays that
//! the design has and the machine has not.

use peryton_drive::{Array, DevicePath, Linux, Mirrored, VolumeSpec};
use peryton_engine::{DeviceId, Placement, WritePolicy};
use peryton_sim::{Design, Redundancy};

/// A line about each device whose loss would lose what the volume has acknowledged; none for designs in which it costs no more than
/// that of a plain disk.
pub fn at_risk(spec: &VolumeSpec, linux: &Linux) -> Vec<String> {
    let tuning = &spec.config.tuning;
    let alone = match &spec.config.placement {
        Placement::Caching(pair) if tuning.write == WritePolicy::Back => {
            let share = tuning.cleaning.dirty_target_ppm as f64 / 1e4;
            let lost = format!(
                "the writes that are not written back are lost with it (up to {share} % of its data, up to {} old)",
                tuning.cleaning.max_age
            );
            vec![(pair.fast, lost, "; placement.write = \"through\" loses nothing either")]
        }
        Placement::Partitioned(pair) => {
            vec![(pair.fast, "the writes that are not written back are lost with it".to_owned(), "")]
        }
        Placement::Tiering(pair) => {
            vec![(
                pair.fast,
                "the data that lie on it are lost with it, because they have no other copy".to_owned(),
                "",
            )]
        }
        Placement::Logging(pair) => {
            vec![(pair.log, "the writes that have not moved to the primary are lost with it".to_owned(), "")]
        }
        // These lose what any disk loses.
        Placement::Caching(_) | Placement::Single { .. } | Placement::Linear { .. } => Vec::new(),
    };
    let said = |(device, lost, instead): (DeviceId, String, &str)| {
        let device = spec.devices.get(device.index())?;
        say(device, &linux.mirrored(&device.path), &lost, instead)
    };
    alone.into_iter().filter_map(said).collect()
}

/// A line about each device that is an array in the design, and none like it at its path: the drive makes no arrays.
pub fn missing_arrays(design: &Design, devices: &[DevicePath], linux: &Linux) -> Vec<String> {
    let designed = design.devices.iter().zip(devices).filter(|(device, _)| device.count > 1);
    let unlike = designed
        .filter_map(|(device, at)| missing(device.count, device.redundancy, at, linux.array(&at.path).as_ref()));
    unlike.collect()
}

fn missing(
    count: u32,
    redundancy: Redundancy,
    DevicePath { name, path }: &DevicePath,
    found: Option<&Array>,
) -> Option<String> {
    let levels: &[&str] = match redundancy {
        Redundancy::None => &["raid0"],
        Redundancy::Mirror => &["raid1", "raid10"],
        Redundancy::Raid5 => &["raid5"],
        Redundancy::Raid6 => &["raid6"],
    };
    if found.is_some_and(|found| found.drives == count && levels.contains(&found.level.as_str())) {
        return None;
    }
    let level = if count > 2 { levels[levels.len() - 1] } else { levels[0] };
    let there = match found {
        Some(Array { level, drives }) => format!("an array of {drives} as {level} is here"),
        None => "Linux knows of no array here".to_owned(),
    };
    Some(format!(
        "{}: the design has '{name}' as {count} drives ({level}), and {there}: the volume is as safe and as fast as what is at this path; \
         make the array (mdadm --create --level={} --raid-devices={count}) and give its path",
        path.display(),
        level.trim_start_matches("raid")
    ))
}

fn say(at: &DevicePath, mirrored: &Mirrored, lost: &str, instead: &str) -> Option<String> {
    let DevicePath { name, path } = at;
    let path = path.display();
    match mirrored {
        Mirrored::Yes(_) => None,
        Mirrored::Degraded(level) => Some(format!(
            "{path}: device '{name}' is on a {level} array that lacks a drive: if the array fails, {lost}: give it another drive \
             (mdadm --add)"
        )),
        Mirrored::No => Some(format!(
            "{path}: device '{name}' has no mirror that Linux knows of: if the device fails, {lost}; two drives as md RAID 1 beneath \
             it lose nothing{instead}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_the_design_that_is_not_there_is_named() {
        let at = DevicePath { name: "slow".to_owned(), path: "/dev/md1".into() };
        let array = |level: &str, drives| Some(Array { level: level.to_owned(), drives });
        let missing =
            |redundancy, found: Option<Array>| missing(6, redundancy, &at, found.as_ref()).unwrap_or_default();
        assert_eq!(missing(Redundancy::Raid6, array("raid6", 6)), "");
        assert_eq!(missing(Redundancy::Mirror, array("raid10", 6)), "");
        let said = missing(Redundancy::Raid6, None);
        assert!(
            said.contains("as 6 drives (raid6), and Linux knows of no array")
                && said.contains("--level=6 --raid-devices=6"),
            "{said}"
        );
        let said = missing(Redundancy::None, array("raid5", 4));
        assert!(said.contains("(raid0), and an array of 4 as raid5 is here"), "{said}");
    }

    #[test]
    fn a_mirror_is_not_warned_about_and_half_a_mirror_is() {
        let at = DevicePath { name: "ssd".to_owned(), path: "/dev/md0".into() };
        let say = |mirrored| say(&at, &mirrored, "much is lost", "; or that").unwrap_or_default();
        assert_eq!(say(Mirrored::Yes("raid1".into())), "");
        assert!(say(Mirrored::Degraded("raid1".into())).contains("'ssd' is on a raid1 array that lacks a drive"));
        assert!(
            say(Mirrored::No).ends_with(
                "if the device fails, much is lost; two drives as md RAID 1 beneath it lose nothing; or that"
            )
        );
    }
}
