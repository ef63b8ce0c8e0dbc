//! Write amplification of the simulated device against published models, with and without hot data, within 3 %.
//!
//! `cargo test -p peryton-device --test all all_spare_areas -- --ignored --nocapture` prints the table of `docs/flash-model.md`.

use crate::theory;

use peryton_device::{Accepted, Flash, Io, Tag, flash::FlashParameters};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use theory::{Mix, UNIFORM};

const PAGES: u64 = 32;
const BLOCKS: u64 = 2000;
const UNITS: u64 = PAGES * BLOCKS;
/// Blocks of a die that hold no data on average: one that is free, and halves of the block that the host fills, of the one that cleaning
/// fills, and of the one that is being emptied. The models have as many blocks as one likes.
const WITHOUT_DATA: f64 = 2.5;
/// Blocks of which the least valid is practically that of all.
const MANY: f64 = 4000.0;

fn device(spare: f64, collection: &str) -> Flash {
    let parameters: FlashParameters = toml::from_str(&format!(
        r#"channels = 1
        dies_per_channel = 1
        page = "4KiB"
        pages_per_block = {PAGES}
        read = "50us"
        program = "500us"
        erase = "2ms"
        channel_mb_per_s = 400
        interface_mb_per_s = 2000
        cycles = 3000
        over_provisioning = {}
        write_buffer = "256KiB"
        idle_w = 1
        standby_w = 0.1
        gc_low = 1
        gc_high = 1
        precondition = "random"
        {collection}"#,
        spare - 1.0
    ))
    .expect("parameters");
    let capacity = Bytes(UNITS * 4096);
    Flash::new(&parameters, capacity, capacity, 1).expect("a device")
}

/// The write amplification once it is steady: rounds of a device's worth of writes, until the mean of the last quarter of them differs
/// little from that of the quarter before.
fn simulated(spare: f64, collection: &str, mix: Mix) -> f64 {
    let mut flash = device(spare, collection);
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut now = Nanos::ZERO;
    let hot = (UNITS as f64 * mix.hot) as u64;
    let mut rounds: Vec<f64> = Vec::new();
    // Cold data take long to come to where they stay.
    let least = if mix.hot == mix.traffic { 3 } else { 8 };
    loop {
        flash.reset_stats(now);
        for _ in 0..UNITS {
            let unit = if random.random_bool(mix.traffic) {
                random.random_range(0..hot)
            } else {
                random.random_range(hot..UNITS)
            };
            let io = Io { op: Op::Write, at: Bytes(unit * 4096), len: Bytes(4096) };
            let Accepted::At(end) = flash.submit(now, Tag(0), io) else { panic!("flash knows the end at once") };
            now = end;
        }
        let stats = flash.stats(now);
        rounds.push(stats.nand_bytes_written.expect("flash").0 as f64 / stats.bytes_written.0 as f64);
        let quarter = rounds.len() / 4;
        let mean = |rounds: &[f64]| rounds.iter().sum::<f64>() / rounds.len() as f64;
        if quarter >= least {
            let (before, last) = rounds[rounds.len() - 2 * quarter..].split_at(quarter);
            if (mean(last) / mean(before) - 1.0).abs() < 0.002 || rounds.len() == 120 {
                flash.check();
                return mean(last);
            }
        }
    }
}

const MIXES: [(&str, Mix); 3] = [
    ("all alike", UNIFORM),
    ("20 % take 80 %", Mix { hot: 0.2, traffic: 0.8 }),
    ("10 % take 90 %", Mix { hot: 0.1, traffic: 0.9 }),
];

/// Compares what was simulated with what lies between two predictions, which are the same where nothing is left open.
fn compare(name: &str, collection: &str, spares: &[f64], model: impl Fn(f64, Mix) -> (f64, f64)) {
    let mut wrong = Vec::new();
    for &spare in spares {
        for (mixed, mix) in MIXES {
            let blocks = (BLOCKS as f64 * spare).round();
            let (least, most) = model((blocks - WITHOUT_DATA) / BLOCKS as f64, mix);
            let found = simulated(spare, collection, mix);
            let off = (found / found.clamp(least, most) - 1.0) * 100.0;
            let predicted = if least == most { format!("{least:.3}") } else { format!("{least:.3} to {most:.3}") };
            println!("| {name} | {:.1} % | {mixed} | {predicted} | {found:.3} | {off:+.1} % |", (spare - 1.0) * 100.0);
            if off.abs() > 3.0 {
                wrong.push(format!("{name}, {spare}, {mixed}: {predicted} predicted, {found:.3} simulated"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn in_order(spares: &[f64]) {
    compare("fifo", "collection = \"fifo\"", spares, |spare, mix| {
        let predicted = theory::fifo(spare, mix);
        (predicted, predicted)
    });
}

fn least_of_ten(spares: &[f64]) {
    compare("d_choices, 10", "collection = \"d_choices\"\ngc_choices = 10", spares, |spare, mix| {
        let predicted = theory::choices(spare, PAGES as usize, 10.0, mix);
        (predicted, predicted)
    });
}

/// Which of equally valid blocks is taken matters where some data are hot: `greedy` takes the first by number, of which the models have
/// the two extremes.
fn greedy(spares: &[f64]) {
    compare("greedy", "", spares, |spare, mix| {
        let pages = PAGES as usize;
        let drawn = theory::choices(spare, pages, MANY, mix);
        let first = theory::greedy(spare, pages, mix);
        (drawn.min(first), drawn.max(first))
    });
}

#[test]
fn cleaning_in_the_order_of_writing_costs_what_desnoyers_says() {
    in_order(&[1.125]);
}

#[test]
fn cleaning_the_least_of_ten_costs_what_van_houdt_says() {
    least_of_ten(&[1.125]);
}

#[test]
fn greedy_cleaning_costs_what_the_limit_of_many_choices_says() {
    greedy(&[1.125]);
}

#[test]
#[ignore = "takes minutes: prints the table of docs/flash-model.md"]
fn the_table_of_all_spare_areas() {
    let spares = [1.07, 1.125, 1.28];
    in_order(&spares);
    least_of_ten(&spares);
    greedy(&spares);
}

#[test]
fn the_models_agree_with_published_values_and_with_each_other() {
    // Desnoyers 2012: 1/A = 1 − exp(−α/A) at α = 1.25 gives 2.69.
    assert!((theory::fifo(1.25, UNIFORM) - 2.69).abs() < 0.01);
    // Hot data of which nothing is special is uniform data.
    let alike = Mix { hot: 0.3, traffic: 0.3 };
    assert!((theory::fifo(1.1, alike) / theory::fifo(1.1, UNIFORM) - 1.0).abs() < 1e-9);
    assert!((theory::choices(1.1, 16, 4.0, alike) / theory::choices(1.1, 16, 4.0, UNIFORM) - 1.0).abs() < 1e-4);
    // One choice is a random victim, for which A = α / (α − 1) in the limit of long blocks (Van Houdt 2013); more choices copy less.
    let random = theory::choices(1.25, 32, 1.0, UNIFORM);
    assert!((random / 5.0 - 1.0).abs() < 0.03, "{random}");
    let [ten, many] = [10.0, 1e4].map(|choices| theory::choices(1.25, 32, choices, UNIFORM));
    let greedy = theory::greedy(1.25, 32, UNIFORM);
    assert!(greedy < ten && ten < greedy * 1.05 && (many / greedy - 1.0).abs() < 0.003, "{greedy} {ten} {many}");
    // Greedy with long blocks tends to cleaning in the order of writing.
    assert!((theory::greedy(1.25, 128, UNIFORM) / theory::fifo(1.25, UNIFORM) - 1.0).abs() < 0.03);
}
