//! Options: client and server agree on them before the first request ("Option types").

use super::{
    connection::{Connection, Event, Phase, Security},
    request::ProtocolError,
    wire::{self, handshake, info, option, option_reply},
};

/// Metadata contexts that a client has chosen for block status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contexts {
    pub allocation: bool,
    pub place: bool,
}

/// The protocol's own context: allocated, hole, zeros.
const ALLOCATION: Context = Context { id: 1, namespace: b"base:", leaf: b"allocation" };
pub(super) const PLACE_ID: u32 = 2;
/// Which devices hold the data: bit *n* is device *n* of the design; no bit means that the data was never written.
/// Namespaces beginning with `x-` need no registration ("Metadata querying").
const PLACE: Context = Context { id: PLACE_ID, namespace: b"x-peryton:", leaf: b"place" };

pub(super) struct Context {
    pub id: u32,
    namespace: &'static [u8],
    leaf: &'static [u8],
}

impl Context {
    fn is(&self, query: &[u8]) -> bool {
        query.strip_prefix(self.namespace) == Some(self.leaf)
    }
}

impl Contexts {
    const ALL: Contexts = Contexts { allocation: true, place: true };

    fn add(&mut self, query: &[u8], wildcards: bool) {
        let asks = |context: &Context| context.is(query) || (wildcards && query == context.namespace);
        self.allocation |= asks(&ALLOCATION);
        self.place |= asks(&PLACE);
    }

    pub fn iter(self) -> impl Iterator<Item = &'static Context> {
        [(self.allocation, &ALLOCATION), (self.place, &PLACE)].into_iter().filter(|(on, _)| *on).map(|(_, c)| c)
    }

    pub fn any(self) -> bool {
        self.allocation || self.place
    }
}

/// Reads the fields of an option; each returns `None` if the option is too short.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length as usize)?;
        self.0 = tail;
        Some(head)
    }
    fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }
    fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }
    /// A string with its length before it.
    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(length)
    }
}

/// Parses the data of `NBD_OPT_INFO` and `NBD_OPT_GO`: the export's name and the requested items.
fn parse_go(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u16()?;
    let items = (0..count).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
    fields.0.is_empty().then_some((name, items))
}

/// Parses the data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`: the export's name and the contexts
/// that the queries select, or `None` if there is no query.
fn parse_contexts(data: &[u8], wildcards: bool) -> Option<(&[u8], Option<Contexts>)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let count = fields.u32()?;
    let mut contexts = Contexts::default();
    for _ in 0..count {
        contexts.add(fields.string()?, wildcards);
    }
    fields.0.is_empty().then_some((name, (count > 0).then_some(contexts)))
}

impl<P> Connection<P> {
    pub(super) fn client_flags(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let flags = u32::from_be_bytes(bytes.try_into().expect("the phase waits for 4 bytes"));
        self.fixed = flags & u32::from(handshake::FIXED_NEWSTYLE) != 0;
        self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
        if flags & !u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) != 0 {
            return Err(ProtocolError::ClientFlags(flags));
        }
        self.phase = Phase::Option;
        Ok(())
    }

    pub(super) fn option_header(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let (magic, rest) = bytes.split_first_chunk().expect("the phase waits for 16 bytes");
        let magic = u64::from_be_bytes(*magic);
        let mut fields = Fields(rest);
        let (Some(option), Some(length)) = (fields.u32(), fields.u32()) else {
            unreachable!("the phase waits for 16 bytes")
        };
        if magic != wire::OPTION_MAGIC {
            return Err(ProtocolError::OptionMagic(magic));
        }
        if !self.fixed && option != option::EXPORT_NAME {
            return Err(ProtocolError::NotFixed(option));
        }
        self.options += 1;
        if self.options > wire::MAX_OPTIONS {
            return Err(ProtocolError::TooManyOptions(wire::MAX_OPTIONS));
        }
        self.phase = if length <= wire::MAX_OPTION {
            Phase::OptionData { option, length }
        } else if length <= wire::MAX_SKIPPED_OPTION && option != option::EXPORT_NAME {
            Phase::OptionTooBig { option, left: length }
        } else {
            return Err(ProtocolError::OptionTooLong { option, length });
        };
        Ok(())
    }

    pub(super) fn option(&mut self, option: u32, data: &[u8]) -> Result<Option<Event>, ProtocolError> {
        if option == option::ABORT {
            self.option_reply(option, option_reply::ACK, &[]);
            self.phase = Phase::Closed;
            return Ok(Some(Event::Disconnect));
        }
        if option == option::EXPORT_NAME {
            return self.export_name(data).map(Some);
        }
        if self.shutting_down {
            self.option_error(option, option_reply::ERR_SHUTDOWN, "the server is shutting down");
            return Ok(None);
        }
        if option == option::STARTTLS {
            return Ok(self.start_tls(data));
        }
        if self.security == Security::TlsRequired && !self.tls {
            self.option_error(option, option_reply::ERR_TLS_REQD, "TLS is required; start it first");
            return Ok(None);
        }
        match option {
            option::LIST => self.list(data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                self.option_reply(option, option_reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => self.option_error(option, option_reply::ERR_INVALID, "it has no data"),
            option::INFO | option::GO => {
                if self.info(option, data) && option == option::GO {
                    self.phase = Phase::Request;
                    return Ok(Some(Event::Ready));
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(option, data),
            _ => self.option_error(option, option_reply::ERR_UNSUP, "this server does not know the option"),
        }
        Ok(None)
    }

    pub(super) fn refuse_too_big(&mut self, option: u32) {
        let tls_first = self.security == Security::TlsRequired && !self.tls && option != option::STARTTLS;
        let reply = if tls_first { option_reply::ERR_TLS_REQD } else { option_reply::ERR_TOO_BIG };
        self.option_error(option, reply, "the option is too long");
    }

    /// The oldest way to choose an export; its only refusal is to close the connection.
    fn export_name(&mut self, name: &[u8]) -> Result<Event, ProtocolError> {
        if self.security == Security::TlsRequired && !self.tls {
            return Err(ProtocolError::TlsRequired);
        }
        if self.shutting_down {
            return Err(ProtocolError::ShuttingDown);
        }
        if !self.choose(name) {
            let shown = &name[..name.len().min(wire::MAX_STRING)];
            return Err(ProtocolError::UnknownExport(String::from_utf8_lossy(shown).into_owned()));
        }
        self.output.push(&self.export.size.0.to_be_bytes());
        self.output.push(&self.export.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            self.output.push(&[0; 124]);
        }
        self.phase = Phase::Request;
        Ok(Event::Ready)
    }

    fn start_tls(&mut self, data: &[u8]) -> Option<Event> {
        let refusal = match self.security {
            Security::Plain => Some((option_reply::ERR_POLICY, "there is no TLS on this socket")),
            Security::TlsRequired if self.tls => Some((option_reply::ERR_INVALID, "TLS has been started already")),
            Security::TlsRequired if !data.is_empty() => Some((option_reply::ERR_INVALID, "it has no data")),
            Security::TlsRequired => None,
        };
        if let Some((reply, message)) = refusal {
            self.option_error(option::STARTTLS, reply, message);
            return None;
        }
        self.option_reply(option::STARTTLS, option_reply::ACK, &[]);
        // What was negotiated in plain text may have been forged, so it is discarded.
        (self.structured, self.contexts) = (false, Contexts::default());
        self.phase = Phase::StartingTls;
        Some(Event::StartTls)
    }

    fn list(&mut self, data: &[u8]) {
        if !data.is_empty() {
            return self.option_error(option::LIST, option_reply::ERR_INVALID, "it has no data");
        }
        for export in self.offered.clone().each() {
            let name = export.name.as_bytes();
            let length = (name.len() as u32).to_be_bytes();
            self.option_reply(option::LIST, option_reply::SERVER, &[&length, name, export.description.as_bytes()]);
        }
        self.option_reply(option::LIST, option_reply::ACK, &[]);
    }

    /// Answers `NBD_OPT_INFO` or `NBD_OPT_GO`; returns whether the export was granted.
    fn info(&mut self, option: u32, data: &[u8]) -> bool {
        let Some((name, items)) = parse_go(data) else {
            self.option_error(option, option_reply::ERR_INVALID, "its data are not a name and a list of items");
            return false;
        };
        if !self.choose(name) {
            self.option_error(option, option_reply::ERR_UNKNOWN, self.no_such_export());
            return false;
        }
        let export = self.export.clone();
        let flags = export.flags(self.structured);
        let mut item = |kind: u16, fields: &[&[u8]]| {
            let mut data: Vec<u8> = kind.to_be_bytes().to_vec();
            fields.iter().for_each(|field| data.extend_from_slice(field));
            self.option_reply(option, option_reply::INFO, &[&data]);
        };
        item(info::EXPORT, &[&export.size.0.to_be_bytes(), &flags.to_be_bytes()]);
        if items.contains(&info::NAME) {
            item(info::NAME, &[export.name.as_bytes()]);
        }
        if items.contains(&info::DESCRIPTION) && !export.description.is_empty() {
            item(info::DESCRIPTION, &[export.description.as_bytes()]);
        }
        if items.contains(&info::BLOCK_SIZE) {
            let sizes = [export.block.minimum, export.block.preferred, export.block.maximum];
            let sizes = sizes.map(|size| u32::try_from(size.0).expect("checked with the export").to_be_bytes());
            item(info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
        }
        self.option_reply(option, option_reply::ACK, &[]);
        true
    }

    fn meta_context(&mut self, option: u32, data: &[u8]) {
        let set = option == option::SET_META_CONTEXT;
        if set {
            self.contexts = Contexts::default(); // "including when this command fails"
        }
        if !self.structured {
            let message = "structured replies come first";
            return self.option_error(option, option_reply::ERR_INVALID, message);
        }
        let Some((name, selected)) = parse_contexts(data, !set) else {
            let message = "its data are not a name and a list of queries";
            return self.option_error(option, option_reply::ERR_INVALID, message);
        };
        if self.offered.named(name).is_none() {
            return self.option_error(option, option_reply::ERR_UNKNOWN, self.no_such_export());
        }
        let contexts = selected.unwrap_or(if set { Contexts::default() } else { Contexts::ALL });
        for context in contexts.iter() {
            let id = if set { context.id } else { 0 }; // reserved in listings
            let fields = [&id.to_be_bytes()[..], context.namespace, context.leaf];
            self.option_reply(option, option_reply::META_CONTEXT, &fields);
        }
        self.option_reply(option, option_reply::ACK, &[]);
        if set {
            self.contexts = contexts;
        }
    }

    /// From now on the connection is for the export with this name; returns false if there is none.
    fn choose(&mut self, name: &[u8]) -> bool {
        let Some(export) = self.offered.named(name) else { return false };
        self.export = export;
        true
    }

    fn no_such_export(&self) -> &'static str {
        if self.offered.parts.is_empty() {
            "there is no such export; try the empty name"
        } else {
            "there is no such export; list them"
        }
    }

    fn option_error(&mut self, option: u32, reply: u32, message: &str) {
        self.option_reply(option, reply, &[message.as_bytes()]);
    }

    fn option_reply(&mut self, option: u32, reply: u32, fields: &[&[u8]]) {
        let length = fields.iter().map(|field| field.len()).sum::<usize>() as u32;
        self.output.push(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
        for word in [option, reply, length] {
            self.output.push(&word.to_be_bytes());
        }
        fields.iter().for_each(|field| self.output.push(field));
    }
}
