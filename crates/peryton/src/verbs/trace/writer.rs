//! Writing of traces to files.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use peryton_trace::{ParquetWriter, Request, Source};
use peryton_units::Op;

use crate::failure::Failure;

/// The first line of a CSV trace.
pub const CSV_HEADER: &str = "time_us,op,offset,length,volume\n";

/// A request as a line of CSV; times keep their nanoseconds.
pub fn csv_line(out: &mut dyn Write, request: &Request) -> io::Result<()> {
    let op = match request.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Discard => 'D',
        Op::Flush => 'F',
    };
    let (us, ns) = (request.at.0 / 1_000, request.at.0 % 1_000);
    match ns {
        0 => write!(out, "{us}")?,
        ns => write!(out, "{us}.{ns:03}")?,
    }
    writeln!(out, ",{op},{},{},{}", request.offset.0, request.len.0, request.volume)
}

/// Writes all requests to a file: CSV if its name ends in .csv, otherwise Parquet. Returns the number of requests.
pub fn write_all(source: &mut dyn Source, path: &Path, origin: &str) -> Result<u64, Failure> {
    let mut batch = Vec::new();
    if path.extension().is_some_and(|extension| extension == "csv") {
        let failed = |error| Failure::writing(&path.display().to_string(), &error);
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        out.write_all(CSV_HEADER.as_bytes()).map_err(failed)?;
        let mut requests = 0;
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                out.flush().map_err(failed)?;
                return Ok(requests);
            }
            requests += batch.len() as u64;
            batch.iter().try_for_each(|request| csv_line(&mut out, request)).map_err(failed)?;
        }
    }
    let mut writer = ParquetWriter::create(path, origin)?;
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(writer.finish()?);
        }
        writer.write(&batch)?;
    }
}
