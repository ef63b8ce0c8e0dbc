//! Fitting profiles to measured latencies. The fears: what is scored was fitted, the same input gives another profile, and a device that
//! the model can describe is not found.

use std::cell::Cell;

use peryton_device::{
    Io, Profile,
    fit::{FitOptions, Kind, fit},
    validate::{Measured, most_in_flight, replay_on, replay_timed},
};
use peryton_units::{Bytes, Nanos, Op};

/// Requests in bursts of reads and writes of several sizes, and their latencies on the model of this profile.
fn measured_on(profile: &Profile, count: u64, apart: Nanos) -> Vec<Measured> {
    let mut random = 1u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % n
    };
    let mut requests: Vec<Measured> = Vec::new();
    let mut at = Nanos::ZERO;
    for number in 0..count {
        at += if number % 64 == 0 { Nanos(apart.0 * 64) } else { Nanos(below(apart.0)) };
        let op = if below(10) < 8 { Op::Read } else { Op::Write };
        let len = Bytes::kib([4, 4, 4, 8, 64][below(5) as usize]);
        requests.push(Measured { at, io: Io { op, at: Bytes::kib(4 * below(16_368)), len }, latency: Nanos::ZERO });
    }
    // A fit models as much of a device as requests touch.
    let mut device = profile.build(Some(Bytes::mib(64).min(profile.capacity)), 1).expect("the profile is sound");
    let took = replay_timed(&mut device, &requests, 64);
    requests.iter_mut().zip(took).for_each(|(request, took)| request.latency = took);
    requests
}

fn flash() -> Profile {
    let text = include_str!("../../src/fit/flash.toml").replacen("class =", "capacity = \"256GiB\"\nclass =", 1);
    let changed = "read = '80us'\nprogram = '1100us'\nread_overhead = '12us'\nnap_exit = '700us'\ndies_per_channel = 1\nchannels = 6";
    let overrides = changed.parse().expect("it is TOML");
    Profile::parse(&text, "known").and_then(|known| known.with_model(&overrides)).expect("the profile is sound")
}

fn options(kind: Kind, tries: u32) -> FitOptions {
    FitOptions { name: "mine".into(), source: "a test".into(), kind, capacity: None, tries, seed: 7 }
}

#[test]
fn a_model_with_known_values_is_found_again() {
    let requests = measured_on(&flash(), 8000, Nanos::from_us(300));
    let most = Cell::new(0);
    let found = fit(&requests, &options(Kind::Flash, 2000), &|tries, _| most.set(tries)).expect("it fits");
    println!(
        "fitted {:.4}, other {:.4}\n{}\n{}",
        found.fitted.demerit_share,
        found.other.demerit_share,
        found.text,
        found.other.render()
    );
    assert!(found.fitted.demerit_share < 0.08, "{}", found.fitted.demerit_share);
    assert!(found.other.demerit_share < 0.08, "{}", found.other.demerit_share);
    // The number of models is what bounds the time.
    assert!(found.tries <= 2002 && most.get() == found.tries, "{}", found.tries);
    // What was fitted is a profile, which gives the same demerit again, and says what it is made of.
    let again = Profile::parse(&found.text, "mine").expect("a profile");
    assert_eq!(replay_on("", &again, &requests[..4000]).expect("replayed").demerit_ms, found.fitted.demerit_ms);
    assert_eq!(again.provenance.unsaid().count(), 0);
    assert!(again.provenance.of("flash.read").is_some_and(|said| said.to_string().starts_with("fitted")));
}

#[test]
fn a_disk_with_known_values_is_found_again() {
    let text = include_str!("../../src/fit/disk.toml").replacen("class =", "capacity = \"1GiB\"\nclass =", 1);
    let changed =
        "rpm = 10025\nseek = { average = '5ms', single = '0.7ms', full = '11ms' }".parse().expect("it is TOML");
    let known = Profile::parse(&text, "known").and_then(|known| known.with_model(&changed)).expect("sound");
    let requests = measured_on(&known, 3000, Nanos::from_ms(40));
    assert_eq!(Kind::of(&requests), Kind::Disk);
    let found = fit(&requests, &options(Kind::Disk, 1000), &|_, _| ()).expect("it fits");
    println!("fitted {:.4}, other {:.4}", found.fitted.demerit_share, found.other.demerit_share);
    assert!(found.other.demerit_share < 0.08, "{}", found.other.demerit_share);
}

#[test]
fn what_is_scored_is_never_fitted() {
    let mut requests = measured_on(&flash(), 1200, Nanos::from_us(60));
    assert_eq!(Kind::of(&requests), Kind::Flash);
    let options = options(Kind::Flash, 40);
    let one = fit(&requests, &options, &|_, _| ()).expect("it fits");
    for request in &mut requests[600..] {
        request.latency = Nanos(request.latency.0 * 3 + 1_000_000);
        request.io.at = Bytes::kib(4);
        request.io.op = Op::Write;
    }
    let other = fit(&requests, &options, &|_, _| ()).expect("it fits");
    assert_eq!(one.text, other.text, "the half that is scored changed the profile");
    assert_ne!(one.other.demerit_ms, other.other.demerit_ms);
    // The fitted half does change it.
    requests.truncate(1200);
    requests[..600].iter_mut().for_each(|request| request.latency = Nanos(request.latency.0 * 3));
    assert_ne!(one.text, fit(&requests, &options, &|_, _| ()).expect("it fits").text);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let requests = measured_on(&flash(), 1000, Nanos::from_us(60));
    let texts: Vec<String> =
        (0..2).map(|_| fit(&requests, &options(Kind::Flash, 60), &|_, _| ()).expect("it fits").text).collect();
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn too_little_and_what_is_too_far_are_one_line() {
    let requests = measured_on(&flash(), 1000, Nanos::from_us(60));
    let few = fit(&requests[..100], &options(Kind::Flash, 5), &|_, _| ()).expect_err("too few").to_string();
    assert!(few.contains("too few") && !few.contains('\n'), "{few}");
    let small = FitOptions { capacity: Some(Bytes::mib(1)), ..options(Kind::Flash, 5) };
    let far = fit(&requests, &small, &|_, _| ()).expect_err("too far").to_string();
    assert!(far.contains("the device has 1048576") && !far.contains('\n'), "{far}");
}

#[test]
fn a_replay_holds_no_more_in_flight_than_the_recorder() {
    let requests = measured_on(&flash(), 2000, Nanos::from_us(5));
    let mut device = flash().build(Some(Bytes::mib(64)), 1).expect("sound");
    let alone = replay_timed(&mut device, &requests, 1);
    let mut device = flash().build(Some(Bytes::mib(64)), 1).expect("sound");
    let many = replay_timed(&mut device, &requests, most_in_flight(&requests).max(2));
    let mean = |took: &[Nanos]| took.iter().map(|took| took.0).sum::<u64>() / took.len() as u64;
    assert!(mean(&alone) < mean(&many), "{} {}", mean(&alone), mean(&many));
}
