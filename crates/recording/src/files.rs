//! The files of a recording: it has a bound, so its oldest file goes when another one begins.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Content, Head, Scan};

/// The name of a file of a recording that is full: that of the recording with the number of the file after it.
///
/// ```
/// use std::path::Path;
///
/// let full = peryton_recording::full_file(Path::new("v.recording"), 7);
/// assert_eq!(full, Path::new("v.recording.7"));
/// ```
pub fn full_file(recording: &Path, number: u64) -> PathBuf {
    let mut path = recording.as_os_str().to_owned();
    path.push(format!(".{number}"));
    PathBuf::from(path)
}

/// The files of a recording one after the other, as one stream of chunks: the full ones that are still there, the oldest first, and
/// the one that is written to.
///
/// They are open together from the start, so that none disappears while another one is read. A file that is no recording is a
/// stream of its own bytes.
#[derive(Debug)]
pub struct Files {
    files: Vec<File>,
    at: usize,
}

impl Files {
    /// Opens the recording at a path.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path) -> io::Result<Files> {
        let file = File::open(path)?;
        // What is read of a pipe would be missing afterwards.
        let newest = if file.metadata()?.is_file() { head_of(path)? } else { None };
        let mut files = vec![file];
        if let Some(newest) = newest {
            for number in (0..newest.file).rev() {
                let path = full_file(path, number);
                let is_it = |head: Head| {
                    head.file == number && head.began_unix_ms == newest.began_unix_ms && head.name == newest.name
                };
                let found = head_of(&path).ok().flatten().is_some_and(is_it);
                let Some(file) = found.then(|| File::open(&path).ok()).flatten() else { break };
                files.push(file);
            }
        }
        files.reverse();
        Ok(Files { files, at: 0 })
    }

    /// How many files they are.
    pub fn count(&self) -> usize {
        self.files.len()
    }
}

impl Read for Files {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(file) = self.files.get_mut(self.at) {
            let read = file.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            self.at += 1;
        }
        Ok(0)
    }
}

/// The head of a file, with which each file of a recording begins.
fn head_of(path: &Path) -> io::Result<Option<Head>> {
    let file = File::open(path)?;
    let mut magic = [0; crate::chunk::MAGIC.len()];
    if !matches!((&file).take(magic.len() as u64).read(&mut magic), Ok(len) if len == magic.len())
        || magic != crate::chunk::MAGIC
    {
        return Ok(None);
    }
    let first = Scan::new((&magic[..]).chain(file)).next_chunk()?;
    Ok(first.and_then(|chunk| match chunk.content() {
        Content::Head(head) => Some(*head),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;
    use crate::chunk;

    fn write(path: &Path, file: u64, began_unix_ms: u64) {
        let head = Head { name: "v".to_owned(), began_unix_ms, file, ..Head::default() };
        fs::write(path, chunk(chunk::HEAD, file, 0, &serde_json::to_vec(&head).unwrap())).unwrap();
    }

    fn numbers(path: &Path) -> Vec<u64> {
        let mut scan = Scan::new(Files::open(path).unwrap());
        std::iter::from_fn(|| scan.next_chunk().unwrap()).map(|chunk| chunk.number).collect()
    }

    #[test]
    fn files_that_are_there_are_read_in_order_and_those_of_another_recording_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        write(&path, 3, 7);
        assert_eq!(numbers(&path), [3]);
        (1..3).for_each(|number| write(&full_file(&path, number), number, 7));
        assert_eq!(numbers(&path), [1, 2, 3], "0 is gone");
        write(&full_file(&path, 1), 1, 8);
        assert_eq!(numbers(&path), [2, 3], "1 is of another recording");
        fs::write(full_file(&path, 2), "a letter").unwrap();
        assert_eq!(numbers(&path), [3]);
    }

    #[test]
    fn what_is_no_recording_is_read_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for bytes in ["", "a", "a letter", "PERYREC\nand no chunk"] {
            fs::write(&path, bytes).unwrap();
            let mut text = String::new();
            Files::open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, bytes);
        }
        assert!(Files::open(&folder.path().join("none")).is_err());
    }
}
