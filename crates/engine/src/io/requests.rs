//! Host requests in flight. Each has as many parts as the commands and waits that it was split into, and is answered
//! when the last part ends.

use peryton_policy::ResponseTimes;
use peryton_units::{Nanos, Op};

use crate::{
    api::command::{Command, Commands, RequestId},
    api::error::RequestError,
    io::slab::Slab,
};

/// A host request in flight.
#[derive(Clone, Copy, Debug)]
struct HostRequest {
    id: RequestId,
    began: Nanos,
    /// Parts that have not ended, and one more while the request is being split.
    parts: u32,
    op: Op,
    outcome: Outcome,
}

/// What is to be answered as things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Good,
    /// The same, but a flush has failed meanwhile, which may have lost a part that had been written.
    InDoubt,
    Failed(RequestError),
}

/// The engine's index of a host request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestIndex(pub(crate) u32);

impl RequestIndex {
    /// The index for tables with a row per request in flight.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug)]
pub(super) struct Requests {
    rows: Slab<HostRequest>,
    /// Requests answered since the last [`Requests::next_answered`]; kept only for placements that ask for it.
    answered: Vec<RequestIndex>,
    pub(super) reports_answers: bool,
    /// Writes in flight that are in doubt.
    in_doubt: u32,
    /// One was answered as if it were good.
    answered_in_doubt: bool,
    /// The number of writes and discards that were answered.
    pub(super) changes_answered: u64,
    /// Response times, recorded once they are asked for.
    responses: Option<Box<Responses>>,
}

/// Response times since two consumers have last cleared them.
#[derive(Debug)]
struct Responses {
    /// For the adjustment of settings.
    tuner: ResponseTimes,
    /// For the cleaning of a cache.
    cleaner: ResponseTimes,
}

impl Requests {
    pub(super) fn new() -> Requests {
        Requests {
            rows: Slab::new(),
            answered: Vec::new(),
            reports_answers: false,
            in_doubt: 0,
            answered_in_doubt: false,
            changes_answered: 0,
            responses: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(super) fn begin(&mut self, now: Nanos, id: RequestId, op: Op) -> RequestIndex {
        RequestIndex(self.rows.insert(HostRequest { id, began: now, parts: 1, op, outcome: Outcome::Good }))
    }

    /// A flush has failed: of each write in flight a part may be lost.
    #[cold]
    pub(super) fn flush_failed(&mut self) {
        // Rows of requests that were answered have no parts.
        for row in self.rows.all_mut() {
            if row.parts > 0 && row.op == Op::Write && row.outcome == Outcome::Good {
                row.outcome = Outcome::InDoubt;
                self.in_doubt += 1;
            }
        }
    }

    /// Whether a write is in flight that is in doubt.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.in_doubt > 0
    }

    /// Whether a write was answered that is in doubt; says so once.
    pub(super) fn take_answered_in_doubt(&mut self) -> bool {
        std::mem::take(&mut self.answered_in_doubt)
    }

    #[inline]
    pub(super) fn add_part(&mut self, request: RequestIndex) {
        self.rows[request.0].parts += 1;
    }

    #[inline]
    pub(super) fn id_of(&self, request: RequestIndex) -> RequestId {
        self.rows[request.0].id
    }

    /// A part of the request is answered; the last one sends the reply. Says whether the request has failed with it, or was
    /// in doubt.
    #[inline(always)]
    pub(super) fn part_done(
        &mut self,
        now: Nanos,
        request: RequestIndex,
        result: Result<(), RequestError>,
        out: &mut Commands,
    ) -> bool {
        let row = &mut self.rows[request.0];
        assert!(row.parts > 0, "a request was answered twice");
        if result.is_err() || row.outcome != Outcome::Good {
            return self.part_of_other_done(now, request, result, out);
        }
        row.parts -= 1;
        if row.parts == 0 {
            let row = *row;
            self.answer(now, request, row, Ok(()), out);
        }
        false
    }

    /// The same for a request that has failed, fails now, or is in doubt.
    #[cold]
    fn part_of_other_done(
        &mut self,
        now: Nanos,
        request: RequestIndex,
        result: Result<(), RequestError>,
        out: &mut Commands,
    ) -> bool {
        let row = &mut self.rows[request.0];
        if let (Err(error), Outcome::Good | Outcome::InDoubt) = (result, row.outcome) {
            self.in_doubt -= u32::from(row.outcome == Outcome::InDoubt);
            row.outcome = Outcome::Failed(error);
        }
        row.parts -= 1;
        if row.parts > 0 {
            return false;
        }
        let result = match row.outcome {
            Outcome::Good => Ok(()),
            Outcome::InDoubt => {
                self.in_doubt -= 1;
                self.answered_in_doubt = true;
                Ok(())
            }
            Outcome::Failed(error) => Err(error),
        };
        let row = *row;
        self.answer(now, request, row, result, out);
        true
    }

    #[inline(always)]
    fn answer(
        &mut self,
        now: Nanos,
        request: RequestIndex,
        row: HostRequest,
        result: Result<(), RequestError>,
        out: &mut Commands,
    ) {
        out.push(Command::Reply { id: row.id, result });
        self.changes_answered += u64::from(matches!(row.op, Op::Write | Op::Discard));
        if let Some(responses) = &mut self.responses {
            let took = now.saturating_sub(row.began).0;
            responses.tuner.record(took);
            responses.cleaner.record(took);
        }
        self.rows.remove(request.0);
        if self.reports_answers {
            self.answered.push(request);
        }
    }

    pub(super) fn next_answered(&mut self) -> Option<RequestIndex> {
        self.answered.pop()
    }

    pub(super) fn foreground(&mut self) -> &mut ResponseTimes {
        &mut self.recorded().cleaner
    }

    fn recorded(&mut self) -> &mut Responses {
        let empty = || Box::new(Responses { tuner: ResponseTimes::new(), cleaner: ResponseTimes::new() });
        self.responses.get_or_insert_with(empty)
    }

    pub(super) fn responses_mut(&mut self) -> &mut ResponseTimes {
        &mut self.recorded().tuner
    }
}
