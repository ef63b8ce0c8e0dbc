//! What can be bought: families of devices, ratings, and prices.

use std::fs;

use peryton_device::{Class, Era, Origin, PriceList, Profile};
use peryton_units::Bytes;

fn sold() -> Vec<Profile> {
    let all = Profile::shipped().map(|name| Profile::named(name).unwrap());
    all.filter(|profile| profile.class != Class::Fixed && Era::default().has(profile)).collect()
}

/// The fear: a plan knows a handful of devices, or the prices of another market.
#[test]
fn the_catalogue_has_what_is_sold_today_with_a_price_of_today() {
    let sold = sold();
    for profile in &sold {
        let price = profile.price_usd.unwrap_or_else(|| panic!("{} has no price", profile.name));
        let per_tb = price / (profile.capacity.0 as f64 / 1e12);
        let usual = if profile.class == Class::Hdd { 25.0..120.0 } else { 100.0..4000.0 };
        assert!(usual.contains(&per_tb), "{}: {per_tb:.0} USD a TB", profile.name);
        assert!(profile.price_date.as_ref().is_some_and(|date| date.starts_with("2026")), "{}", profile.name);
        let said = profile.provenance.of("price_usd").unwrap();
        assert!(said.document.is_some() || (said.origin == Origin::Estimated && !said.note.is_empty()), "{said}");
    }
    let count = |of: &dyn Fn(&Profile) -> bool| sold.iter().filter(|profile| of(profile)).count();
    let daily = |profile: &Profile| profile.endurance.drive_writes_per_day.unwrap_or(0.0);
    let tb = |profile: &Profile| profile.capacity.0 as f64 / 1e12;
    let is = |profile: &Profile, class: &str| profile.price_class.as_deref() == Some(class);
    let (disk, flash) = (|p: &Profile| p.class == Class::Hdd, |p: &Profile| p.class == Class::Ssd);
    for (what, found, least) in [
        ("devices", sold.len(), 40),
        (
            "NVMe of one write a day, 1.92 to 15.36 TB",
            count(&|p| is(p, "nvme-tlc") && daily(p) == 1.0 && tb(p) < 16.0),
            12,
        ),
        ("NVMe of three", count(&|p| is(p, "nvme-tlc-mixed-use") && daily(p) == 3.0), 8),
        ("NVMe of a third", count(&|p| flash(p) && (0.2..0.4).contains(&daily(p))), 3),
        ("QLC of 15 to 123 TB", count(&|p| is(p, "nvme-qlc") && (15.0..123.0).contains(&tb(p))), 6),
        ("SATA", count(&|p| is(p, "sata-ssd")), 6),
        ("clients' NVMe", count(&|p| is(p, "client-nvme") || p.name.starts_with("wd-black")), 5),
        ("disks of 8 to 32 TB", count(&|p| disk(p) && (8.0..33.0).contains(&tb(p))), 12),
        ("of them shingled", count(&|p| p.description.contains("shingled")), 3),
        ("of them with two actuators", count(&|p| p.description.contains("two actuators")), 1),
    ] {
        assert!(found >= least, "{what}: {found} of at least {least}");
    }
}

const FAMILY: &str = "description = 'shared'\nclass = 'ssd'\ncapacity = '8TB'\nprice_class = 'nvme-tlc'\nsources = ['a sheet']\n\
    [endurance]\ndrive_writes_per_day = 1\n[flash]\nchannels = 8\ndies_per_channel = 8\npage = '16KiB'\npages_per_block = 64\n\
    read = '50us'\nprogram = '1ms'\nerase = '5ms'\nchannel_mb_per_s = 800\ninterface_mb_per_s = 3000\ncycles = 3000\n\
    over_provisioning = 0.1\nidle_w = 3\nstandby_w = 3\n[flash.slc_cache]\nsize = '800GiB'\nprogram = '100us'\n\
    [provenance]\n'data_sheet.*' = 'published [1]'\n[member.\"x-8tb\"]\n[member.\"x-2tb\"]\ncapacity = '2TB'\n\
    description = 'the small one'\ndata_sheet = { seq_read_mb_per_s = 2900 }\nflash = { interface_mb_per_s = 2920 }\n";

#[test]
fn members_of_a_family_share_what_they_do_not_say_and_capacity_scales_the_rest() {
    let path = std::env::temp_dir().join(format!("peryton-family-{}.toml", std::process::id()));
    fs::write(&path, FAMILY).unwrap();
    let path = path.display().to_string();
    assert_eq!(Profile::in_file(&path).unwrap(), [format!("{path}#x-8tb"), format!("{path}#x-2tb")]);
    let small = Profile::named(&format!("{path}#x-2tb")).unwrap();
    let large = Profile::named(&format!("{path}#x-8tb")).unwrap();
    assert_eq!((small.name.as_str(), small.description.as_str()), ("x-2tb", "the small one"));
    assert_eq!(large.description, "shared");
    let flash = |profile: &Profile| match &profile.model {
        peryton_device::Model::Flash(flash) => (**flash).clone(),
        _ => panic!("it is flash"),
    };
    let (few, many) = (flash(&small), flash(&large));
    assert_eq!((few.dies_per_channel, many.dies_per_channel), (2, 8));
    assert_eq!((few.interface_mb_per_s, many.interface_mb_per_s), (2920.0, 3000.0));
    let cache = |flash: &peryton_device::flash::FlashParameters| flash.slc_cache.as_ref().unwrap().size;
    assert_eq!((cache(&few), cache(&many)), (Bytes::gib(200), Bytes::gib(800)));
    // One write a day for five years, of each capacity; and so many TB at the price of the class.
    assert_eq!(small.endurance.written, Some(Bytes(2_000_000_000_000 * 1825)));
    assert_eq!(large.endurance.written, Some(Bytes(8_000_000_000_000 * 1825)));
    let per_tb = PriceList::shipped().per_tb("nvme-tlc").unwrap().usd;
    assert_eq!((small.price_usd, large.price_usd), (Some(2.0 * per_tb), Some(8.0 * per_tb)));
    assert_eq!(small.provenance.of("data_sheet.seq_read_mb_per_s").unwrap().origin, Origin::Published);

    for (name, message) in [
        (path.clone(), "a family of devices: name one of them"),
        (format!("{path}#x-4tb"), "no member 'x-4tb': use one of x-8tb, x-2tb"),
    ] {
        let refused = Profile::named(&name).unwrap_err().to_string();
        assert!(refused.contains(message) && !refused.contains('\n'), "{refused}");
    }
    fs::remove_file(&path).unwrap();
    let class = Profile::parse(
        "name = 'x'\ndescription = ''\nclass = 'fixed'\nprice_class = 'nvme-tcl'\n[fixed]\nread = '1ms'\nwrite = '1ms'\ncapacity = '1TB'\n",
        "x.toml",
    );
    let refused = class.unwrap_err().to_string();
    assert!(refused.contains("no class 'nvme-tcl': did you mean 'nvme-tlc'?"), "{refused}");
}

/// A price of the user's own goes before all others, by device and by class; so does nothing that he did not name.
#[test]
fn a_price_list_replaces_prices_of_devices_and_of_classes() {
    let list = PriceList::parse("name,usd,usd_per_tb\nnearline,,20\nseagate-exos-x24-24tb,500,\n", "p.csv").unwrap();
    let priced = |name: &str| {
        let mut profile = Profile::named(name).unwrap();
        profile.price_by(&list);
        (profile.price_usd, profile.provenance.of("price_usd").map(|said| said.origin))
    };
    assert_eq!(priced("seagate-exos-x24-24tb"), (Some(500.0), Some(Origin::Given)));
    assert_eq!(priced("wd-ultrastar-dc-hc680-28tb"), (Some(560.0), Some(Origin::Given)));
    let ssd = Profile::named("samsung-pm893-3.84tb").unwrap();
    assert_eq!(priced("samsung-pm893-3.84tb"), (ssd.price_usd, Some(Origin::Estimated)));
}

#[test]
fn ratings_by_the_day_and_by_the_year_are_those_of_the_standards() {
    let nearline = Profile::named("seagate-exos-x24-24tb").unwrap();
    // 550 TB a year, read or written, for a warranty of five years.
    assert_eq!(nearline.endurance.workload(), Some(Bytes(2_750_000_000_000_000)));
    assert_eq!(nearline.endurance.written, None);
    // JESD218: TBW = DWPD × capacity × 365 × years.
    let tlc = Profile::named("solidigm-d7-ps1010-7.68tb").unwrap();
    assert_eq!(tlc.endurance.written, Some(Bytes(14_016_000_000_000_000)));
    assert_eq!(
        Profile::named("micron-9550-max-25.6tb").unwrap().endurance.written,
        Some(Bytes(140_160_000_000_000_000))
    );
}
