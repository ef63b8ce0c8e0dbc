//! Host requests in flight. Each has as many parts as the commands and waits that it was split into, and is answered
//! when the last part ends.

use peryton_policy::ResponseTimes;
use peryton_units::Nanos;

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
    error: Option<RequestError>,
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
    /// Response times; `None` until they are first asked for.
    responses: Option<Box<ResponseTimes>>,
}

impl Requests {
    pub(super) fn new() -> Requests {
        Requests { rows: Slab::new(), answered: Vec::new(), reports_answers: false, responses: None }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(super) fn begin(&mut self, now: Nanos, id: RequestId) -> RequestIndex {
        RequestIndex(self.rows.insert(HostRequest { id, began: now, parts: 1, error: None }))
    }

    #[inline]
    pub(super) fn add_part(&mut self, request: RequestIndex) {
        self.rows[request.0].parts += 1;
    }

    #[inline]
    pub(super) fn id_of(&self, request: RequestIndex) -> RequestId {
        self.rows[request.0].id
    }

    /// Ends a part of the request; the last one sends the reply. Returns whether the request failed.
    #[inline(always)]
    pub(super) fn part_done(
        &mut self,
        now: Nanos,
        request: RequestIndex,
        result: Result<(), RequestError>,
        out: &mut Commands,
    ) -> bool {
        let row = &mut self.rows[request.0];
        if let Err(error) = result {
            row.error.get_or_insert(error);
        }
        assert!(row.parts > 0, "a request was answered twice");
        row.parts -= 1;
        if row.parts > 0 {
            return false;
        }
        let result = row.error.map_or(Ok(()), Err);
        out.push(Command::Reply { id: row.id, result });
        if let Some(responses) = &mut self.responses {
            responses.record(now.saturating_sub(row.began).0);
        }
        self.rows.remove(request.0);
        if self.reports_answers {
            self.answered.push(request);
        }
        result.is_err()
    }

    pub(super) fn next_answered(&mut self) -> Option<RequestIndex> {
        self.answered.pop()
    }

    pub(super) fn responses_mut(&mut self) -> &mut ResponseTimes {
        self.responses.get_or_insert_with(|| Box::new(ResponseTimes::new()))
    }
}
