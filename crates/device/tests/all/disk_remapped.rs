//! A sector whose data lie in a spare costs the way there and back. The times are computed by hand.

use peryton_device::{Accepted, Disk, DiskParameters, Io, Tag};
use peryton_units::{Bytes, Nanos, Op};

/// A turn takes 10 ms, a track has 100 sectors (0.1 ms each), a step of the arm takes 1 ms, however far, and each cylinder begins 10
/// sectors later than the one before. The last 10 of 1,000 sectors are spares: 990 lies in cylinder 9.
fn disk(remapped: &str) -> Disk {
    let parameters: DiskParameters = toml::from_str(&format!(
        r#"rpm = 6000
        heads = 1
        head_switch = "0ms"
        seek = {{ curve = [[1, 1.0], [9, 1.0]] }}
        zones = [{{ first_cylinder = 0, cylinders = 10, sectors_per_track = 100, track_skew = 0.0, cylinder_skew = 10.0, spares = 10, remapped = {remapped} }}]"#
    ))
    .expect("the sample is sound");
    Disk::new(&parameters).expect("a disk")
}

/// When a request at 0 ends, in µs.
fn end_us(disk: &mut Disk, op: Op, sector: u64, sectors: u64) -> u64 {
    match disk.submit(Nanos::ZERO, Tag(0), Io { op, at: Bytes(sector * 512), len: Bytes(sectors * 512) }) {
        Accepted::At(end) => (end.0 + 500) / 1000,
        Accepted::Queued => panic!("a first-come disk answers at once"),
    }
}

#[test]
fn a_remapped_sector_alone_is_read_where_its_spare_is() {
    assert_eq!(end_us(&mut disk("[]"), Op::Read, 50, 1), 5_100);
    // A step (1 ms), then 80 sectors of angle (9 × 10 + 90, less a turn) are reached 8 ms after the start.
    assert_eq!(end_us(&mut disk("[[50, 990]]"), Op::Read, 50, 1), 8_100);
    // Its neighbours stay where they are.
    assert_eq!(end_us(&mut disk("[[50, 990]]"), Op::Read, 51, 1), 5_200);
    assert_eq!(end_us(&mut disk("[[50, 990]]"), Op::Read, 49, 1), 5_000);
}

#[test]
fn a_request_over_a_remapped_sector_goes_there_and_back() {
    for op in [Op::Read, Op::Write] {
        assert_eq!(end_us(&mut disk("[]"), op, 49, 3), 5_200);
        // Sector 49 ends at 5.0 ms, the spare passes from 8.0 to 8.1, and sector 51 comes by a turn later: from 15.1 to 15.2.
        assert_eq!(end_us(&mut disk("[[50, 990]]"), op, 49, 3), 15_200);
    }
}

#[test]
fn a_defect_that_is_its_own_replacement_stays() {
    assert_eq!(end_us(&mut disk("[[50, 50]]"), Op::Read, 49, 3), 5_200);
}

#[test]
fn remapped_sectors_lose_no_capacity_and_must_lie_in_the_zone() {
    assert_eq!(disk("[[50, 990]]").capacity(), disk("[]").capacity());
    for wrong in ["[[50, 1000]]", "[[1000, 50]]", "[[50, 990], [50, 991]]"] {
        let text = format!(
            "rpm = 6000\nheads = 1\nhead_switch = \"0ms\"\nseek = {{ curve = [[1, 1.0]] }}\n\
             zones = [{{ first_cylinder = 0, cylinders = 10, sectors_per_track = 100, track_skew = 0.0, cylinder_skew = 10.0, remapped = {wrong} }}]"
        );
        let parameters: DiskParameters = toml::from_str(&text).expect("it reads");
        let error = Disk::new(&parameters).expect_err("no such disk").to_string();
        assert!(error.contains("zones.remapped"), "{error}");
    }
}
