//! What the loss of one drive would cost a volume, for `peryton create`: acknowledged writes that lie on one device alone.

use peryton_drive::{DevicePath, Linux, Mirrored, VolumeSpec};
use peryton_engine::{DeviceId, Placement, WritePolicy};

/// A line about each device whose loss would lose what the volume has acknowledged; none for designs in which it costs no more than
/// that of a plain disk.
pub fn at_risk(spec: &VolumeSpec, linux: &Linux) -> Vec<String> {
    let tuning = &spec.config.tuning;
    let alone = match &spec.config.placement {
        Placement::Caching(pair) if tuning.write == WritePolicy::Back => {
            let share = tuning.cleaning.dirty_target_ppm as f64 / 1e4;
            let lost = format!(
                "the writes that are not written back are lost with it (up to {share} % of it, which may be {} old)",
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
            "{path}: device '{name}' has no mirror beneath it that Linux knows of: if it fails, {lost}; two drives as md RAID 1 \
             beneath it lose nothing{instead}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_not_warned_about_and_half_a_mirror_is() {
        let at = DevicePath { name: "ssd".to_owned(), path: "/dev/md0".into() };
        let say = |mirrored| say(&at, &mirrored, "much is lost", "; or that").unwrap_or_default();
        assert_eq!(say(Mirrored::Yes("raid1".into())), "");
        assert!(say(Mirrored::Degraded("raid1".into())).contains("'ssd' is on a raid1 array that lacks a drive"));
        assert!(
            say(Mirrored::No)
                .ends_with("if it fails, much is lost; two drives as md RAID 1 beneath it lose nothing; or that")
        );
    }
}
