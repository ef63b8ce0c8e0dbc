//! Measuring devices and fitting what was measured, on models whose values are known. The fears: a value that was measured is not found
//! again, what is scored was fitted, an interruption loses what there was, and writes where only reads were asked for.

use std::cell::Cell;

use peryton_device::{
    Device, Io, Model, Profile,
    fit::{Fit, Kind, MeasuredFit, fit_measurement, knee},
    measure::{About, Budget, Interval, Measurement, Order, Progress, Subject, Synthetic, measure, probe, sustain},
};
use peryton_units::{Bytes, Nanos, Op};

fn about(kind: Kind, size: Bytes, written: bool) -> About {
    About {
        path: "a model".into(),
        model: None,
        kind,
        rotational: None,
        size,
        capacity: None,
        block: Bytes(512),
        scratch: false,
        written,
        direct: true,
    }
}

const BUDGET: Budget = Budget { whole: Nanos::from_s(240), most_written: Bytes::mib(64) };

fn measured(profile: &Profile, kind: Kind, size: Bytes, written: bool) -> Measurement {
    let mut subject = Synthetic::new(profile.build(Some(size.min(profile.capacity)), 3).expect("sound"));
    let mut found = Measurement::new(about(kind, size, written), 5, 6);
    // Fewer requests take less time to fit.
    let many = found.steps.iter_mut().filter(|step| step.order != Order::Zones && step.rest == 0);
    many.for_each(|step| step.most = step.most.div_ceil(3));
    found.courses =
        sustain(&mut subject, &found.device, (5, BUDGET), &|| false, &mut |_| ()).expect("a model does not fail");
    measure(&mut subject, &mut found, BUDGET, &|| false, &mut |_| (), &mut |_| ()).expect("a model does not fail");
    assert_eq!(found.complete_rounds(), 6);
    found.check().expect("what was measured is sound");
    found
}

fn fitted(measurement: &Measurement, kind: Option<Kind>, tries: u32) -> Fit {
    let options = MeasuredFit { name: "mine".into(), kind, capacity: None, tries, seed: 1, flush: None };
    let fit = fit_measurement(measurement, &options, &|_, _| ()).expect("it fits");
    println!("{:?}: fitted {:.4}, other {:.4}", fit.kind, fit.fitted.demerit_share, fit.other.demerit_share);
    for step in &fit.steps {
        let (a, b) = (&step.fitted, &step.other);
        println!("{:60} {:9.4} ms {:6.3} {:6.3}", step.step, b.mean_ms, a.demerit_share, b.demerit_share);
    }
    println!("{}", fit.text);
    fit
}

fn near(what: &str, found: f64, known: f64, tolerance: f64) {
    assert!((found / known - 1.0).abs() <= tolerance, "{what}: {found} instead of {known}");
}

#[test]
fn a_disk_is_found_again() {
    let known = Profile::named("ibm-ultrastar-36z15").expect("it is shipped");
    let Model::Disk(had) = &known.model else { panic!("it is a disk") };
    let found = fitted(&measured(&known, Kind::Disk, known.capacity, true), None, 200);
    let Model::Disk(has) = &found.profile.model else { panic!("not a disk") };
    near("rpm", has.rpm, had.rpm, 0.005);
    let tracks = |disk: &peryton_device::DiskParameters| disk.tracks.clone().expect("it has tracks");
    near("outer", tracks(has).outer_mb_per_s, tracks(had).outer_mb_per_s, 0.05);
    near("inner", tracks(has).inner_mb_per_s, tracks(had).inner_mb_per_s, 0.05);
    let seek = |disk: &peryton_device::DiskParameters| disk.seek.average.expect("it has a curve").0 as f64;
    near("average seek", seek(has), seek(had), 0.2);
    let random = &found.steps[0];
    assert!(
        random.step.starts_with("random reads, 4KiB, 1 in flight") && random.other.demerit_share < 0.15,
        "{random:?}"
    );
    // Where the drive chooses among many, few requests of a hundred milliseconds decide: with a third of the usual requests 15 % is too little.
    assert!(found.other.demerit_share < 0.2, "{}", found.other.demerit_share);
    let said = |key: &str| found.profile.provenance.of(key).map(ToString::to_string).unwrap_or_default();
    assert!(said("disk.rpm").starts_with("fitted") && said("disk.tracks.outer_mb_per_s").starts_with("fitted"));
    assert!(said("measured.rand_read_ms").starts_with("measured [1]"), "{}", said("measured.rand_read_ms"));
    assert_eq!(found.profile.provenance.unsaid().count(), 0);
}

/// A device of times from a distribution, eight at a time behind a link.
fn virtual_disk() -> Profile {
    let text = "name = 'known'\ndescription = 'times from a distribution'\nclass = 'fixed'\n[fixed]\nread = '200us'\nwrite = '400us'\n\
                capacity = '1GiB'\nparallelism = 8\nread_mb_per_s = 900\nwrite_mb_per_s = 500\nshared_mb_per_s = 1500\nread_interval = '5us'\n\
                read_spread = [[0.0, 0.8], [0.5, 1.0], [0.9, 1.2], [0.99, 2.5], [1.0, 4.0]]\n\
                write_spread = [[0.0, 0.8], [0.5, 1.0], [0.95, 1.3], [1.0, 2.5]]";
    Profile::parse(text, "known").expect("the profile is sound")
}

#[test]
fn times_from_a_distribution_are_found_again() {
    let found = fitted(&measured(&virtual_disk(), Kind::Flash, Bytes::mib(128), true), None, 1500);
    let Model::Fixed(has) = &found.profile.model else { panic!("the kind is {:?}", found.kind) };
    near("read", has.read.0 as f64, 200e3, 0.1);
    near("write", has.write.0 as f64, 400e3, 0.1);
    // Eight at a time are much like a least time between two: what counts is the rate.
    for step in
        found.steps.iter().filter(|step| step.step.contains("4KiB, 16 in flight") || step.step.contains("64 in flight"))
    {
        near(&step.step, step.other.model_mean_ms, step.other.mean_ms, 0.1);
    }
    assert!(found.other.demerit_share < 0.15, "{}", found.other.demerit_share);
    // The distribution itself: nearly a hundredth of the reads take two and a half times the usual.
    let at = has.read_spread.iter().find(|point| point.0 == 0.99).expect("it has a tail");
    assert!((1.8..3.2).contains(&at.1), "{:?}", has.read_spread);
}

#[test]
fn reads_and_writes_share_links_of_their_own_rates() {
    // Nothing but the link bounds the rate of large requests.
    let link = "shared_write_mb_per_s = 900\nparallelism = 64\nread_interval = '1us'".parse().expect("it is TOML");
    let known = virtual_disk().with_model(&link).expect("the profile is sound");
    let found = fitted(&measured(&known, Kind::Flash, Bytes::mib(128), true), None, 900);
    let Model::Fixed(has) = &found.profile.model else { panic!("the kind is {:?}", found.kind) };
    near("reads", has.shared_mb_per_s.expect("it is fitted"), 1500.0, 0.2);
    near("writes", has.shared_write_mb_per_s.expect("it is fitted"), 900.0, 0.2);
    assert!(found.other.demerit_share < 0.15, "{}", found.other.demerit_share);
}

#[test]
fn a_device_that_gathers_commands_and_wakes_from_rests_is_found_again() {
    let wakes = "parallelism = 1\ngathers = true\nread_interval = '30us'\nflush = '700us'\nrests = [['1ms', '50us'], ['20ms', '150us']]";
    let known = virtual_disk().with_model(&wakes.parse().expect("it is TOML")).expect("the profile is sound");
    let measurement = measured(&known, Kind::Flash, Bytes::mib(128), true);
    let found = fitted(&measurement, Some(Kind::Fixed), 1200);
    let Model::Fixed(has) = &found.profile.model else { panic!("the kind is {:?}", found.kind) };
    assert!(has.gathers, "four in flight take four intervals, whatever begins them");
    near("interval", has.read_interval.0 as f64, 30e3, 0.2);
    near("flush", has.flush.0 as f64, 700e3, 0.01);
    assert_eq!(measurement.flush(false), Some((Nanos::from_us(700), 48)));
    // Between the points that were measured it is a straight line.
    let after = |rest: Nanos| has.rests.iter().find(|point| point.0 == rest).expect("it was measured").1.0 as f64;
    near("after 2 ms", after(Nanos::from_ms(2)), 50e3 + 100e3 / 19.0, 0.3);
    near("after 20 ms", after(Nanos::from_ms(20)), 150e3, 0.2);
    assert!(found.other.demerit_share < 0.15, "{}", found.other.demerit_share);
    for step in found.steps.iter().filter(|step| step.step.contains("of rest")) {
        near(&step.step, step.other.model_mean_ms, step.other.mean_ms, 0.25);
    }
    let reads = Measurement { flushes: Vec::new(), ..measured(&known, Kind::Flash, Bytes::mib(64), false) };
    assert_eq!(reads.flush(true), None, "what is only read is not flushed");
}

fn flash() -> Profile {
    let text = include_str!("../../src/fit/flash.toml").replacen("class =", "capacity = \"256GiB\"\nclass =", 1);
    let changed = "read = '65us'\nprogram = '900us'\nread_overhead = '15us'\nchannels = 8\ndies_per_channel = 2\ninterface_mb_per_s = 2800";
    let overrides = changed.parse().expect("it is TOML");
    Profile::parse(&text, "known").and_then(|known| known.with_model(&overrides)).expect("the profile is sound")
}

#[test]
fn flash_is_found_again() {
    // Of reads alone: with writes there are more values than so many tries find.
    let found = fitted(&measured(&flash(), Kind::Flash, Bytes::mib(128), false), Some(Kind::Flash), 150);
    assert!(found.other.demerit_share < 0.15, "{}", found.other.demerit_share);
    let Model::Flash(has) = &found.profile.model else { panic!("it is flash") };
    near("a small read", (has.read.0 + has.read_overhead.0) as f64, 80e3, 0.15);
}

#[test]
fn what_is_scored_is_never_fitted() {
    let mut measurement = measured(&virtual_disk(), Kind::Flash, Bytes::mib(64), false);
    let options = MeasuredFit { name: "mine".into(), kind: None, capacity: None, tries: 15, seed: 1, flush: None };
    let model = |fit: &Fit| {
        let text = &fit.text;
        text[text.find("[fixed]").or(text.find("[flash]")).expect("a model")..text.find("[measured]").expect("figures")]
            .to_owned()
    };
    let one = fit_measurement(&measurement, &options, &|_, _| ()).expect("it fits");
    for block in measurement.blocks.iter_mut().filter(|block| block.round % 2 == 1) {
        block.requests.0.iter_mut().for_each(|request| request.latency = Nanos(request.latency.0 * 3 + 1_000_000));
    }
    let other = fit_measurement(&measurement, &options, &|_, _| ()).expect("it fits");
    assert_eq!(model(&one), model(&other));
    assert_ne!(one.other.demerit_ms, other.other.demerit_ms);
}

/// A device that notes what it was asked for.
struct Noted {
    inner: Synthetic,
    writes: u64,
}

impl Subject for Noted {
    fn now(&mut self) -> Nanos {
        self.inner.now()
    }
    fn begin(&mut self, slot: u32, io: Io) -> Result<(), String> {
        assert!(
            io.at + io.len <= Bytes::mib(64) && io.at.0.is_multiple_of(4096) && io.len.0.is_multiple_of(4096),
            "{io:?}"
        );
        self.writes += u64::from(io.op == Op::Write);
        self.inner.begin(slot, io)
    }
    fn wait(&mut self, done: &mut Vec<(u32, Nanos)>) -> Result<(), String> {
        self.inner.wait(done)
    }
    fn rest(&mut self, time: Nanos) {
        self.inner.rest(time);
    }
}

fn small() -> Device {
    virtual_disk().build(Some(Bytes::mib(64)), 1).expect("sound")
}

#[test]
fn nothing_is_written_where_only_reads_are_asked_for_and_all_are_whole_blocks_inside() {
    for (kind, written) in [(Kind::Flash, false), (Kind::Disk, false), (Kind::Flash, true), (Kind::Disk, true)] {
        let mut subject = Noted { inner: Synthetic::new(small()), writes: 0 };
        let device = About { block: Bytes(4096), ..about(kind, Bytes::mib(64), written) };
        probe(&mut subject, &device, &|| false).expect("no failure");
        let courses = sustain(&mut subject, &device, (5, BUDGET), &|| false, &mut |_| ()).expect("no failure");
        let mut found = Measurement::new(device, 5, 2);
        found.courses = courses;
        measure(&mut subject, &mut found, BUDGET, &|| false, &mut |_| (), &mut |_| ()).expect("no failure");
        assert_eq!(subject.writes > 0, written, "{kind:?}");
        assert_eq!(found.courses.len(), if written { 2 } else { 0 });
        assert!(found.requests() > 500);
    }
}

#[test]
fn an_interruption_keeps_what_was_measured_and_it_goes_on_from_there() {
    let device = about(Kind::Flash, Bytes::mib(64), false);
    let mut found = Measurement::new(device, 5, 4);
    let steps = found.steps.len() as u32;
    let (told, rounds) = (Cell::new(0), Cell::new(0));
    let tell = |_: Progress<'_>| told.set(told.get() + 1);
    let mut subject = Synthetic::new(small());
    // It stops in the third round.
    let stop = || told.get() >= 2 * steps + 3;
    measure(&mut subject, &mut found, BUDGET, &stop, &mut { tell }, &mut |so_far: &Measurement| {
        rounds.set(so_far.complete_rounds())
    })
    .expect("it ends");
    assert_eq!((found.complete_rounds(), rounds.get(), found.blocks.len() as u32), (2, 2, 2 * steps + 2));
    found.check().expect("sound");
    let early = found.blocks[..2 * steps as usize].to_vec();
    measure(&mut Synthetic::new(small()), &mut found, BUDGET, &|| false, &mut |_| (), &mut |_| ()).expect("it ends");
    assert_eq!((found.complete_rounds(), found.blocks.len() as u32), (4, 4 * steps));
    assert_eq!(&found.blocks[..2 * steps as usize], &early[..]);
    let times: Vec<u64> = found.blocks.iter().flat_map(|block| &block.requests.0).map(|request| request.at.0).collect();
    assert!(times.is_sorted(), "times go on");
    // With one round there is nothing to score.
    found.blocks.truncate(steps as usize);
    let options = MeasuredFit { name: "mine".into(), kind: None, capacity: None, tries: 5, seed: 1, flush: None };
    let few = fit_measurement(&found, &options, &|_, _| ()).expect_err("too few").to_string();
    assert!(few.contains("0 in odd ones are too few") && !few.contains('\n'), "{few}");
}

#[test]
fn a_measurement_comes_back_from_its_file_and_a_damaged_one_is_one_line() {
    let found = measured(&virtual_disk(), Kind::Flash, Bytes::mib(64), true);
    let text = serde_json::to_string(&found).expect("it is JSON");
    let back: Measurement = serde_json::from_str(&text).expect("it is read");
    assert_eq!(back, found);
    for (from, to, part) in [
        ("peryton-measurement-1", "peryton-measurement-9", "expected 'peryton-measurement-1'"),
        ("\"size_bytes\":67108864", "\"size_bytes\":4096", "not inside the device"),
        ("\"depth\":1,", "\"depth\":100000,", "in flight"),
        ("\"rounds\":6", "\"rounds\":1", "2 to 64 rounds"),
        ("\"round\":5", "\"round\":77", "no such step"),
        ("\"op\":\"RR", "\"op\":\"R", "columns of different lengths"),
        ("\"op\":\"RR", "\"op\":\"RX", "expected R or W"),
        ("\"scratch\"", "\"scratched\"", "unknown field"),
    ] {
        assert!(text.contains(from), "{from}");
        let damaged = text.replacen(from, to, 1);
        let read = serde_json::from_str::<Measurement>(&damaged).map_err(|error| error.to_string());
        let message = read.and_then(|read| read.check().map_err(|error| error.to_string())).expect_err("it is damaged");
        assert!(message.contains(part) && !message.contains('\n'), "{to}: {message}");
    }
}

#[test]
fn a_write_that_becomes_slow_for_good_is_told_from_one_that_varies() {
    let interval =
        |mb: u64| Interval { took: 100_000_000, written: mb * 100_000, commands: mb, latencies: 1, longest: 1 };
    let full: Vec<Interval> =
        (0..60).map(|n| interval(if n < 25 { 3000 + n % 3 * 50 } else { 800 + n % 5 * 30 })).collect();
    let found = knee(&full).expect("it becomes slower");
    assert_eq!(found.after.0, full[..25].iter().map(|interval| interval.written).sum::<u64>());
    near("before", found.before_mb_per_s, 3050.0, 0.02);
    near("then", found.then_mb_per_s, 860.0, 0.02);
    let noise: Vec<Interval> = (0..60).map(|n| interval(if n % 7 == 0 { 300 } else { 2000 })).collect();
    assert_eq!(knee(&noise), None);
    assert_eq!(knee(&full[..15]), None);
}

#[test]
fn backward_reads_are_just_before_each_other() {
    let found = measured(&virtual_disk(), Kind::Disk, Bytes::gib(1), false);
    let number = found.steps.iter().position(|step| step.order == Order::Backward).expect("it has such a step");
    let blocks = found.blocks.iter().filter(|block| block.step as usize == number);
    let (mut just, mut all) = (0, 0);
    for two in blocks.flat_map(|block| block.requests.0.windows(2).map(<[_]>::to_vec)) {
        just += usize::from(two[1].io.at + two[1].io.len == two[0].io.at);
        all += 1;
    }
    assert!(just * 100 > all * 95, "{just} of {all}");
}
