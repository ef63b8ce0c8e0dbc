//! Hashes of what is simulated. They recognise what was simulated before; they do not protect from anyone.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use twox_hash::XxHash3_128;

use super::error::SpaceError;

/// How much of a file is read at a time.
const PIECE: usize = 1 << 20;

/// The hash of parts in their order, as 32 digits. Where a part ends counts as well.
pub(super) fn of_parts(parts: &[&str]) -> String {
    let mut hash = XxHash3_128::new();
    for part in parts {
        hash.write(&(part.len() as u64).to_le_bytes());
        hash.write(part.as_bytes());
    }
    format!("{:032x}", hash.finish_128())
}

/// The hash of a file's bytes, as a point of a sweep has it of the files of its trace.
///
/// # Errors
/// The file cannot be read.
pub fn file_hash(path: &Path) -> Result<String, SpaceError> {
    of_file(path).map_err(|source| SpaceError::Io { path: path.to_owned(), source })
}

fn of_file(path: &Path) -> io::Result<String> {
    let mut hash = XxHash3_128::new();
    let (mut file, mut piece) = (File::open(path)?, vec![0; PIECE]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(format!("{:032x}", hash.finish_128())),
            read => hash.write(&piece[..read]),
        }
    }
}
