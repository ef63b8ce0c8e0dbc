//! Energy, standby and wear compared with figures computed by hand.

use crate::common;

use common::{request, simulate};
use peryton_sim::Options;
use peryton_units::Op;

const POWERED: &str = "[devices.hdd]\nprofile = 'fixed'\nsize = '1GiB'\n\
    model = { read = '10ms', write = '10ms', capacity = '1TiB', active_w = 9, idle_w = 6, standby_w = 1 }\n\
    [placement]\nmode = 'single'\n";

/// Two reads 100 s apart: 20 ms active, then idle until the spin-down, then standby.
#[test]
fn a_spin_down_saves_what_the_powers_say() {
    let requests = [request(0, Op::Read, 0, 4096), request(100_000_000, Op::Read, 0, 4096)];
    let never = simulate(POWERED, &requests, &Options::default()).unwrap();
    let span = 100.01;
    assert_eq!(never.simulated_s, span);
    let expected = 0.02 * 9.0 + (span - 0.02) * 6.0;
    assert!((never.energy_j.unwrap() - expected).abs() < 1e-6, "{:?} against {expected}", never.energy_j);
    assert_eq!(never.devices[0].1.standby_s, None);

    let text = format!("{POWERED}[power.hdd]\nspin_down_after = '5s'\n");
    let saving = simulate(&text, &requests, &Options::default()).unwrap();
    let device = &saving.devices[0].1;
    let standby = 100.0 - 0.01 - 5.0;
    assert!((device.standby_s.unwrap() - standby).abs() < 1e-6, "{device:?}");
    let expected = 0.02 * 9.0 + 5.0 * 6.0 + standby * 1.0;
    assert!((saving.energy_j.unwrap() - expected).abs() < 1e-6, "{:?} against {expected}", saving.energy_j);
    assert!((saving.mean_power_w.unwrap() - expected / span).abs() < 1e-9);
    // 8,766 hours a year at the price of the design.
    let text = format!("{text}[cost]\nelectricity_usd_per_kwh = 0.4\n");
    let priced = simulate(&text, &requests, &Options::default()).unwrap();
    let year = expected / span / 1e3 * 8766.0 * 0.4;
    assert!((priced.cost.energy_usd_per_year.unwrap() - year).abs() < 1e-9);
}

/// A disk with real mechanics spins down and wakes; that is one start-stop, 1/300,000 of its life.
#[test]
fn a_disk_that_wakes_has_worn() {
    let text = "[volume]\nsize = '1GiB'\n[devices.hdd]\nprofile = 'seagate-st32000641as'\n[placement]\nmode = 'single'\n\
                [power.hdd]\nspin_down_after = '5s'\n";
    let requests: Vec<_> = (0..4).map(|n| request(n * 60_000_000, Op::Read, n * 4096, 4096)).collect();
    let report = simulate(text, &requests, &Options::default()).unwrap();
    let device = &report.devices[0].1;
    assert_eq!(device.start_stops, Some(3));
    assert_eq!(device.wear_eu, Some(1e6 * 3.0 / 300_000.0));
    let years = 300_000.0 / 3.0 * report.simulated_s / 31_557_600.0;
    assert!((device.lifetime_years.unwrap() - years).abs() < 1e-9 * years);
    assert_eq!(report.lifetime_years, device.lifetime_years);
    // The first read after a sleep waits for the platters.
    assert!(report.latency_us.read.unwrap().max > 1e6);
}

/// A write of half a kilobyte wears as much as one of a page (GreenDM counts accesses of 4 KiB).
#[test]
fn a_part_of_a_page_wears_as_much_as_the_page() {
    let text = "[devices.ssd]\nprofile = 'fixed'\nsize = '1GiB'\n[placement]\nmode = 'single'\n\
                [endurance]\nread_effect = 100\n[endurance.ssd]\nwritten = '36500GB'\n";
    let wear = |len: u64| {
        let of = |n: u64, op: Op| request(n * 10_000, op, n * 8192, len);
        let requests: Vec<_> = (0..300).map(|n| of(n, if n < 200 { Op::Write } else { Op::Read })).collect();
        let report = simulate(text, &requests, &Options::default()).unwrap();
        let device = &report.devices[0].1;
        assert_eq!((device.bytes_written, device.pages_written, device.pages_read), (200 * len, 200, 100));
        device.wear_eu.unwrap()
    };
    assert_eq!(wear(512), wear(4096));
    assert!((wear(512) / (1e6 * 201.0 * 4096.0 / 36.5e12) - 1.0).abs() < 1e-12);
}

/// GreenDM, section 2.5: 36.5 GB of a life of 36,500 GB are 1,000 eu; reads count a hundredth of writes.
#[test]
fn wear_is_what_the_paper_says() {
    let text = |effect: &str| {
        format!(
            "[devices.ssd]\nprofile = 'fixed'\nsize = '1GiB'\n[placement]\nmode = 'single'\n\
             [endurance]\nread_effect = {effect}\n[endurance.ssd]\nwritten = '36500GB'\n"
        )
    };
    let mib = 1 << 20;
    let mut requests: Vec<_> = (0..1000).map(|n| request(n * 10_000, Op::Write, n * mib, mib)).collect();
    requests.extend((0..500).map(|n| request(10_000_000 + n * 10_000, Op::Read, n * mib, mib)));
    for (effect, share) in [("100", 0.01), ("10", 0.1), ("'never'", 0.0)] {
        let report = simulate(&text(effect), &requests, &Options::default()).unwrap();
        let worn = 1e6 * (1000.0 + 500.0 * share) * mib as f64 / 36.5e12;
        let got = report.devices[0].1.wear_eu.unwrap();
        assert!((got / worn - 1.0).abs() < 1e-12, "{effect}: {got} against {worn}");
    }
}

#[test]
fn a_model_without_powers_has_no_energy() {
    let report = simulate(common::SINGLE, &[request(0, Op::Read, 0, 4096)], &Options::default()).unwrap();
    assert_eq!((report.energy_j, report.mean_power_w, report.cost.energy_usd_per_year), (None, None, None));
    let json = serde_json::to_value(&report).unwrap();
    assert!(json.get("energy_j").is_none() && json["devices"]["ssd"].get("energy_j").is_none());
    assert!(json.get("moves").is_none() && json.get("fast_hit_ratio").is_none());
    assert!(json["latency_us"].get("write").is_none());
}
