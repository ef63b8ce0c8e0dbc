//! Why prediction and measurement differ: the likeliest reasons first.

use peryton_recording::Flags;

use super::{Figure, Overhead, Prediction, Recording, Setup, compare::Verdict};
use crate::table;

/// More requests waiting at once than this mean that the models are slower than the requests came.
const CROWD: u32 = 10_000;

pub fn of(
    recording: &Recording,
    setup: &Setup,
    prediction: &Prediction,
    figures: &[Figure],
    overhead: &Overhead,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if recording.dropped > 0 {
        reasons.push(format!(
            "{} requests are missing in the recording, because its file could not be written fast enough or was full: counts of the \
             drive include them, those of the twin do not",
            recording.dropped
        ));
    }
    if recording.damaged_bytes > 0 {
        reasons.push(format!(
            "{} bytes of the recording are no whole chunk: its writer was killed, or the file is damaged",
            recording.damaged_bytes
        ));
    }
    if let Some(why) = &recording.head.no_state
        && !setup.is_empty
    {
        let warmed = match recording.warm_up {
            0 => String::new(),
            replies => format!("; its first {replies} requests only filled it, and the counts are of those after them"),
        };
        reasons.push(format!(
            "the twin began with an empty drive, because the recording has no state of the start: {why}{warmed}"
        ));
    }
    if setup.is_empty {
        reasons.push("the twin began with an empty drive, as was asked for".to_owned());
    }
    let wrong_models = models(setup, figures);
    let has_wrong_model = !wrong_models.is_empty();
    reasons.extend(wrong_models);
    if prediction.report.deepest_queue > CROWD {
        reasons.push(format!(
            "{} requests waited at once in the twin: its devices are slower than the requests came, so that its response times say \
             little",
            prediction.report.deepest_queue
        ));
    }
    let disagreeing = |part: &str| figures.iter().any(|figure| figure.disagrees() && figure.figure.contains(part));
    let is_response = ["all requests: ", "reads: ", "writes: ", "flushes: "];
    let responses = figures.iter().any(|figure| {
        figure.disagrees() && figure.unit == "us" && is_response.iter().any(|start| figure.figure.starts_with(start))
    });
    let counts = figures.iter().any(|figure| {
        figure.disagrees() && ["share", "extents", "accesses", "commands", "bytes"].contains(&figure.unit)
    });
    if responses && !has_wrong_model {
        reasons.push(format!(
            "response times differ although the devices' commands agree: what is left is the host, its processors and sockets; {} us \
             of each read and {} us of each write were taken for that",
            table::number(overhead.read_us),
            table::number(overhead.write_us)
        ));
    }
    if counts && !has_wrong_model && recording.dropped == 0 && recording.head.no_state.is_none() && !setup.is_empty {
        reasons.push(
            "hits or traffic differ although the devices' commands agree: what depends on the order of completions, such as \
             cancelled moves, and requests that the drive divided, are the likeliest reasons"
                .to_owned(),
        );
    } else if counts && has_wrong_model {
        reasons.push(
            "hits and traffic depend on time (moves that are cancelled, windows, delays of write-backs), so the model named above may \
             be the reason for their difference as well"
                .to_owned(),
        );
    }
    let congested = figures.iter().find(|figure| figure.figure == super::compare::CONGESTED && figure.disagrees());
    if let Some(figure) = congested {
        reasons.push(format!(
            "{} accesses of the drive and {} of the twin went past the cache because the fast device was slower than the slow one just then: \
             hits and traffic follow from that",
            figure.measured.unwrap_or(0.0),
            figure.predicted.unwrap_or(0.0)
        ));
    }
    let durable = recording.rows.iter().filter(|row| row.flags.has(Flags::DURABLE)).count();
    if durable > 0 && (disagreeing("flushes") || durable * 20 > recording.rows.len()) {
        reasons.push(format!(
            "{durable} requests were to be durable before their answer: the twin submits a flush with each, and their response times \
             are not compared"
        ));
    }
    reasons
}

/// Devices whose commands took another time than their models say.
fn models(setup: &Setup, figures: &[Figure]) -> Vec<String> {
    let mut wrong = Vec::new();
    for device in &setup.design.devices {
        let (name, profile) = (&device.name, &device.profile.name);
        let start = format!("{name}: a command, ");
        for figure in figures.iter().filter(|figure| figure.verdict == Verdict::Disagrees) {
            let Some(kind) = figure.figure.strip_prefix(&start).filter(|kind| !kind.ends_with(", median")) else {
                continue;
            };
            let (Some(measured), Some(predicted)) = (figure.measured, figure.predicted) else { continue };
            let median = figures.iter().find(|other| other.figure == format!("{start}{kind}, median"));
            let (measured_us, predicted_us) = (table::number(measured), table::number(predicted));
            let reason = match median {
                Some(median) if median.verdict == Verdict::Agrees => format!(
                    "device '{name}': half of its {kind} took as long as the model '{profile}' says, but the mean was {measured_us} us, and \
                     {predicted_us} us in the model: a few took long, as those do that wait for processors or for what else uses the device"
                ),
                _ => format!(
                    "device '{name}': its {kind} took {measured_us} us, the model '{profile}' says {predicted_us} us: give a profile that is \
                     fitted to it (peryton calibrate, docs/twin.md) with --profile {name}=FILE"
                ),
            };
            wrong.push(((predicted / measured).ln().abs(), reason));
        }
    }
    wrong.sort_by(|one, other| other.0.total_cmp(&one.0));
    wrong.into_iter().map(|(_, reason)| reason).collect()
}
