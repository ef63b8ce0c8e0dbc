use std::fmt::{self, Display};

use peryton_units::{Bytes, Nanos};

use super::{Characteristics, SizeDistribution, distribution::Distribution, pages::PAGE};

/// The most volumes that the text lists; the JSON has all of them.
const LISTED_VOLUMES: usize = 20;
/// The longest bar of a histogram, in characters.
const BAR: f64 = 40.0;

impl Display for Characteristics {
    /// The text of `peryton trace info`: a block of lines for each question.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        counts(self, f)?;
        rates(self, f)?;
        sizes(self, f)?;
        locality(self, f)?;
        working_set(self, f)?;
        volumes(self, f)
    }
}

pub(super) fn line(f: &mut fmt::Formatter<'_>, name: &str, value: impl Display) -> fmt::Result {
    writeln!(f, "{name:<22}{value}")
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn counts(c: &Characteristics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = format!("{} ({} reads, {} writes", grouped(c.requests), grouped(c.reads), grouped(c.writes));
    for (count, name) in [(c.discards, "discards"), (c.flushes, "flushes")] {
        if count > 0 {
            text += &format!(", {} {name}", grouped(count));
        }
    }
    line(f, "requests", text + ")")?;
    if c.without_length > 0 {
        line(
            f,
            "without a length",
            format!("{} of them, which are in no size and no share", grouped(c.without_length)),
        )?;
    }
    if let Some(share) = c.read_share {
        line(f, "read share", percent(share))?;
    }
    line(f, "data", format!("{} read, {} written", Bytes(c.bytes_read), Bytes(c.bytes_written)))?;
    if c.bytes_discarded > 0 {
        line(f, "discarded", Bytes(c.bytes_discarded))?;
    }
    line(f, "time span", seconds(c.span_s))?;
    Ok(())
}

fn rates(c: &Characteristics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if let (Some(iops), Some(rate)) = (c.mean_iops, c.mean_mib_per_s) {
        line(f, "requests per second", format!("{iops:.1} mean, {} in the busiest second", grouped(c.peak_iops)))?;
        line(f, "MiB per second", format!("{rate:.2} mean, {:.2} in the busiest second", c.peak_mib_per_s))?;
    }
    if let Some(intervals) = &c.inter_arrival_us {
        let Distribution { mean, p50, p90, p99, max, coefficient_of_variation, .. } = intervals.distribution;
        let [mean, p50, p90, p99, max] = [mean, p50, p90, p99, max].map(|us| seconds(us / 1e6));
        line(f, "inter-arrival time", format!("{mean} mean, {p50} p50, {p90} p90, {p99} p99, {max} max"))?;
        let together = percent(intervals.zero_share);
        line(f, "", format!("{coefficient_of_variation:.2} coefficient of variation, {together} at once"))?;
    }
    Ok(())
}

fn sizes(c: &Characteristics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (name, sizes) in [("read size", &c.request_bytes.read), ("write size", &c.request_bytes.write)] {
        sizes.as_ref().map_or(Ok(()), |sizes| sizes_of(name, sizes, f))?;
    }
    Ok(())
}

/// Mean, percentiles and histogram of sizes.
pub(super) fn sizes_of(name: &str, sizes: &SizeDistribution, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Distribution { mean, p50, p90, p99, max, .. } = sizes.distribution;
    let [mean, p50, p90, p99, max] = [mean, p50, p90, p99, max].map(|bytes| Bytes(bytes.round() as u64));
    line(f, name, format!("{mean} mean, {p50} p50, {p90} p90, {p99} p99, {max} max"))?;
    let most = sizes.histogram.iter().map(|bucket| bucket.requests).max().unwrap_or(1);
    for bucket in &sizes.histogram {
        let bar = "#".repeat((bucket.requests as f64 / most as f64 * BAR).ceil() as usize);
        let upto = format!("≤ {}", Bytes(bucket.upto_bytes));
        writeln!(f, "  {upto:<12}{:>14}  {bar}", grouped(bucket.requests))?;
    }
    Ok(())
}

fn locality(c: &Characteristics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sequential = &c.sequential_share;
    let shares = [("after the last request", sequential.all), ("reads after the last read", sequential.read)];
    let more = [("writes after the last write", sequential.write), ("after any of 32 streams", sequential.streams)];
    let parts = shares.into_iter().chain(more).filter_map(|(name, share)| Some(format!("{} {name}", percent(share?))));
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        line(f, "sequential", parts.join(", "))?;
    }
    if let Some(share) = c.aligned_4kib_share {
        line(f, "aligned to 4 KiB", percent(share))?;
    }
    let of_pages = |pages: u64| Bytes(pages.saturating_mul(PAGE.0));
    let (read, written) = (of_pages(c.footprint.pages_read), of_pages(c.footprint.pages_written));
    let both = of_pages(c.footprint.pages_read_and_written);
    let text = format!("{} touched, {read} read, {written} written, {both} both", of_pages(c.footprint.pages));
    line(f, "footprint", text)?;
    if c.footprint.sampled_share < 1.0 {
        line(f, "", format!("estimated from {} of the pages", percent(c.footprint.sampled_share)))?;
    }
    if let Some(share) = c.overwrite_share {
        line(f, "overwrites", format!("{} of the pages written had been written before", percent(share)))?;
    }
    Ok(())
}

fn working_set(c: &Characteristics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, row) in c.working_set.iter().enumerate() {
        let mean = Bytes((row.mean_pages * PAGE.0 as f64).round() as u64);
        let max = Bytes(row.max_pages.saturating_mul(PAGE.0));
        let name = if index == 0 { "working set" } else { "" };
        line(f, name, format!("within {:<6} {mean} mean, {max} max", Nanos::from_s(row.window_s).to_string()))?;
    }
    Ok(())
}

fn volumes(c: &Characteristics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if c.volumes.len() < 2 {
        return Ok(());
    }
    writeln!(
        f,
        "{:>10} {:>14} {:>14} {:>14} {:>11} {:>11} {:>11}",
        "volume", "requests", "reads", "writes", "read", "written", "end"
    )?;
    for row in c.volumes.iter().take(LISTED_VOLUMES) {
        let [requests, reads, writes] = [row.requests, row.reads, row.writes].map(grouped);
        let [read, written, end] =
            [row.bytes_read, row.bytes_written, row.end_bytes].map(|bytes| Bytes(bytes).to_string());
        writeln!(f, "{:>10} {requests:>14} {reads:>14} {writes:>14} {read:>11} {written:>11} {end:>11}", row.name)?;
    }
    if c.volumes.len() > LISTED_VOLUMES {
        writeln!(f, "{:>10} and {} more: --json lists them", "", c.volumes.len() - LISTED_VOLUMES)?;
    }
    Ok(())
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub(super) fn seconds(seconds: f64) -> String {
    Nanos::from_s_f64(seconds).to_string()
}
