//! The miss-ratio curve of the extents of a design: which of its misses a larger fast device could avoid.

use std::borrow::Cow;

use peryton_trace::{BATCH, DEFAULT_MAX_BLOCKS, MissRatioCurve, Request, Source, TraceError};

use crate::{Design, Options, SimError, request_source::RequestSource};

/// Reads a trace as a simulation of the design would (requests that do not fit the volume are wrapped, skipped or an error, and
/// the options may limit their number), in the size in which it is simulated; returns the exact curve of an LRU cache of its extents. `None` for a design without
/// extents.
///
/// ```
/// use peryton_sim::{Design, Options, extent_curve};
/// use peryton_trace::{OpenOptions, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let design = Design::load("../../examples/papers/caching-back.toml", &[])?;
/// let trace = open("../../examples/traces/pgbench-ext4.parquet", &OpenOptions::default())?;
/// let curve = extent_curve(&design, Box::new(trace), &Options::default())?.expect("a cache has extents");
/// println!("{} extents are accessed", curve.blocks());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The trace cannot be read, or does not fit the volume.
pub fn extent_curve(
    design: &Design,
    trace: Box<dyn Source>,
    options: &Options,
) -> Result<Option<MissRatioCurve>, SimError> {
    let design = design.simulated()?;
    let Some(extent) = design.extent() else { return Ok(None) };
    let in_part = |error| if matches!(design, Cow::Owned(_)) { SimError::of_load(error) } else { error };
    let requests = RequestSource::new(trace, design.volume, 1, options.fit, options.limit, &|_| {})?;
    let mut fitted = Fitted { requests, error: None };
    let curve = MissRatioCurve::of(&mut fitted, extent, DEFAULT_MAX_BLOCKS)?;
    fitted.error.map_or(Ok(Some(curve)), |error| Err(in_part(error)))
}

/// The requests as the simulation takes them.
struct Fitted<'a> {
    requests: RequestSource<'a>,
    /// Why there are no more.
    error: Option<SimError>,
}

impl Source for Fitted<'_> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < BATCH && self.error.is_none() {
            match self.requests.take() {
                Ok(Some(request)) => batch.push(request),
                Ok(None) => break,
                Err(error) => self.error = Some(error),
            }
        }
        Ok(())
    }
}
