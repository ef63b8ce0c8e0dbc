//! The fears: intervals change the run, lose or invent what happened, or fill the memory.

use crate::common;

use common::{design, hybrid, listed, random_requests, request, simulate};
use peryton_sim::{Fit, IntervalReport, MOST_ROWS, Options, Replay, Report, SimError, run_one};
use peryton_units::{Nanos, Op};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

fn sum(report: &Report, of: impl Fn(&IntervalReport) -> u64) -> u64 {
    report.intervals.iter().map(of).sum()
}

/// Panics with what differs, if anything does.
fn same(what: &str, observed: &Report, other: &Report) {
    if observed != other {
        let lines = |report: &Report| {
            let report = Report { latency_histogram_us: Default::default(), ..report.clone() };
            format!("{report:#?}").lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let differ: Vec<_> = lines(observed).into_iter().zip(lines(other)).filter(|(a, b)| a != b).collect();
        panic!("{what} changed the run: {differ:#?}");
    }
}

/// The course over time adds up to the exact intervals, and the map to the requests and the moves.
fn the_picture_is_that_of(pictured: &Report, report: &Report, name: &str) {
    let picture = pictured.picture.as_ref().expect("it was asked for");
    let course = &picture.course;
    assert!((2..256).contains(&course.len()), "{name}: {} intervals", course.len());
    let of = |rows: &[IntervalReport], figure: fn(&IntervalReport) -> u64| rows.iter().map(figure).sum::<u64>();
    for figure in [
        |row: &IntervalReport| row.requests,
        |row: &IntervalReport| row.bytes_read,
        |row: &IntervalReport| row.bytes_written,
        |row: &IntervalReport| row.fast_hits.unwrap_or(0),
        |row: &IntervalReport| row.moves.map_or(0, |moves| moves.promotions + moves.demotions + moves.writebacks),
        |row: &IntervalReport| row.latency_us.all.as_ref().map_or(0, |all| all.count),
        |row: &IntervalReport| row.devices.iter().map(|(_, device)| device.bytes_written).sum(),
    ] {
        assert_eq!(of(course, figure), of(&report.intervals, figure), "{name}");
    }
    assert_eq!(course[course.len() - 1].end_s, report.intervals[report.intervals.len() - 1].end_s, "{name}");
    let energy = |rows: &[IntervalReport]| rows.iter().filter_map(|row| row.energy_j).sum::<f64>();
    assert!(close(energy(course), energy(&report.intervals)), "{name}");
    let longest = |rows: &[IntervalReport]| {
        rows.iter().filter_map(|row| Some(row.latency_us.all.as_ref()?.max)).fold(0.0, f64::max)
    };
    assert_eq!(longest(course), longest(&report.intervals), "{name}");
    let map = &picture.map;
    assert!(
        map.rows * map.columns == map.read.len() && map.column_s * map.columns as f64 >= report.simulated_s,
        "{name}"
    );
    // Requests that were in flight at one of the ends of the measured span are counted at the other one.
    let used = map.read.iter().chain(&map.written).sum::<u64>() as f64;
    let answered = (sum(report, |row| row.bytes_read) + sum(report, |row| row.bytes_written)) as f64;
    assert!((used / answered - 1.0).abs() < 0.01, "{name}: {used} and {answered}");
    assert_eq!(map.moves.is_some(), report.moves.is_some(), "{name}");
    if let (Some(moves), Some(counted)) = (&map.moves, &report.moves) {
        let came: u64 = moves.moved_in.iter().sum();
        assert!(came > 0 || counted.promotions == 0, "{name}: nothing came");
        assert!(moves.on_fast.iter().any(|share| *share > 0.0), "{name}");
    }
}

fn designs() -> Vec<(&'static str, String)> {
    let devices = "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '16MiB'\nmodel = { precondition = 'random' }\n\
                   [devices.hdd]\nprofile = 'seagate-st32000641as'\nsize = '64MiB'\n";
    let log = "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '64MiB'\n[devices.log]\nprofile = 'griffin-barracuda-7200'\n\
               size = '32MiB'\n[placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n[triggers]\ntimeout = '2s'\n";
    let partitioned =
        format!("{devices}[placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\nextent = '16KiB'\n");
    let sleepy = format!("{}\n[power.hdd]\nspin_down_after = '100ms'\n", hybrid("caching", ""));
    let mirrored = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-320-300gb'\ncount = 4\n\
                    redundancy = 'mirror'\n[placement]\nmode = 'single'\n";
    let actuators = "[volume]\nsize = '64MiB'\n[devices.hdd]\nprofile = 'seagate-exos-2x18-18tb'\n\
                     [placement]\nmode = 'single'\n";
    vec![
        ("tiering", hybrid("tiering", "")),
        ("caching", hybrid("caching", "")),
        ("sleepy", sleepy),
        ("through", hybrid("caching", "write = 'through'")),
        ("partitioned", partitioned),
        ("logging", log.to_owned()),
        ("mirrored", mirrored.to_owned()),
        ("actuators", actuators.to_owned()),
    ]
}

#[test]
fn intervals_change_nothing_and_add_up_to_the_report() {
    let requests = random_requests(4_000, 64 << 20, 1_500, 7);
    for (name, text) in designs() {
        for (replay, warm_up_requests, interval) in
            [(Replay::Timed { speed: 1.0 }, 0, 100), (Replay::Sync, 700, 37), (Replay::Depth(8), 1, 7)]
        {
            let plain = Options { replay, warm_up_requests, fit: Fit::Wrap, ..Options::default() };
            let options = Options { interval: Some(Nanos::from_ms(interval)), ..plain.clone() };
            let report = simulate(&text, &requests, &options).unwrap();
            let without = simulate(&text, &requests, &plain).unwrap();
            let pictured = simulate(&text, &requests, &Options { picture: true, ..plain.clone() }).unwrap();
            the_picture_is_that_of(&pictured, &report, name);
            same(&format!("{name}, {replay}: a picture"), &Report { picture: None, ..pictured }, &without);
            let bare = Report { intervals: Vec::new(), interval_s: None, ..report.clone() };
            same(&format!("{name}, {replay}: intervals"), &bare, &without);
            let rows = &report.intervals;
            assert!(rows.len() > 3, "{name}, {replay}: {} intervals", rows.len());
            for (row, next) in rows.iter().zip(&rows[1..]) {
                assert_eq!(row.end_s, next.start_s);
                assert!(close(row.end_s - row.start_s, interval as f64 / 1e3));
            }
            assert_eq!((rows[0].start_s, rows[rows.len() - 1].end_s), (0.0, report.simulated_s));
            assert_eq!(sum(&report, |row| row.requests), report.requests, "{name}, {replay}");
            let all = |row: &IntervalReport| row.latency_us.all.as_ref().map_or(0, |all| all.count);
            assert!(rows.iter().all(|row| all(row) == row.requests));
            let read = |row: &IntervalReport| row.latency_us.read.as_ref().map_or(0, |read| read.count);
            assert_eq!(sum(&report, read), report.latency_us.read.as_ref().map_or(0, |read| read.count));
            let mib = report.mib_per_s.unwrap() * report.simulated_s * f64::from(1 << 20);
            assert!(close(sum(&report, |row| row.bytes_read + row.bytes_written) as f64, mib));
            for (index, (device, whole)) in report.devices.iter().enumerate() {
                let of = |row: &IntervalReport| {
                    assert_eq!(*row.devices[index].0, **device);
                    row.devices[index].1
                };
                assert_eq!(sum(&report, |row| of(row).reads), whole.reads, "{name}: {device}");
                assert_eq!(sum(&report, |row| of(row).writes), whole.writes);
                assert_eq!(sum(&report, |row| of(row).bytes_written), whole.bytes_written);
                assert_eq!(whole.erases.map(|_| sum(&report, |row| of(row).erases.unwrap())), whole.erases);
                let nand = whole.nand_bytes_written;
                assert_eq!(nand.map(|_| sum(&report, |row| of(row).nand_bytes_written.unwrap())), nand);
                let total = |figure: &dyn Fn(&IntervalReport) -> f64| rows.iter().map(figure).sum::<f64>();
                let busy = total(&|row| of(row).busy_s);
                assert!(close(busy, whole.busy_s), "{name}, {replay}: {device}: busy {busy}, not {}", whole.busy_s);
                assert!(
                    rows.iter().all(|row| of(row).busy_s <= (row.end_s - row.start_s) * (1.0 + 1e-9)),
                    "{name}: {device}"
                );
                for (part, whole) in [
                    (total(&|row| of(row).energy_j.unwrap_or(0.0)), whole.energy_j),
                    (total(&|row| of(row).standby_s.unwrap_or(0.0)), whole.standby_s),
                    (total(&|row| of(row).wear_eu.unwrap_or(0.0)), whole.wear_eu),
                ] {
                    assert!(whole.is_none_or(|whole| close(part, whole)), "{name}: {device}: {part}, not {whole:?}");
                }
            }
            if let Some(moves) = &report.moves {
                assert_eq!(sum(&report, |row| row.moves.unwrap().promotions), moves.promotions, "{name}");
                assert_eq!(sum(&report, |row| row.moves.unwrap().cancelled), moves.cancelled);
                let (hits, misses) =
                    (sum(&report, |row| row.fast_hits.unwrap()), sum(&report, |row| row.fast_misses.unwrap()));
                assert!(close(hits as f64 / (hits + misses) as f64, report.fast_hit_ratio.unwrap()));
            }
            if let Some(log) = &report.logging {
                assert_eq!(sum(&report, |row| row.logging.unwrap().bytes_appended), log.bytes_appended);
                assert_eq!(sum(&report, |row| row.logging.unwrap().bytes_migrated), log.bytes_migrated);
            }
            let dirties = ["caching", "sleepy", "partitioned", "logging"].contains(&name);
            assert!(rows.iter().all(|row| row.dirty_bytes.is_some() == dirties), "{name}");
            assert!(!dirties || rows.iter().any(|row| row.dirty_bytes > Some(0)), "{name}: never dirty");
        }
    }
}

#[test]
fn one_interval_of_everything_has_the_figures_of_the_report() {
    let requests = random_requests(6_000, 64 << 20, 500, 5);
    let options = Options { replay: Replay::Depth(4), interval: Some(Nanos::from_s(86_400)), ..Options::default() };
    let report = simulate(&hybrid("caching", ""), &requests, &options).unwrap();
    let [row] = &report.intervals[..] else { panic!("{} intervals", report.intervals.len()) };
    assert_eq!(row.latency_us.all, report.latency_us.all);
    assert_eq!(row.latency_us.read, report.latency_us.read);
    assert_eq!(
        (row.latency_us.write.clone(), row.latency_us.flush.clone()),
        (report.latency_us.write, report.latency_us.flush)
    );
    assert_eq!((row.iops, row.mib_per_s, row.fast_hit_ratio), (report.iops, report.mib_per_s, report.fast_hit_ratio));
    assert_eq!((row.energy_j, row.mean_power_w), (report.energy_j, report.mean_power_w));
    assert_eq!((report.interval_s, row.end_s), (Some(86_400.0), report.simulated_s));
    let discards = requests.iter().filter(|request| request.op == Op::Discard).count() as u64;
    let histograms = &report.latency_histogram_us;
    assert_eq!(histograms.discard.as_ref().unwrap().count.iter().sum::<u64>(), discards);
    let counted: u64 =
        histograms.named().filter(|(name, _)| *name != "write_then_flush").flat_map(|(_, h)| &h.count).sum();
    assert_eq!(counted, report.requests);
}

const FIXED: &str = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\nmodel = { read = '1ms', write = '1ms' }\n\
                     [placement]\nmode = 'single'\n";

#[test]
fn a_reply_at_the_end_of_an_interval_belongs_to_it_and_idle_time_has_rows() {
    // Replies at 1 ms, 10 ms, 10.001 ms and 45 ms.
    let requests = [0, 9_000, 9_001, 44_000].map(|at| request(at, Op::Read, at << 12, 4096));
    let interval = Some(Nanos::from_ms(10));
    let report = simulate(FIXED, &requests, &Options { interval, ..Options::default() }).unwrap();
    let counts: Vec<u64> = report.intervals.iter().map(|row| row.requests).collect();
    let busy: Vec<f64> = report.intervals.iter().map(|row| row.devices[0].1.busy_s).collect();
    assert_eq!((counts, report.intervals[4].end_s), (vec![2, 1, 0, 0, 1], 0.045));
    assert!(report.intervals[2].latency_us.all.is_none() && report.intervals[2].iops == Some(0.0));
    assert!(close(busy[0], 0.001 + 0.001) && busy[2] == 0.0 && close(busy[4], 0.001), "{busy:?}");
    // The last reply at the end of an interval makes no further one.
    let report = simulate(FIXED, &requests[..2], &Options { interval, ..Options::default() }).unwrap();
    assert_eq!(report.intervals.len(), 1);
    // During the warm-up nothing is counted, and the intervals begin with its last reply.
    let options = Options { interval, warm_up_requests: 2, ..Options::default() };
    let report = simulate(FIXED, &requests, &options).unwrap();
    let counts: Vec<u64> = report.intervals.iter().map(|row| row.requests).collect();
    assert_eq!((counts, report.intervals[3].end_s), (vec![1, 0, 0, 1], 0.035));
}

#[test]
fn too_many_intervals_are_one_line_at_once() {
    let requests = random_requests(50, 64 << 20, 1_000, 5);
    let run = |interval: Nanos, requests: &[peryton_trace::Request]| {
        let options = Options { interval: Some(interval), ..Options::default() };
        run_one(&design(FIXED), "trace", listed(requests), &options, &|_| {})
    };
    let error = run(Nanos(1), &requests).unwrap_err();
    let SimError::TooManyIntervals { most, least, .. } = error else { panic!("{error}") };
    assert_eq!(most, MOST_ROWS as u64 / 2);
    assert!(
        error.is_bad_input() && error.to_string().contains("use a longer one") && !error.to_string().contains('\n')
    );
    assert!(least > Nanos(1));
    // Ten million intervals of idle time: no row is made.
    let far = [request(0, Op::Read, 0, 4096), request(10_000_000_000_000, Op::Read, 0, 4096)];
    let began = std::time::Instant::now();
    let error = run(Nanos::from_s(1), &far).unwrap_err();
    assert!(error.to_string().contains("--interval 1s") && began.elapsed().as_secs() < 5, "{error}");
    let SimError::TooManyIntervals { least, .. } = error else { panic!("{error}") };
    // The last reply comes a little later than the error.
    let report = run(least + Nanos(100), &far).unwrap();
    assert!(report.intervals.len() <= MOST_ROWS / 2);
    assert_eq!(report.intervals.iter().map(|row| row.requests).sum::<u64>(), 2);
    let error = run(Nanos::ZERO, &far).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("above 0"), "{error}");
}
