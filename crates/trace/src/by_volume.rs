//! A trace of many volumes taken apart in one reading: each volume as a trace of its own.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufReader, BufWriter, Seek, SeekFrom, Write},
    sync::Arc,
};

use peryton_units::Nanos;

use crate::{
    BATCH, Request, Source, TraceError, VolumeNames,
    order::{ROW, from_rows, on_file, row},
};

/// Volumes are kept in so many parts by their number, of which one is in memory at a time.
const PARTS: usize = 64;
/// The number of requests of a part that wait in memory until they go to its temporary file: 1 MiB.
const PENDING: usize = 1 << 15;

/// The requests of a trace, by volume: in memory if there are few, otherwise in temporary files.
///
/// ```
/// use peryton_trace::{ByVolume, OpenOptions, read};
///
/// let trace = &b"time_us,volume,op,offset,length\n0,7,R,0,512\n5,2,R,0,512\n9,7,W,0,512\n"[..];
/// let mut source = read("t.csv", trace, &OpenOptions::default())?;
/// let mut volumes: Vec<_> = ByVolume::of(&mut source)?.parts().flatten().flatten().collect();
/// volumes.sort_by_key(|volume| volume.number());
/// let named: Vec<_> = volumes.iter().map(|volume| (volume.name(), volume.requests().len())).collect();
/// assert_eq!(named, [("2", 1), ("7", 2)]);
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
pub struct ByVolume {
    parts: Vec<Part>,
    names: VolumeNames,
}

#[derive(Default)]
struct Part {
    pending: Vec<Request>,
    file: Option<BufWriter<File>>,
}

/// One volume of a trace.
#[derive(Clone, Debug)]
pub struct OneVolume {
    number: u32,
    name: String,
    requests: Arc<Vec<Request>>,
}

impl ByVolume {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// Those of the source, and of a temporary file that cannot be written.
    pub fn of(source: &mut dyn Source) -> Result<ByVolume, TraceError> {
        let mut parts: Vec<Part> = (0..PARTS).map(|_| Part::default()).collect();
        let mut batch = Vec::new();
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(ByVolume { parts, names: source.account().names });
            }
            for request in &batch {
                parts[request.volume as usize % PARTS].add(*request)?;
            }
        }
    }

    /// The volumes of each part, in turn.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn parts(self) -> impl Iterator<Item = Result<Vec<OneVolume>, TraceError>> {
        let ByVolume { parts, names } = self;
        parts.into_iter().map(move |part| {
            let mut volumes: BTreeMap<u32, Vec<Request>> = BTreeMap::new();
            part.into_each(|request| volumes.entry(request.volume).or_default().push(request))?;
            let one = |(number, mut requests): (u32, Vec<Request>)| {
                // As if it had been selected alone: its time begins with its first request.
                let first = requests.first().map_or(Nanos::ZERO, |request| request.at);
                requests.iter_mut().for_each(|request| request.at -= first);
                OneVolume { number, name: names.name(number), requests: Arc::new(requests) }
            };
            Ok(volumes.into_iter().map(one).collect())
        })
    }
}

impl Part {
    fn add(&mut self, request: Request) -> Result<(), TraceError> {
        self.pending.push(request);
        if self.pending.len() < PENDING {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(BufWriter::new(tempfile::tempfile().map_err(on_file)?));
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        for request in self.pending.drain(..) {
            file.write_all(&row(&request)).map_err(on_file)?;
        }
        Ok(())
    }

    fn into_each(self, mut each: impl FnMut(Request)) -> Result<(), TraceError> {
        if let Some(file) = self.file {
            let mut file = file.into_inner().map_err(|error| on_file(error.into_error()))?;
            let rows = file.stream_position().map_err(on_file)? / ROW as u64;
            file.seek(SeekFrom::Start(0)).map_err(on_file)?;
            let mut file = BufReader::new(file);
            let mut left = rows;
            while left > 0 {
                let some = left.min(BATCH as u64);
                from_rows(&mut file, some as usize, &mut each)?;
                left -= some;
            }
        }
        self.pending.into_iter().for_each(each);
        Ok(())
    }
}

impl OneVolume {
    /// Its number in the trace.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its name in the trace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its requests, whose times count from the first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The volume as a trace.
    pub fn open(&self) -> Box<dyn Source> {
        Box::new(Opened { requests: Arc::clone(&self.requests), at: 0 })
    }
}

struct Opened {
    requests: Arc<Vec<Request>>,
    at: usize,
}

impl Source for Opened {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let until = self.requests.len().min(self.at + BATCH);
        batch.extend_from_slice(&self.requests[self.at..until]);
        self.at = until;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_units::{Bytes, Op};

    use super::*;

    /// Requests of three volumes in turn.
    struct Turns(u64, u64);

    impl Source for Turns {
        fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
            batch.clear();
            let until = self.1.min(self.0 + BATCH as u64);
            batch.extend((self.0..until).map(|n| Request {
                at: Nanos(n),
                offset: Bytes(n * 512),
                len: Bytes(512),
                // The first and the last are in the same part.
                volume: [1, 2, 65][n as usize % 3],
                op: Op::Write,
            }));
            self.0 = until;
            Ok(())
        }
    }

    #[test]
    fn each_volume_has_its_requests_in_their_order_in_memory_and_in_files() {
        for count in [0, 10, 300_000] {
            let by_volume = ByVolume::of(&mut Turns(0, count)).unwrap();
            assert_eq!(by_volume.parts[1].file.is_some(), count == 300_000);
            let volumes: Vec<OneVolume> = by_volume.parts().flat_map(Result::unwrap).collect();
            let total: usize = volumes.iter().map(|volume| volume.requests().len()).sum();
            assert_eq!((total as u64, volumes.len()), (count, if count == 0 { 0 } else { 3 }));
            for volume in &volumes {
                let (mut source, mut batch, mut all) = (volume.open(), Vec::new(), Vec::new());
                loop {
                    source.next_batch(&mut batch).unwrap();
                    if batch.is_empty() {
                        break;
                    }
                    all.extend_from_slice(&batch);
                }
                let first = [1, 2, 65].iter().position(|number| *number == volume.number()).unwrap() as u64;
                let expected = (first..count).step_by(3);
                assert!(
                    all.iter()
                        .map(|request| (request.at.0, request.offset.0))
                        .eq(expected.map(|n| (n - first, n * 512)))
                );
            }
        }
    }
}
