use std::sync::Arc;

use peryton_units::Bytes;
use serde::Deserialize;

use super::{
    error::Wrong,
    permutation::Permutation,
    random::{Random, mix},
    size::{Size, SizeSampler},
};

/// A file server's addresses: files laid one after the other over the footprint, some more popular than others.
///
/// The file of a request is drawn as Filebench draws an index: rank = ⌊Gamma(`gamma`, `scale`)⌋ (GreenDM, 3.5). With a
/// given scale, a small `gamma` concentrates the accesses on few files and a large one spreads them, as the paper
/// describes its figure. Ranks past the last file wrap around; ranks are scattered over the files by a seeded
/// permutation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// Size of each file.
    pub file_size: Size,
    /// Shape of the popularity's gamma distribution.
    pub gamma: f64,
    /// Scale of the distribution, in files. Absent, it is the number of files / 28: three deviations above the mean of
    /// gamma 16 is then the last file ((16 + 3 × √16) = 28 scales), so that gamma 16 reaches the whole set and gamma 1
    /// a few hundredths of it.
    pub scale: Option<f64>,
    /// Whether accesses take whole files, or parts of them.
    #[serde(default)]
    pub access: FileAccess,
    /// The largest request in an access to a whole file.
    #[serde(default = "max_request")]
    pub max_request: Bytes,
}

fn max_request() -> Bytes {
    Bytes::mib(1)
}

/// The part of a file that an access takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// All of it, from start to end, one request after the other; the request size distribution is not used.
    #[default]
    Whole,
    /// One request of a drawn size, at a random aligned place in the file.
    Partial,
}

/// The most files of one specification; the start of each takes 8 bytes of memory.
const MAX_FILES: usize = 1 << 24;

/// Draws files.
#[derive(Clone)]
pub(super) struct FilesSampler {
    /// The start of each file, followed by the end of the last one.
    starts: Arc<[u64]>,
    popularity: Permutation,
    gamma: f64,
    scale: f64,
    access: FileAccess,
    max_request: u64,
}

impl FilesSampler {
    pub(super) fn new(files: &Files, footprint: u64, unit: Bytes, seed: u64) -> Result<FilesSampler, Wrong> {
        let sizes = SizeSampler::new(&files.file_size, unit).map_err(|wrong| wrong.under("address.file"))?;
        for (key, value) in [("address.gamma", Some(files.gamma)), ("address.scale", files.scale)] {
            if let Some(value) = value
                && !(value.is_finite() && value > 0.0)
            {
                return Err(Wrong::new(key, format!("is {value}, expected a positive number")));
            }
        }
        if files.max_request.0 == 0 || !files.max_request.is_multiple_of(unit) {
            let what = format!("{} is not a positive multiple of the alignment {unit}", files.max_request);
            return Err(Wrong::new("address.max_request", what));
        }
        // The layout has a random stream of its own, so that it does not depend on the requests.
        let mut random = Random::new(mix(&[seed, 0x66_69_6c_65]));
        let (mut starts, mut end) = (vec![0], 0u64);
        loop {
            let size = sizes.draw(&mut random);
            if size > footprint - end {
                break;
            }
            end += size;
            starts.push(end);
            if starts.len() > MAX_FILES {
                let what =
                    format!("makes more than {MAX_FILES} files in the footprint: larger files or a smaller footprint");
                return Err(Wrong::new("address.file_size", what));
            }
        }
        if starts.len() == 1 {
            let what = "no file fits into the footprint: smaller files or a larger footprint";
            return Err(Wrong::new("address.file_size", what));
        }
        let count = starts.len() as u64 - 1;
        Ok(FilesSampler {
            starts: starts.into(),
            popularity: Permutation::new(count, seed),
            gamma: files.gamma,
            scale: files.scale.unwrap_or(count as f64 / 28.0),
            access: files.access,
            max_request: files.max_request.0,
        })
    }

    /// The start and the end of a file.
    fn file(&self, random: &mut Random) -> (u64, u64) {
        let count = self.starts.len() as u64 - 1;
        let rank = random.gamma(self.gamma, self.scale) as u64 % count;
        let file = self.popularity.at(rank) as usize;
        (self.starts[file], self.starts[file + 1])
    }

    /// Offset and length of a request of at most `len` bytes, and the end of the rest of its file that must follow.
    pub(super) fn draw(&self, len: u64, unit: u64, random: &mut Random) -> (u64, u64, u64) {
        let (start, end) = self.file(random);
        match self.access {
            FileAccess::Whole => (start, self.max_request.min(end - start), end),
            FileAccess::Partial => {
                let len = len.min(end - start);
                let offset = start + random.below((end - start - len) / unit + 1) * unit;
                (offset, len, offset + len)
            }
        }
    }

    /// Whether accesses take whole files.
    pub(super) fn is_whole(&self) -> bool {
        self.access == FileAccess::Whole
    }

    pub(super) fn max_request(&self) -> u64 {
        self.max_request
    }
}
