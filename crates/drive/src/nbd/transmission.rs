//! Validates requests and answers those that are invalid ("Request types", "Error values").

use peryton_units::Bytes;

use super::{
    connection::{Connection, Event, Phase},
    request::{Command, Cookie, Errno, ProtocolError, Request},
    wire::{self, command, command_flag},
};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub errno: Errno,
    pub message: &'static str,
}

const fn refusal(errno: Errno, message: &'static str) -> Refusal {
    Refusal { errno, message }
}

impl<P> Connection<P> {
    /// Handles the header of a request.
    pub(super) fn request(&mut self, header: &[u8]) -> Result<Option<Event>, ProtocolError> {
        let header: &[u8; 28] = header.try_into().expect("the phase waits for 28 bytes");
        let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        let (magic, flags, kind, length) = (u32_at(0), u16_at(4), u16_at(6), u32_at(24));
        let (cookie, offset) = (Cookie(u64_at(8)), Bytes(u64_at(16)));

        if magic != wire::REQUEST_MAGIC {
            return Err(ProtocolError::RequestMagic(magic));
        }
        if kind == command::DISC {
            self.phase = Phase::Closed;
            return Ok(Some(Event::Disconnect));
        }
        match self.judge(kind, flags, offset, length) {
            Ok(command) if length == 0 && command != Command::Flush => {
                // "The behavior of a server on such a request is unspecified": nothing is done, successfully.
                self.answer_nothing(cookie, command);
                Ok(None)
            }
            Ok(command) => {
                self.in_flight += 1;
                let offset = if command == Command::Flush { offset } else { self.export.from + offset };
                Ok(Some(Event::Request(Request { cookie, command, offset, length: Bytes(u64::from(length)) })))
            }
            Err(refusal) if kind == command::WRITE && length > 0 => {
                if Bytes(u64::from(length)) > wire::MAX_PAYLOAD {
                    return Err(ProtocolError::WriteTooLong(length));
                }
                self.phase = Phase::Refused { cookie, refusal, left: length };
                Ok(None)
            }
            Err(refusal) => {
                self.refuse(cookie, refusal);
                Ok(None)
            }
        }
    }

    /// Checks a request; returns its command or the refusal.
    fn judge(&self, kind: u16, flags: u16, offset: Bytes, length: u32) -> Result<Command, Refusal> {
        if self.shutting_down {
            return Err(refusal(Errno::Shutdown, "the server is shutting down"));
        }
        let has = |flag: u16| flags & flag != 0;
        let fua = has(command_flag::FUA); // valid with any command, though only three use it
        let (command, allowed) = match kind {
            command::READ if self.structured => {
                (Command::Read { unfragmented: has(command_flag::DF) }, command_flag::DF)
            }
            command::READ => (Command::Read { unfragmented: true }, 0),
            command::WRITE => (Command::Write { fua }, 0),
            command::FLUSH => (Command::Flush, 0),
            command::TRIM => (Command::Trim { fua }, 0),
            command::CACHE => (Command::Cache, 0),
            command::WRITE_ZEROES => (
                Command::WriteZeroes { fua, no_hole: has(command_flag::NO_HOLE), fast: has(command_flag::FAST_ZERO) },
                command_flag::NO_HOLE | command_flag::FAST_ZERO,
            ),
            command::BLOCK_STATUS if self.contexts.any() => {
                (Command::Status { one: has(command_flag::REQ_ONE) }, command_flag::REQ_ONE)
            }
            command::BLOCK_STATUS => {
                return Err(refusal(Errno::Invalid, "block status without a metadata context agreed on"));
            }
            _ => return Err(refusal(Errno::Invalid, "unknown command")),
        };
        if flags & !(allowed | command_flag::FUA) != 0 {
            return Err(refusal(Errno::Invalid, "a flag that this command does not have"));
        }
        let changes = matches!(command, Command::Write { .. } | Command::Trim { .. } | Command::WriteZeroes { .. });
        if changes && self.export.read_only {
            return Err(refusal(Errno::NotPermitted, "the export is read-only"));
        }
        let length = Bytes(u64::from(length));
        if command == Command::Flush {
            return match offset == Bytes::ZERO && length == Bytes::ZERO {
                true => Ok(command),
                false => Err(refusal(Errno::Invalid, "a flush has neither offset nor length")),
            };
        }
        if offset.checked_add(length).is_none_or(|end| end > self.export.size) {
            return Err(match command {
                Command::Write { .. } | Command::WriteZeroes { .. } => {
                    refusal(Errno::NoSpace, "the range ends beyond the end of the export")
                }
                _ => refusal(Errno::Invalid, "the range ends beyond the end of the export"),
            });
        }
        let block = self.export.block;
        if !offset.is_multiple_of(block.minimum) || !length.is_multiple_of(block.minimum) {
            return Err(refusal(Errno::Invalid, "the range is not aligned to the minimum block size"));
        }
        if matches!(command, Command::Read { .. } | Command::Write { .. }) && length > block.maximum {
            return Err(refusal(Errno::Invalid, "longer than the maximum payload"));
        }
        if matches!(command, Command::Status { .. }) && length == Bytes::ZERO {
            return Err(refusal(Errno::Invalid, "the status of nothing"));
        }
        Ok(command)
    }
}
