//! Volumes in a directory of their own, served in this process, and a client with the necessary part of NBD.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // no user uses all of it

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use peryton_drive::{
    DevicePath, Endpoint, Handle, ProcessDeath, ServeError, Service, Settings, Summary, Tuner, VolumeSpec, format,
};
use peryton_engine::{Bypass, Config, DeviceId, Hybrid, Logging, Placement, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos};
use serde_json::Value;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const ZEROES: u16 = 6;
pub const FUA: u16 = 1;
pub const EIO: u32 = 5;

/// A client with one request at a time, or many.
pub struct Client {
    stream: UnixStream,
    pub size: u64,
    cookie: u64,
}

impl Client {
    pub fn connect(path: &Path) -> Client {
        let stream = (0..200)
            .find_map(|_| {
                UnixStream::connect(path).ok().or_else(|| {
                    thread::sleep(Duration::from_millis(20));
                    None
                })
            })
            .expect("a server that listens");
        Client::greet(stream).unwrap()
    }

    /// The same with a server that may be gone.
    pub fn try_connect(path: &Path) -> std::io::Result<Client> {
        Client::greet(UnixStream::connect(path)?)
    }

    fn greet(mut stream: UnixStream) -> std::io::Result<Client> {
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..8], b"NBDMAGIC");
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"IHAVEOPT");
        hello.extend_from_slice(&1_u32.to_be_bytes());
        hello.extend_from_slice(&0_u32.to_be_bytes());
        stream.write_all(&hello)?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        let size = u64::from_be_bytes(export[..8].try_into().unwrap());
        Ok(Client { stream, size, cookie: 0 })
    }

    /// One request of a server that may die: whether it was answered, and with which error.
    pub fn try_ask(&mut self, command: u16, offset: u64, len: u32, data: &[u8]) -> std::io::Result<u32> {
        self.try_send(command, 0, offset, len, data)?;
        self.answer().map(|(_, error)| error)
    }

    /// Sends a request without waiting for its answer.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, len: u32, data: &[u8]) -> u64 {
        self.try_send(command, flags, offset, len, data).unwrap();
        self.cookie
    }

    fn try_send(&mut self, command: u16, flags: u16, offset: u64, len: u32, data: &[u8]) -> std::io::Result<()> {
        self.cookie += 1;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend_from_slice(&flags.to_be_bytes());
        request.extend_from_slice(&command.to_be_bytes());
        request.extend_from_slice(&self.cookie.to_be_bytes());
        request.extend_from_slice(&offset.to_be_bytes());
        request.extend_from_slice(&len.to_be_bytes());
        request.extend_from_slice(data);
        self.stream.write_all(&request)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next answer: cookie and error.
    pub fn answer(&mut self) -> std::io::Result<(u64, u32)> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        Ok((u64::from_be_bytes(reply[8..].try_into().unwrap()), u32::from_be_bytes(reply[4..8].try_into().unwrap())))
    }

    /// The data behind the answer to a read.
    pub fn data(&mut self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).unwrap();
        data
    }

    fn ask(&mut self, command: u16, flags: u16, offset: u64, len: u32, data: &[u8]) -> Result<(), u32> {
        let cookie = self.send(command, flags, offset, len, data);
        let (answered, error) = self.answer().unwrap();
        assert_eq!(answered, cookie);
        if error == 0 { Ok(()) } else { Err(error) }
    }

    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), u32> {
        self.ask(WRITE, u16::from(fua) * FUA, offset, data.len() as u32, data)
    }

    pub fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, u32> {
        self.ask(READ, 0, offset, len as u32, &[])?;
        Ok(self.data(len))
    }

    pub fn flush(&mut self) -> Result<(), u32> {
        self.ask(FLUSH, 0, 0, 0, &[])
    }

    /// A hint that the host has dropped a range from its own cache.
    pub fn cache(&mut self, offset: u64, len: u32) -> Result<(), u32> {
        self.ask(CACHE, 0, offset, len, &[])
    }

    pub fn zeroes(&mut self, offset: u64, len: u32) -> Result<(), u32> {
        self.ask(ZEROES, 0, offset, len, &[])
    }

    pub fn trim(&mut self, offset: u64, len: u32) -> Result<(), u32> {
        self.ask(TRIM, 0, offset, len, &[])
    }
}

pub const FAST: DeviceId = DeviceId(0);
pub const SLOW: DeviceId = DeviceId(1);

/// A configuration with small devices, small extents, and constant moves.
pub fn config(placement: &str) -> Config {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes::kib(16) };
    let mut tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 4,
        demotion_high: 8,
        max_moves: 4,
        writeback_delay: Nanos::from_ms(20),
        commit_interval: Nanos::from_ms(50),
        // Tests of devices that return set more.
        patience: Nanos::from_ms(500),
        // Both are files of one disk: which of them is slower is chance.
        bypass: Bypass { congested: false, ..Bypass::default() },
        ..Tuning::default()
    };
    let placement = match placement {
        "single" => Placement::Single { device: FAST },
        "partitioned" => Placement::Partitioned(pair),
        "linear" => Placement::Linear { devices: vec![FAST, SLOW] },
        "tiering" => Placement::Tiering(pair),
        "back" | "through" | "around" => {
            tuning.write = match placement {
                "back" => WritePolicy::Back,
                "through" => WritePolicy::Through,
                _ => WritePolicy::Around,
            };
            Placement::Caching(pair)
        }
        "logging" => {
            let pair = Logging { primaries: SLOW.into(), log: FAST, block: Bytes::kib(4) };
            // What the log has at a given moment must not depend on how fast the disk of these files is just then.
            tuning.logging.most_behind = None;
            tuning.logging.triggers.read_share_ppm = None;
            return Config {
                devices: vec![Bytes::mib(16), Bytes::mib(6)],
                placement: Placement::Logging(pair),
                tuning,
            };
        }
        _ => unreachable!("no such placement"),
    };
    Config { devices: vec![Bytes::mib(2), Bytes::mib(6)], placement, tuning }
}

pub const PLACEMENTS: [&str; 7] = ["single", "linear", "tiering", "back", "through", "around", "logging"];

/// Ends this process, the server of a test, with the thread of that test: one that fails leaves no server behind, which would keep the output
/// open for ever.
pub fn end_with_the_test() {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
}

/// A volume in a directory, with a tuner that accepts one key.
pub fn spec(directory: &Path, config: Config) -> VolumeSpec {
    let tuning = config.tuning.clone();
    let tuner = Tuner::new(move |settings: &[String]| {
        let mut tuning = tuning.clone();
        for setting in settings {
            let (key, value) = setting.split_once('=').ok_or("no =")?;
            if key == "failure.patience" {
                tuning.patience = value.parse().map_err(|_| format!("{key}: {value} is no duration"))?;
                continue;
            }
            let number: u32 = value.parse().map_err(|_| format!("{key}: {value} is no number"))?;
            match key {
                "placement.max_moves" => tuning.max_moves = number,
                "placement.promotion.threshold" => tuning.promotion_threshold = number,
                _ => return Err(format!("{key}: unknown")),
            }
        }
        Ok(tuning)
    });
    let device = |name: &str| DevicePath { name: name.to_owned(), path: directory.join(name) };
    let devices = vec![device("fast"), device("slow")];
    VolumeSpec {
        name: "test".to_owned(),
        config,
        devices,
        process_death: ProcessDeath::SharedMemory { directory: Some(directory.to_owned()) },
        rotational: false,
        tuner: Some(tuner),
    }
}

/// A volume that is being served by a thread of this process.
pub struct Served {
    pub nbd: PathBuf,
    pub handle: Handle,
    thread: thread::JoinHandle<Result<Summary, ServeError>>,
}

impl Served {
    pub fn start(directory: &Path, config: Config, settings: Settings) -> Served {
        Served::try_start(directory, config, settings).unwrap()
    }

    pub fn try_start(directory: &Path, config: Config, settings: Settings) -> Result<Served, ServeError> {
        let spec = spec(directory, config);
        let nbd = directory.join("nbd");
        let settings = Settings { drills: true, ..settings };
        let service = Service::open(&spec, &Endpoint::Unix(nbd.clone()), settings)?;
        let handle = service.handle();
        Ok(Served { nbd, handle, thread: thread::spawn(move || service.run()) })
    }

    pub fn new(directory: &Path, config: Config, settings: Settings) -> Served {
        format(&spec(directory, config.clone()), false).unwrap();
        Served::start(directory, config, settings)
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.nbd)
    }

    /// Asks for the status until it is as wanted, and returns it.
    pub fn wait_for(&self, mut is_wanted: impl FnMut(&Value) -> bool) -> Value {
        for _ in 0..2000 {
            let status = self.handle.status().unwrap();
            if is_wanted(&status) {
                return status;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("the status never becomes what it should be: {}", self.handle.status().unwrap());
    }

    /// Stops the server; returns its result.
    pub fn end(self) -> Result<Summary, ServeError> {
        self.handle.stop();
        self.thread.join().unwrap()
    }

    pub fn stop(self) -> Summary {
        self.handle.stop();
        self.thread.join().unwrap().unwrap()
    }
}

/// Every way to access a device: with and without io_uring and the page cache.
pub fn ways() -> [Settings; 3] {
    let usual = Settings { pool: Bytes::mib(8), ..Settings::default() };
    [usual.clone(), Settings { direct: false, ..usual.clone() }, Settings { io_uring: false, ..usual }]
}

/// What a service says that refuses to open the volume in this directory.
pub fn refusal(directory: &Path, config: Config) -> String {
    let endpoint = directory.join("nbd").display().to_string().parse().unwrap();
    Service::open(&spec(directory, config), &endpoint, Settings::default()).unwrap_err().to_string()
}
