//! The disk model against four real drives: see `docs/disk-model.md`.

use std::path::{Path, PathBuf};

use peryton_device::validate;

/// The measured traces are not part of the project; tests that need them say so and pass where they are absent.
fn trace(drive: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/traces/real-disks")
        .join(drive)
        .with_extension("trace");
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}

fn replay(drive: &str) -> Option<validate::Validation> {
    let result = validate::replay(&trace(drive)?).unwrap();
    println!("{}", result.render());
    println!("within 0.5 ms: {:.1} %", result.within_half_ms * 100.0);
    Some(result)
}

#[test]
fn cheetah_9lp() {
    let Some(result) = replay("cheetah9LP") else { return };
    assert!(result.demerit_share < 0.10);
}

#[test]
fn ibm_18es() {
    let Some(result) = replay("ibm18es") else { return };
    assert!(result.demerit_share < 0.10);
}

#[test]
fn atlas_10k() {
    let Some(result) = replay("atlas10k") else { return };
    assert!(result.demerit_share < 0.10);
}

#[test]
fn barracuda() {
    let Some(result) = replay("barracuda") else { return };
    assert!(result.demerit_share < 0.10);
}
