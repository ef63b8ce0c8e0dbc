//! The figures in "Which Storage Device is the Greenest?", computed from the paper's coefficients and from the
//! profiles.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use peryton_device::Profile;
use peryton_plan::energy::{
    BreakEven, Demand, DominantNeed, Figures, Line, Pattern, Policy, Prices, Properties, Source, Span, Terms, Zone,
    rank,
};

const MB_PER_TB: f64 = 1e6;
/// Equation (5) with the rounded coefficients of section V-B: W·s/MB, and W/MB.
const fn sequential_write(watts_per_tb: f64, joules_per_mb: f64) -> Line {
    Line { offset: joules_per_mb, slope: watts_per_tb / MB_PER_TB }
}
const HD1: Line = sequential_write(1.29, 1.9e-3);
const HD1_STANDBY: Line = sequential_write(0.14, 32.2e-3);
const HD2: Line = sequential_write(0.87, 16e-3);
const SSD1: Line = sequential_write(0.19, 11.5e-3);
const USD_PER_KWH: f64 = 0.4;

fn longer_than(break_even: BreakEven) -> f64 {
    match break_even {
        BreakEven::LongerThan(seconds) => seconds,
        other => panic!("{other:?}"),
    }
}

fn shorter_than(break_even: BreakEven) -> f64 {
    match break_even {
        BreakEven::ShorterThan(seconds) => seconds,
        other => panic!("{other:?}"),
    }
}

/// Compares to as many digits as the paper prints.
fn prints(found: f64, printed: f64, half_of_last_digit: f64) {
    assert!((found - printed).abs() <= half_of_last_digit, "{found}, the paper prints {printed}");
}

#[test]
fn break_even_times_of_the_sequential_write() {
    prints(longer_than(SSD1.below(&HD1)), 8727.27, 0.005);
    // If unneeded disks are in standby, the SSD is greener for shorter times only.
    prints(shorter_than(SSD1.below(&HD1_STANDBY)), 414_000.0, 0.5);
    prints(longer_than(HD1_STANDBY.below(&SSD1)), 414_000.0, 0.5);
    prints(longer_than(HD2.below(&HD1)), 33_571.4, 0.05);
}

#[test]
fn break_even_times_with_prices() {
    let bought = |energy: Line, usd_per_tb: f64| {
        energy.priced(USD_PER_KWH).plus(&Line { offset: usd_per_tb / MB_PER_TB, slope: 0.0 })
    };
    let (hd1, hd2, ssd1) = (bought(HD1, 38.75), bought(HD2, 58.5), bought(SSD1, 505.0));
    prints(longer_than(ssd1.below(&hd1)), 3.8e9, 0.05e9);
    prints(longer_than(hd2.below(&hd1)), 4.2e8, 0.05e8);
}

#[test]
fn break_even_time_of_the_sequential_read() {
    // Table IV.
    let (hd1, ssd1) = (sequential_write(1.29, 4.1e-3), sequential_write(0.19, 6.6e-3));
    prints(longer_than(ssd1.below(&hd1)), 2273.0, 0.5);
}

fn of(name: &str, pattern: Pattern) -> Figures {
    Figures::of(&Profile::named(name).unwrap(), &pattern).unwrap()
}

/// `P_i/D_b`, `P_i/D_c`, `P_b/D_b` and `(P_b − P_i)/D_b` in mW·s/MB and W/TB as Tables III to VI print them, to a unit of
/// the last digit (the paper rounds some of them down).
#[test]
fn properties_of_the_profiles_are_those_of_the_tables() {
    let (write, read) = (Pattern::large(false, 0.0), Pattern::large(false, 1.0));
    let (random, mixed) = (Pattern::large(true, 1.0), Pattern::large(true, 0.5));
    let (hd1, hd2, ssd1) = ("seagate-st4000dm000", "samsung-m9t-2tb", "greenest-ssd1");
    let rows = [
        (hd1, write, [(33.1, 0.2), (1.29, 0.01), (35.0, 1.0), (1.9, 0.1)]),
        // The table has 0.87 W/TB, as for 1 TB, but the drive has 0.87 W and 2 TB.
        (hd2, write, [(7.0, 0.1), (0.435, 0.001), (23.0, 1.0), (16.0, 1.0)]),
        (ssd1, write, [(0.8, 0.1), (0.19, 0.01), (12.0, 1.0), (11.5, 0.1)]),
        (hd1, read, [(33.8, 0.2), (1.29, 0.01), (38.0, 1.0), (4.1, 0.1)]),
        (ssd1, read, [(0.7, 0.1), (0.19, 0.01), (7.0, 1.0), (6.6, 0.1)]),
        (hd1, random, [(131.3, 0.1), (1.29, 0.01), (134.0, 1.0), (2.5, 0.1)]),
        (ssd1, random, [(0.7, 0.1), (0.19, 0.01), (7.0, 1.0), (6.6, 0.1)]),
        (hd1, mixed, [(116.5, 0.1), (1.29, 0.01), (116.0, 1.0), (0.0, 0.1)]),
        (ssd1, mixed, [(0.8, 0.1), (0.19, 0.01), (10.4, 0.1), (9.5, 0.1)]),
    ];
    for (device, pattern, printed) in rows {
        let figures = of(device, pattern);
        assert_eq!(figures.source, Source::Published, "{device}");
        let p = Properties::of(&figures);
        let found = [
            p.idle_over_bandwidth * 1e3,
            p.idle_over_capacity * MB_PER_TB,
            p.busy_over_bandwidth * 1e3,
            p.above_idle_over_bandwidth * 1e3,
        ];
        for (found, (printed, off)) in found.into_iter().zip(printed) {
            assert!((found - printed).abs() <= off, "{device} {pattern:?}: {found}, the table has {printed}");
        }
    }
}

/// Tables III and IV: HD1's tail, `D_b`, `P_b`, `P_i/D_b`, `P_b/D_b` and `(P_b − P_i)/D_b`, and a break-even time of its own.
#[test]
fn the_tail_of_the_disk_has_rows_of_its_own() {
    for (read_share, printed) in [(0.0, [104.0, 5.01, 49.6, 48.0, -1.4]), (1.0, [104.0, 5.38, 49.6, 52.0, 2.1])] {
        let head = Pattern::large(false, read_share);
        let tail = Pattern { zone: Zone::Tail, ..head };
        let figures = of("seagate-st4000dm000", tail);
        assert_eq!(figures.source, Source::Published);
        let p = Properties::of(&figures);
        let ratios =
            [p.idle_over_bandwidth, p.busy_over_bandwidth, p.above_idle_over_bandwidth].map(|ratio| ratio * 1e3);
        prints(figures.bandwidth_mb_per_s, printed[0], 0.0);
        prints(figures.busy_w, printed[1], 0.0);
        prints(ratios[0], printed[2], 0.05);
        prints(ratios[1], printed[3], 0.5);
        prints(ratios[2], printed[4], 0.05);
        // The head is 49 % faster when it writes and uses 8.8 % more power.
        if read_share == 0.0 {
            let head = of("seagate-st4000dm000", head);
            prints(head.bandwidth_mb_per_s / figures.bandwidth_mb_per_s, 1.49, 0.005);
            prints(head.busy_w / figures.busy_w, 1.088, 0.0005);
        }
        // The model of a disk that the paper did not measure there is measured at its end; flash has no tracks.
        let modelled = Figures::modelled(&Profile::named("seagate-st4000dm000").unwrap(), &tail).unwrap();
        assert!((modelled.bandwidth_mb_per_s / 104.0 - 1.0).abs() < 0.05, "{modelled:?}");
        assert!((modelled.busy_w / figures.busy_w - 1.0).abs() < 0.05, "{modelled:?}");
        assert_eq!(of("greenest-ssd1", tail), of("greenest-ssd1", head));
    }
}

/// The columns *sp* of Tables III and IV.
#[test]
fn specifications_stand_beside_what_was_measured() {
    let (write, read) = (Pattern::large(false, 0.0), Pattern::large(false, 1.0));
    for (device, pattern, bandwidth, idle_over_bandwidth, idle_over_capacity, busy_over_bandwidth, above_idle) in [
        ("seagate-st4000dm000", write, 146.0, 34.2, 1.25, 51.0, 17.1),
        ("samsung-m9t-2tb", write, 169.0, 4.1, 0.35, 14.0, 9.4),
        // Printed as 1: the ratio is 0.46.
        ("greenest-ssd1", write, 520.0, 0.3, 0.14, 0.46, 0.2),
        ("seagate-st4000dm000", read, 146.0, 34.2, 1.25, 51.0, 17.1),
        ("greenest-ssd1", read, 540.0, 0.3, 0.14, 0.4, 0.2),
    ] {
        let figures = of(device, pattern);
        let stated = figures.specified.unwrap();
        prints(stated.bandwidth_mb_per_s, bandwidth, 0.0);
        prints(stated.idle_w / bandwidth * 1e3, idle_over_bandwidth, 0.1);
        prints(stated.idle_w / figures.capacity_mb * MB_PER_TB, idle_over_capacity, 0.005);
        prints(stated.busy_w / bandwidth * 1e3, busy_over_bandwidth, 0.5);
        prints((stated.busy_w - stated.idle_w) / bandwidth * 1e3, above_idle, 0.1);
    }
    // Where there is only a data sheet, nothing stands beside it.
    assert_eq!(of("seagate-exos-x20-20tb", read).specified, None);
}

#[test]
fn four_terabytes_read_at_random_need_less_with_one_disk_than_with_four_ssds() {
    let random = Pattern::large(true, 1.0);
    // 4 TB in the disk manufacturers' units: one HD1.
    let demand = Demand::new(1.0, 1.0, 4e6).unwrap();
    let figures = [of("seagate-st4000dm000", random), of("greenest-ssd1", random)];
    let prices = Prices { usd_per_kwh: USD_PER_KWH };
    let (policies, span) = (&[Policy::AllActive], Span::Seconds(3600.0));
    let rows = rank(&figures, &Terms { demand: &demand, alpha: 1.0, policies, span, prices });
    let row = |index: usize| (rows[index].figures.device.as_str(), rows[index].devices, rows[index].kind);
    assert_eq!(row(0), ("seagate-st4000dm000", 1, DominantNeed::Capacity));
    assert_eq!(row(1), ("greenest-ssd1", 4, DominantNeed::Capacity));
    prints(rows[0].mean_power_w, 5.26, 1e-9);
    prints(rows[1].mean_power_w, 7.84, 1e-9);
    assert_eq!(rows[1].greener_when, Some(BreakEven::Never));
}

#[test]
fn a_capability_workload_wants_the_ssd() {
    // Section V-B: P_i/D_b of SSD1 is about 2.4 % of HD1's, P_b/D_b about 34.3 %.
    let write = Pattern::large(false, 0.0);
    let (hd1, ssd1) = (Properties::of(&of("seagate-st4000dm000", write)), Properties::of(&of("greenest-ssd1", write)));
    prints(0.8 / 33.1, 0.024, 0.0005);
    prints(12.0 / 35.0, 0.343, 0.0005);
    prints(ssd1.idle_over_bandwidth / hd1.idle_over_bandwidth, 0.024, 0.002);
    prints(ssd1.busy_over_bandwidth / hd1.busy_over_bandwidth, 0.343, 0.01);
    let demand = Demand::new(1e4, 1e3, 1.0).unwrap();
    assert!(ssd1.capability(&demand).slope < hd1.capability(&demand).slope);
    assert!(ssd1.capability_all_active(&demand).slope < hd1.capability_all_active(&demand).slope);
}

#[test]
fn whole_devices_agree_with_the_equations_where_there_are_many() {
    let write = Pattern::large(false, 0.0);
    for name in ["seagate-st4000dm000", "greenest-ssd1"] {
        let figures = of(name, write);
        let p = Properties::of(&figures);
        // A capacity workload, equations (5), (6) and (7): 100 PB at 5 GB/s.
        let demand = Demand::new(5e3, 5e3, 1e11).unwrap();
        let time = demand.time_to_finish_s().unwrap();
        let devices = figures.needed(&demand);
        let check = |policy, line: Line| {
            let whole = figures.power_w(&demand, 1.0, devices, policy) * time;
            let equation = line.at(time) * demand.capacity_mb;
            assert!((whole / equation - 1.0).abs() < 1e-3, "{name} {policy:?}: {whole} and {equation}");
        };
        check(Policy::Idle, p.capacity_per_mb());
        check(Policy::AllActive, p.capacity_all_active_per_mb());
        if let Some(standby) = p.capacity_standby_per_mb() {
            check(Policy::Standby, standby);
        }
        // A capability workload, equations (3) and (4).
        let demand = Demand::new(1e7, 1e6, 1.0).unwrap();
        let devices = figures.needed(&demand);
        for (policy, line) in
            [(Policy::Idle, p.capability(&demand)), (Policy::AllActive, p.capability_all_active(&demand))]
        {
            let whole = figures.power_w(&demand, 1.0, devices, policy);
            assert!((whole / line.slope - 1.0).abs() < 1e-3, "{name} {policy:?}: {whole} and {}", line.slope);
        }
    }
}

#[test]
fn standby_pays_after_a_quarter_of_a_minute() {
    // Table II: 68.58 J, 5.16 W and 0.55 W.
    let hd1 = of("seagate-st4000dm000", Pattern::large(false, 0.0));
    prints(hd1.standby_pays_after_s().unwrap(), 68.58 / (5.16 - 0.55), 1e-9);
}

#[test]
fn a_pattern_that_nobody_measured_is_measured_on_the_model() {
    let small = Pattern { request: peryton_units::Bytes::kib(4), queue_depth: 32, ..Pattern::large(true, 1.0) };
    let disk = of("seagate-st4000dm000", small);
    let ssd = of("greenest-ssd1", small);
    assert_eq!((disk.source, ssd.source), (Source::Model, Source::Model));
    assert!(disk.bandwidth_mb_per_s < 2.0 && ssd.bandwidth_mb_per_s > 50.0, "{disk:?} {ssd:?}");
    assert!(disk.idle_w == 5.16 && (disk.standby_w.unwrap() - 0.55).abs() < 0.05, "{disk:?}");
}

/// The accuracy of the models' calibration: HD1 to 5 %; SSD1, whose model has no loss from mixing, to 12 %.
#[test]
fn the_models_do_what_was_measured() {
    for (name, tolerance) in [("seagate-st4000dm000", 0.05), ("greenest-ssd1", 0.12)] {
        let profile = Profile::named(name).unwrap();
        for (random, read_share) in [(false, 0.0), (false, 1.0), (true, 1.0), (true, 0.5)] {
            let pattern = Pattern::large(random, read_share);
            let (published, model) =
                (Figures::of(&profile, &pattern).unwrap(), Figures::modelled(&profile, &pattern).unwrap());
            assert_eq!((published.source, model.source), (Source::Published, Source::Model));
            for (published, model) in
                [(published.bandwidth_mb_per_s, model.bandwidth_mb_per_s), (published.busy_w, model.busy_w)]
            {
                let off = (model / published - 1.0).abs();
                assert!(off < tolerance, "{name} {pattern:?}: {model} modelled, {published} measured");
            }
        }
    }
}

#[test]
fn demands_that_cannot_be_are_refused() {
    for (peak, average, capacity) in
        [(1.0, 2.0, 1.0), (-1.0, 0.0, 1.0), (f64::NAN, 0.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0, f64::INFINITY)]
    {
        assert!(Demand::new(peak, average, capacity).is_err(), "{peak} {average} {capacity}");
    }
}
