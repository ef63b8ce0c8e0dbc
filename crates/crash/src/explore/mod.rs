//! Every order of events, instead of random ones. A [`Case`] has few: a start, two requests or three, something that moves an extent,
//! and how many commands may fail. From its start the search tries each next event and the completion of each command under way, and
//! stops where it has been before. In each state that it reaches it checks what the drive answers and the drive's own tables, and what
//! a power loss or the death of the process would leave; at each end, that everything was answered and what the volume holds.
//!
//! Two courses of events lead to the same state if nothing that follows can tell them apart: tables of the engine, commands, disks
//! and what a correct disk may hold are equal. The engine has no copy, so a state is reached again by the events that lead to it.

mod cases;
mod course;
mod state;

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use rayon::prelude::*;

pub use cases::{Case, Depth};
pub use course::Happening;
use course::{Course, Step};

/// Of one case no more states than these are looked at; [`Explored::cut_short`] counts the cases that have more.
const MOST_STATES: usize = 3_000;
/// A course of events that is longer favours one device, whose commands are tried again and again.
const LONGEST: usize = 100;

/// What a search has seen.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Cases.
    pub cases: usize,
    /// Different states.
    pub states: usize,
    /// Steps from one state to another, or to one that was known.
    pub steps: usize,
    /// States in which nothing more happens.
    pub ends: usize,
    /// Crashes that were recovered from.
    pub crashes: usize,
    /// Cases that have more states than were looked at.
    pub cut_short: usize,
    /// The most states of one case, and which.
    pub largest: (usize, String),
    /// What is wrong: the case, the events that lead to it, and the error.
    pub failures: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Explored {
    fn add(mut self, other: Explored) -> Explored {
        self.cases += other.cases;
        self.states += other.states;
        self.steps += other.steps;
        self.ends += other.ends;
        self.crashes += other.crashes;
        self.cut_short += other.cut_short;
        self.largest = self.largest.max(other.largest);
        self.failures.extend(other.failures);
        self.elapsed = self.elapsed.max(other.elapsed);
        self
    }
}

/// Explores these cases, on all processors; `until`: what was not reached by then is left out.
pub fn explore(cases: &[Case], until: Option<Instant>) -> Explored {
    let began = Instant::now();
    let in_time = |_: &&Case| until.is_none_or(|until| Instant::now() < until);
    let all =
        cases.par_iter().filter(in_time).map(|case| explore_case(case, until)).reduce(Explored::default, Explored::add);
    Explored { elapsed: began.elapsed(), ..all }
}

/// Explores one case, up to the first failure, and not beyond that time.
pub fn explore_case(case: &Case, until: Option<Instant>) -> Explored {
    let mut found = Explored { cases: 1, ..Explored::default() };
    let mut path = Vec::new();
    let searched = catch_unwind(AssertUnwindSafe(|| search(case, until, &mut path, &mut found)));
    found.largest = (found.states, format!("{case:?}"));
    let error = match searched {
        Ok(Ok(())) => return found,
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("panic: {}", text.unwrap_or_default())
        }
    };
    found.failures.push(format!("{case:?}\n  {}\n  {error}", told(case, &path).join("\n  ")));
    found
}

/// One course of a case, in words: all of its events, and then the oldest command each time.
pub fn tell(case: &Case) -> Vec<String> {
    let mut path = Vec::new();
    let Ok(new) = case.format() else { return Vec::new() };
    let Ok(mut course) = Course::start(case, &new) else { return Vec::new() };
    while path.len() < LONGEST {
        let steps = course.steps();
        let next = steps.iter().find(|step| **step == Step::Happens);
        let next = next.or(steps.iter().find(|step| matches!(step, Step::Completes(_) | Step::Waits)));
        let Some(step) = next.copied() else { break };
        path.push(step);
        if course.take(step).is_err() {
            break;
        }
    }
    told(case, &path)
}

/// The events of a path, in words.
fn told(case: &Case, path: &[Step]) -> Vec<String> {
    let (mut told, Ok(new)) = (Vec::new(), case.format()) else { return Vec::new() };
    // The last step may be the one that panics.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut course = Course::start(case, &new)?;
        for step in path {
            told.push(course.tell(*step));
            course.take(*step)?;
        }
        Ok::<(), String>(())
    }));
    told
}

fn search(case: &Case, until: Option<Instant>, path: &mut Vec<Step>, found: &mut Explored) -> Result<(), String> {
    let (mut seen, new) = (HashSet::new(), case.format()?);
    let mut course = Course::start(case, &new)?;
    // What is left to try: the length of the path before it, and the step.
    let mut left: Vec<(usize, Step)> = Vec::new();
    loop {
        let state = course.state();
        if seen.insert(state) {
            found.states += 1;
            course.check()?;
            course.crash(state)?;
            found.crashes += 1;
            let steps = course.steps();
            if steps.is_empty() {
                found.ends += 1;
                course.end()?;
            }
            left.extend(steps.into_iter().map(|step| (path.len(), step)));
        }
        if seen.len() > MOST_STATES || until.is_some_and(|until| Instant::now() > until) {
            found.cut_short += 1;
            return Ok(());
        }
        let Some((length, step)) = left.pop() else { return Ok(()) };
        if length == LONGEST {
            // A device that is always the first one: now each has its turn, and there is an end to it.
            course.end()?;
            continue;
        }
        if length < path.len() || course.is_over {
            path.truncate(length);
            course = Course::start(case, &new)?;
            for step in path.iter() {
                course.take(*step)?;
            }
        }
        path.push(step);
        found.steps += 1;
        course.take(step)?;
    }
}
