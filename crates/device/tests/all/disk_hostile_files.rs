//! Untrusted drive descriptions and measured traces give errors of one line, no panic, and need bounded memory.

use std::{fs, path::Path};

use peryton_device::validate;
use proptest::prelude::*;

const MODEL: &str = "dm_disk TINY {
  Number of data surfaces = 2, Number of cylinders = 40, Block count = 8000,
  Layout Model = dm_layout_g1 {
    LBN-to-PBN mapping scheme = 1, Sparing scheme used = 9, Rangesize for sparing = 1,
    Zones = [
      dm_layout_g1_zone { First cylinder number = 0, Last cylinder number = 19, Blocks per track = 120,
        Offset of first block = 0.0, Empty space at zone front = 7, Skew for track switch = 20.0,
        Skew for cylinder switch = 40.0, Number of spares = 50, slips = [ 3, 500, 501 ], defects = [] },
      dm_layout_g1_zone { First cylinder number = 21, Last cylinder number = 39, Blocks per track = 100,
        Offset of first block = 0.0, Empty space at zone front = 0, Skew for track switch = 18.0,
        Skew for cylinder switch = 33.0, Number of spares = 0, slips = [], defects = [] }
    ]
  },
  Mechanical Model = dm_mech_g1 {
    Access time type = trackSwitchPlusRotation, Seek type = extracted, Full seek curve = tiny.seek,
    Add. write settling delay = 0.5, Head switch time = 0.2, Rotation speed (in rpms) = 10000
  }
}
";

const SEEK: &str = "Seek distances measured: 3\n1, 1.0\n10, 2.5\n39, 6.0\n";

const SPECS: &str = "disksim_disk TINY {
  Bulk sector transfer time = 0.1, Enable caching in buffer = 1, Number of buffer segments = 3,
  Maximum number of write segments = 2, Segment size (in blks) = 64, Use separate write segment = 0,
  Allow almost read hits = 0, Allow sneaky full read hits = 0, Allow read hits on write data = 1,
  Allow write prebuffering = 0, Buffer continuous read = 4, Maximum read-ahead (blks) = 64,
  Read-ahead over requested = 1, Read any free blocks = 1, Fast write level = 2, Immediate buffer read = 1,
  Read hit over. after read = 0.1, Read hit over. after write = 0.1, Read miss over. after read = 0.2,
  Read miss over. after write = 0.2, Write hit over. after read = 0.3, Write hit over. after write = 0.3,
  Write miss over. after read = 0.4, Write miss over. after write = 0.4
}
";

const TRACE: &str = "R Hit 100 4 5000.0 1000.0\nW Miss 8000 8 900.0 40000.0\nR Hit 104 4 700.0 100.0\n";

struct Files(std::path::PathBuf);

impl Files {
    fn new(name: &str, model: &[u8], seek: &[u8], specs: &[u8], trace: &[u8]) -> Files {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the target directory can be written");
        for (extension, bytes) in [("model", model), ("seek", seek), ("diskspecs", specs), ("trace", trace)] {
            fs::write(folder.join("tiny").with_extension(extension), bytes).expect("the folder was just made");
        }
        Files(folder)
    }

    fn replay(&self) -> Result<validate::Validation, String> {
        validate::replay(&self.0.join("tiny.trace")).map_err(|error| error.to_string())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_sound_description_replays_and_renders() {
    let files = Files::new("sound", MODEL.as_bytes(), SEEK.as_bytes(), SPECS.as_bytes(), TRACE.as_bytes());
    let result = files.replay().unwrap();
    assert_eq!(result.requests, 3);
    assert!((result.mean_ms - 2.2).abs() < 1e-9);
    assert!(result.render().contains("of the measured mean"));
    let json = serde_json::to_value(&result).unwrap();
    assert!(json["demerit_ms"].is_number() && json["mean_ms"].is_number());
}

#[test]
fn errors_name_file_line_and_remedy() {
    for (which, from, to, message) in [
        (0, "Number of data surfaces = 2", "Number of data surfaces = 0", "heads = 0: expected"),
        (0, "Number of data surfaces = 2,", "", "has no 'Number of data surfaces': add it"),
        (0, "dm_layout_g1 {", "dm_layout_g4 {", "layout 'dm_layout_g4': expected dm_layout_g1"),
        (0, "scheme used = 9", "scheme used = 2", "sparing scheme 2 with 50 spares: expected"),
        (0, "Last cylinder number = 19", "Last cylinder number = 50", "zones in order"),
        (0, "slips = [ 3, 500, 501 ]", "slips = [ 3, 500, 99999 ]", "zones.slips"),
        (0, "slips = [ 3, 500, 501 ]", "slips = [ -3 ]", "expected a sector number"),
        (
            0,
            "defects = [] }\n    ]",
            "defects = [ 1, 2, 3 ] }\n    ]",
            "3 numbers in 'defects': expected pairs of a defect",
        ),
        (
            0,
            "defects = [] }\n    ]",
            "defects = [ 1, 2, 1, 3 ] }\n    ]",
            "defect 1 has two sectors in its place: remove one",
        ),
        (1, "10, 2.5", "10; 2.5", "tiny.seek:3: '10; 2.5': expected 'cylinders, milliseconds'"),
        (1, "10, 2.5", "1, 2.5", "tiny.seek:3: distance 1 does not rise"),
        (2, "Fast write level = 2", "Fast write level = 3", "'Fast write level': expected a number from 0 to 2"),
        (2, "= 64, Use", "= many, Use", "'Segment size (in blks)': expected a number"),
        (3, "R Hit 104", "R Perhaps 104", "tiny.trace:3: 'R Perhaps 104 4 700.0 100.0': expected"),
        (3, "W Miss 8000", "W Miss 800000", "addresses inside the drive's geometry"),
    ] {
        let mut texts = [MODEL, SEEK, SPECS, TRACE].map(str::to_owned);
        assert!(texts[which].contains(from), "{from} is in the sample");
        texts[which] = texts[which].replace(from, to);
        let [model, seek, specs, trace] = &texts;
        let files = Files::new("broken", model.as_bytes(), seek.as_bytes(), specs.as_bytes(), trace.as_bytes());
        let error = files.replay().expect_err(to);
        assert!(error.contains(message) && !error.contains('\n'), "{to}: {error}");
    }
}

#[test]
fn a_missing_file_is_named_with_what_it_is_for() {
    let files = Files::new("missing", MODEL.as_bytes(), SEEK.as_bytes(), SPECS.as_bytes(), TRACE.as_bytes());
    fs::remove_file(files.0.join("tiny.seek")).unwrap();
    let error = files.replay().unwrap_err();
    assert!(error.contains("tiny.seek") && error.contains("needed beside the trace"), "{error}");
}

/// The bytes of a valid file, damaged in a few places.
fn damaged(text: &'static str) -> impl Strategy<Value = Vec<u8>> {
    let byte =
        prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b','), Just(b'='), Just(b'9'), Just(b'-'), any::<u8>()];
    (proptest::collection::vec((any::<prop::sample::Index>(), byte), 0..6), any::<bool>(), any::<prop::sample::Index>())
        .prop_map(move |(edits, cut, at)| {
            let mut bytes = text.as_bytes().to_vec();
            for (index, byte) in edits {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            if cut {
                bytes.truncate(at.index(bytes.len()));
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
    #[test]
    fn damaged_files_end_in_a_result_or_in_one_line(
        model in damaged(MODEL), seek in damaged(SEEK), specs in damaged(SPECS), trace in damaged(TRACE), which in 0..5u32,
    ) {
        let sound = |at: u32, damaged: Vec<u8>, text: &str| if which == at || which == 4 { damaged } else { text.as_bytes().to_vec() };
        let files = Files::new(
            "damaged",
            &sound(0, model, MODEL),
            &sound(1, seek, SEEK),
            &sound(2, specs, SPECS),
            &sound(3, trace, TRACE),
        );
        match files.replay() {
            Ok(result) => prop_assert!(result.demerit_ms.is_finite()),
            Err(error) => prop_assert!(!error.contains('\n') && error.len() < 1000, "{}", error),
        }
    }
}
