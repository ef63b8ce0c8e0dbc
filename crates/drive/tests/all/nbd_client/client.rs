//! A client that follows the protocol's document.

use std::collections::BTreeMap;

use peryton_drive::nbd::{Event, Export, ProtocolError, Security, wire};

use super::server::Server;

/// An option as a client sends it.
pub fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A request's header as a client sends it.
pub fn request_bytes(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The data of `NBD_OPT_GO` and `NBD_OPT_INFO`.
pub fn go_data(name: &str, items: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((items.len() as u16).to_be_bytes());
    items.iter().for_each(|item| data.extend(item.to_be_bytes()));
    data
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
pub fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}

/// One reply to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub option: u32,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// A whole reply to a request, assembled from its chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub message: String,
    /// The data by offset; holes are zeros.
    pub data: BTreeMap<u64, Vec<u8>>,
    pub holes: usize,
    /// Length and flags of ranges by context.
    pub status: BTreeMap<u32, Vec<(u32, u32)>>,
    pub structured: bool,
}

impl Reply {
    /// The data of a read, which must have no gap.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut next = None;
        for (offset, data) in &self.data {
            assert!(next.is_none_or(|next| next == *offset), "a gap or an overlap at {offset}");
            all.extend(data);
            next = Some(offset + data.len() as u64);
        }
        all
    }
}

/// Reads from the front of a stream.
pub struct Stream<'a>(pub &'a [u8]);

impl<'a> Stream<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }
    pub fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_be_bytes(b.try_into().unwrap()))
    }
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| u32::from_be_bytes(b.try_into().unwrap()))
    }
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| u64::from_be_bytes(b.try_into().unwrap()))
    }

    pub fn option_reply(&mut self) -> Option<OptionReply> {
        if self.0.is_empty() {
            return None;
        }
        assert_eq!(self.u64().unwrap(), 0x0003_e889_0455_65a9);
        let (option, kind, length) = (self.u32().unwrap(), self.u32().unwrap(), self.u32().unwrap());
        Some(OptionReply { option, kind, data: self.take(length as usize).unwrap().to_vec() })
    }

    /// A whole reply. `reads` has the offset and length of each read in flight, by cookie.
    pub fn reply(&mut self, reads: &BTreeMap<u64, (u64, u32)>) -> Option<Reply> {
        let mut reply = Reply::default();
        loop {
            if self.0.is_empty() {
                assert_eq!(reply, Reply::default(), "half a reply");
                return None;
            }
            match self.u32().unwrap() {
                wire::SIMPLE_REPLY_MAGIC => {
                    assert_eq!(reply, Reply::default(), "a simple reply inside a structured one");
                    (reply.error, reply.cookie) = (self.u32().unwrap(), self.u64().unwrap());
                    if let (Some((offset, length)), 0) = (reads.get(&reply.cookie), reply.error) {
                        reply.data.insert(*offset, self.take(*length as usize).unwrap().to_vec());
                    }
                    return Some(reply);
                }
                wire::STRUCTURED_REPLY_MAGIC => {
                    let (flags, kind, cookie) = (self.u16().unwrap(), self.u16().unwrap(), self.u64().unwrap());
                    assert!(!reply.structured || reply.cookie == cookie, "this server does not interleave replies");
                    (reply.structured, reply.cookie) = (true, cookie);
                    let length = self.u32().unwrap() as usize;
                    reply.chunk(kind, Stream(self.take(length).unwrap()));
                    assert!(flags & !1 == 0, "unknown flags {flags:#x}");
                    if flags & 1 != 0 {
                        return Some(reply);
                    }
                }
                magic => panic!("a reply begins with {magic:#x}"),
            }
        }
    }
}

impl Reply {
    fn chunk(&mut self, kind: u16, mut payload: Stream<'_>) {
        match kind {
            0 => assert!(payload.0.is_empty()),
            1 => {
                let offset = payload.u64().unwrap();
                assert!(!payload.0.is_empty() && self.data.insert(offset, payload.0.to_vec()).is_none());
            }
            2 => {
                let (offset, length) = (payload.u64().unwrap(), payload.u32().unwrap());
                assert!(length > 0 && payload.0.is_empty());
                self.holes += 1;
                assert!(self.data.insert(offset, vec![0; length as usize]).is_none());
            }
            5 => {
                let context = payload.u32().unwrap();
                let mut runs = Vec::new();
                while let Some(length) = payload.u32() {
                    assert!(length > 0);
                    runs.push((length, payload.u32().unwrap()));
                }
                assert!(!runs.is_empty() && self.status.insert(context, runs).is_none());
            }
            0x8001 => {
                self.error = payload.u32().unwrap();
                let length = usize::from(payload.u16().unwrap());
                assert!(self.error != 0 && length <= 4096);
                self.message = String::from_utf8(payload.take(length).unwrap().to_vec()).unwrap();
                assert!(payload.0.is_empty());
            }
            kind => panic!("unknown chunk {kind:#x}"),
        }
    }
}

/// A client and its server.
pub struct Client {
    pub server: Server,
    /// The number of the server's bytes that have been read.
    pub seen: usize,
    pub reads: BTreeMap<u64, (u64, u32)>,
    next_cookie: u64,
}

impl Client {
    /// Connects and reads the greeting.
    pub fn connect(export: Export, security: Security) -> Client {
        let mut client =
            Client { server: Server::new(export, security), seen: 0, reads: BTreeMap::new(), next_cookie: 0xfeed_0000 };
        client.server.send();
        assert_eq!(client.received(), b"NBDMAGICIHAVEOPT\0\x03");
        client
    }

    /// A modern client: fixed newstyle, with or without structured replies, every context, go.
    pub fn ready(export: Export, structured: bool) -> Client {
        let mut client = Client::connect(export, Security::Plain);
        client.flags(3);
        if structured {
            client.option(wire::option::STRUCTURED_REPLY, &[]);
            let contexts = context_data("", &["base:allocation", "x-peryton:place"]);
            client.option(wire::option::SET_META_CONTEXT, &contexts);
        }
        let replies = client.option(wire::option::GO, &go_data("", &[wire::info::BLOCK_SIZE]));
        assert_eq!(replies.last().unwrap().kind, wire::option_reply::ACK);
        assert!(client.server.connection.is_ready());
        assert_eq!(client.server.connection.is_structured(), structured);
        client
    }

    /// The server's bytes since the last call.
    pub fn received(&mut self) -> Vec<u8> {
        let bytes = self.server.sent[self.seen..].to_vec();
        self.seen = self.server.sent.len();
        bytes
    }

    /// Sends bytes; the server must accept all of them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        let taken = self.server.feed(bytes)?;
        assert_eq!(taken, bytes.len(), "the server stopped reading");
        Ok(())
    }

    pub fn flags(&mut self, flags: u32) {
        self.send(&flags.to_be_bytes()).unwrap();
    }

    /// Sends an option and returns the replies.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<OptionReply> {
        self.send(&option_bytes(option, data)).unwrap();
        let bytes = self.received();
        let mut stream = Stream(&bytes);
        let replies: Vec<OptionReply> = std::iter::from_fn(|| stream.option_reply()).collect();
        assert!(replies.iter().all(|reply| reply.option == option));
        replies
    }

    /// Sends an option and returns the type of the last reply.
    pub fn verdict(&mut self, option: u32, data: &[u8]) -> u32 {
        self.option(option, data).last().expect("every option is answered").kind
    }

    /// Sends a request without waiting; returns its cookie.
    pub fn post(&mut self, flags: u16, command: u16, offset: u64, length: u32, payload: &[u8]) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        if command == wire::command::READ {
            self.reads.insert(cookie, (offset, length));
        }
        let mut bytes = request_bytes(flags, command, cookie, offset, length);
        bytes.extend(payload);
        self.send(&bytes).unwrap();
        cookie
    }

    /// The replies received so far.
    pub fn replies(&mut self) -> Vec<Reply> {
        let bytes = self.received();
        let mut stream = Stream(&bytes);
        std::iter::from_fn(|| stream.reply(&self.reads)).collect()
    }

    /// Sends a request and returns its reply.
    pub fn request(&mut self, flags: u16, command: u16, offset: u64, length: u32, payload: &[u8]) -> Reply {
        let cookie = self.post(flags, command, offset, length, payload);
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1, "one request, one reply");
        let reply = replies.remove(0);
        assert_eq!(reply.cookie, cookie);
        reply
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.request(0, wire::command::READ, offset, length, &[]);
        assert_eq!(reply.error, 0);
        reply.bytes()
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let reply = self.request(0, wire::command::WRITE, offset, data.len() as u32, data);
        assert_eq!(reply.error, 0);
    }

    pub fn has_said_goodbye(&self) -> bool {
        self.server.events.last() == Some(&Event::Disconnect)
    }
}
