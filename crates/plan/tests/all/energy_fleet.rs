//! Mixed fleets compared with all possible fleets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use peryton_device::Class;
use peryton_plan::energy::{
    Demand, Figures, Fleet, Objective, Policy, Prices, Segment, Source, Span, Terms, fleet, rank,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PRICES: Prices = Prices { usd_per_kwh: 0.3 };
const YEAR_S: f64 = 31_557_600.0;

fn terms<'a>(demand: &'a Demand, policies: &'a [Policy]) -> Terms<'a> {
    Terms { demand, alpha: 1.0, policies, span: Span::Seconds(YEAR_S), prices: PRICES }
}

fn device(random: &mut StdRng, name: usize) -> Figures {
    let mut between = |least: f64, most: f64| random.random_range(least..most);
    let idle_w = between(0.2, 6.0);
    Figures {
        estimates: Default::default(),
        device: format!("device-{name}"),
        class: Class::Ssd,
        capacity_mb: between(0.5e6, 5e6),
        bandwidth_mb_per_s: between(30.0, 400.0),
        // Tail tracks of a disk need less than idling (Table III): busy may be below idle.
        busy_w: idle_w + between(-0.2, 4.0),
        idle_w,
        standby_w: Some(idle_w * between(0.1, 1.0)),
        power_cycle_j: None,
        price_usd: Some(between(50.0, 500.0)),
        afr: None,
        rated_written_mb: None,
        source: Source::Published,
        specified: None,
    }
}

/// The least power of a fleet of these devices, with the given numbers awake, if it can do the work. With one segment,
/// the load goes to the devices that serve it at the least cost, as far as their speed allows.
fn inner(figures: &[Figures], demand: &Demand, devices: &[u64], awake: &[u64], policy: Policy) -> Option<f64> {
    let mut rest_w = 0.0;
    let mut room: Vec<(f64, f64)> = Vec::new();
    for ((f, n), m) in figures.iter().zip(devices).zip(awake) {
        let (n, m) = (*n as f64, *m as f64);
        let mut most = (n * f.capacity_mb / demand.capacity_mb).min(n * f.bandwidth_mb_per_s / demand.peak_mb_per_s);
        let mut per_share = (f.busy_w - f.idle_w) * demand.average_mb_per_s / f.bandwidth_mb_per_s;
        match policy {
            Policy::Idle => rest_w += n * f.idle_w,
            Policy::Standby => {
                rest_w += (n - m) * f.standby_w.unwrap() + m * f.idle_w;
                most = most.min(m * f.bandwidth_mb_per_s / demand.average_mb_per_s);
            }
            Policy::AllActive => {
                rest_w += n * f.busy_w;
                per_share = 0.0;
            }
        }
        room.push((per_share, most));
    }
    room.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut left = 1.0;
    for (per_share, most) in room {
        let share = most.min(left);
        rest_w += per_share * share;
        left -= share;
    }
    (left <= 1e-9).then_some(rest_w)
}

fn value(figures: &[Figures], devices: &[u64], watts: f64, objective: Objective) -> f64 {
    match objective {
        Objective::Energy => watts,
        Objective::Cost => {
            let usd: f64 = figures.iter().zip(devices).map(|(f, n)| f.price_usd.unwrap() * *n as f64).sum();
            usd + watts * YEAR_S / 3.6e6 * PRICES.usd_per_kwh
        }
    }
}

fn counts(most: &[u64]) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for most in most {
        all = all.iter().flat_map(|part| (0..=*most).map(move |n| [&part[..], &[n]].concat())).collect();
    }
    all
}

fn by_force(figures: &[Figures], demand: &Demand, policy: Policy, objective: Objective) -> f64 {
    let most: Vec<u64> = figures.iter().map(|f| f.needed(demand)).collect();
    let mut best = f64::INFINITY;
    for devices in counts(&most) {
        let awake = if policy == Policy::Standby { counts(&devices) } else { vec![devices.clone()] };
        for awake in awake {
            if let Some(watts) = inner(figures, demand, &devices, &awake, policy) {
                best = best.min(value(figures, &devices, watts, objective));
            }
        }
    }
    best
}

fn value_of(found: &Fleet) -> f64 {
    match found.objective {
        Objective::Energy => found.mean_power_w,
        Objective::Cost => found.total_usd.unwrap(),
    }
}

#[test]
fn no_fleet_is_better_than_the_one_found() {
    let mut random = StdRng::seed_from_u64(11);
    for case in 0..30 {
        let figures: Vec<Figures> = (0..3).map(|name| device(&mut random, name)).collect();
        let peak = random.random_range(50.0..900.0);
        let demand = Demand::new(peak, peak * random.random_range(0.05..1.0), random.random_range(1e6..9e6)).unwrap();
        for policy in [Policy::Idle, Policy::Standby, Policy::AllActive] {
            for objective in [Objective::Energy, Objective::Cost] {
                let whole = [Segment::WHOLE];
                let found = fleet(&figures, &demand, &whole, 1.0, policy, YEAR_S, PRICES, objective).unwrap();
                let best = by_force(&figures, &demand, policy, objective);
                let off = value_of(&found) / best - 1.0;
                assert!(
                    off.abs() < 1e-4,
                    "case {case} {policy:?} {objective:?}: {} and {best}: {found:?}",
                    value_of(&found)
                );
                // The result is a fleet that can do the work.
                let total =
                    |of: fn(&peryton_plan::energy::FleetMember) -> f64| found.members.iter().map(of).sum::<f64>();
                assert!((total(|m| m.data_share) - 1.0).abs() < 1e-6 && (total(|m| m.access_share) - 1.0).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn a_fleet_of_one_kind_is_what_the_equations_say() {
    let mut random = StdRng::seed_from_u64(5);
    for _ in 0..50 {
        let figures = [device(&mut random, 0)];
        let peak = random.random_range(10.0..5_000.0);
        let demand = Demand::new(peak, peak * random.random_range(0.0..1.0), random.random_range(1e3..5e7)).unwrap();
        for policy in [Policy::Idle, Policy::Standby, Policy::AllActive] {
            let row = &rank(&figures, &terms(&demand, &[policy]))[0];
            let found =
                fleet(&figures, &demand, &[Segment::WHOLE], 1.0, policy, YEAR_S, PRICES, Objective::Cost).unwrap();
            assert_eq!(found.members[0].devices, row.devices);
            assert!((found.mean_power_w / row.mean_power_w - 1.0).abs() < 1e-6, "{found:?} {row:?}");
            assert!((found.total_usd.unwrap() / row.total_usd.unwrap() - 1.0).abs() < 1e-6);
        }
    }
}

/// Two kinds and two segments, with shares on a fine grid.
#[test]
fn hot_data_goes_where_it_is_served_and_cold_data_where_it_rests() {
    let mut random = StdRng::seed_from_u64(3);
    let (mut ssd, mut disk) = (device(&mut random, 0), device(&mut random, 1));
    (ssd.capacity_mb, ssd.bandwidth_mb_per_s, ssd.idle_w, ssd.busy_w, ssd.price_usd) =
        (1e6, 500.0, 0.2, 2.0, Some(300.0));
    (disk.capacity_mb, disk.bandwidth_mb_per_s, disk.idle_w, disk.busy_w, disk.price_usd) =
        (4e6, 40.0, 5.0, 5.3, Some(100.0));
    let figures = [ssd, disk];
    let demand = Demand::new(450.0, 100.0, 8e6).unwrap();
    let segments = [Segment { data: 0.1, accesses: 0.95 }, Segment { data: 0.9, accesses: 0.05 }];
    let found = fleet(&figures, &demand, &segments, 1.0, Policy::Idle, YEAR_S, PRICES, Objective::Cost).unwrap();
    let mut best = f64::INFINITY;
    for devices in counts(&[8, 12]) {
        for hot in 0..=200 {
            for cold in 0..=200 {
                let z = [
                    (f64::from(hot) / 200.0, f64::from(cold) / 200.0),
                    (1.0 - f64::from(hot) / 200.0, 1.0 - f64::from(cold) / 200.0),
                ];
                let mut watts = 0.0;
                let mut fits = true;
                for ((f, n), (hot, cold)) in figures.iter().zip(&devices).zip(z) {
                    let (data, accesses) = (0.1 * hot + 0.9 * cold, 0.95 * hot + 0.05 * cold);
                    fits &= data * 8e6 <= *n as f64 * f.capacity_mb + 1e-6
                        && accesses * 450.0 <= *n as f64 * f.bandwidth_mb_per_s + 1e-9;
                    watts += *n as f64 * f.idle_w + (f.busy_w - f.idle_w) * accesses * 100.0 / f.bandwidth_mb_per_s;
                }
                if fits {
                    best = best.min(value(&figures, &devices, watts, Objective::Cost));
                }
            }
        }
    }
    let total = found.total_usd.unwrap();
    assert!(total <= best * (1.0 + 1e-9) && total > best * 0.995, "{total} and {best}: {found:?}");
    assert_eq!(found.members.len(), 2, "one of each kind is best: {found:?}");
    // If all data is alike, it needs disks for its capacity and all of them for its speed, which costs more.
    let alike =
        fleet(&figures, &demand, &[Segment::WHOLE], 1.0, Policy::Idle, YEAR_S, PRICES, Objective::Cost).unwrap();
    assert!(alike.total_usd.unwrap() > total * 1.1);
}

#[test]
fn a_fleet_of_the_whole_catalogue_is_found_in_seconds() {
    let mut random = StdRng::seed_from_u64(9);
    let figures: Vec<Figures> = (0..20).map(|name| device(&mut random, name)).collect();
    let demand = Demand::new(20_000.0, 4_000.0, 5e8).unwrap();
    let segments = [0.01, 0.02, 0.07, 0.2, 0.7].map(|data| Segment { data, accesses: f64::sqrt(data) / 2.03 });
    let sum: f64 = segments.iter().map(|s| s.accesses).sum();
    let segments = segments.map(|s| Segment { accesses: s.accesses / sum, ..s });
    let began = std::time::Instant::now();
    for policy in [Policy::Idle, Policy::Standby] {
        let found = fleet(&figures, &demand, &segments, 1.0, policy, YEAR_S, PRICES, Objective::Cost).unwrap();
        let alone = rank(&figures, &terms(&demand, &[policy]));
        let best = alone.iter().filter_map(|row| row.total_usd).fold(f64::INFINITY, f64::min);
        assert!(found.total_usd.unwrap() <= best * (1.0 + 1e-6), "{found:?} is dearer than one kind alone, {best}");
        println!("{policy:?}: {:?}, {} USD, one kind {best}", began.elapsed(), found.total_usd.unwrap());
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn devices_that_lack_what_is_asked_take_no_part() {
    let mut random = StdRng::seed_from_u64(1);
    let mut one = device(&mut random, 0);
    (one.price_usd, one.standby_w) = (None, None);
    let demand = Demand::new(10.0, 5.0, 1e6).unwrap();
    let ask =
        |policy, objective| fleet(&[one.clone()], &demand, &[Segment::WHOLE], 1.0, policy, YEAR_S, PRICES, objective);
    assert!(ask(Policy::Idle, Objective::Cost).is_err());
    // A device without a standby state idles.
    let (idle, standby) =
        (ask(Policy::Idle, Objective::Energy).unwrap(), ask(Policy::Standby, Objective::Energy).unwrap());
    assert!((idle.mean_power_w - standby.mean_power_w).abs() < 1e-9);
    let found = ask(Policy::Idle, Objective::Energy).unwrap();
    assert_eq!((found.members.len(), found.total_usd), (1, None));
}
