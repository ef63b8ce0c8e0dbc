//! The fear: the drive that runs differs from the one that was simulated. Given the same requests and completions at
//! the same times, the drive's engine gives the same commands as the simulator's, in the same order.

use std::sync::{Arc, Mutex};

use peryton_drive::{Backend, Data, Memory, Operation, Volume};
use peryton_engine::DeviceId;
use peryton_sim::{Design, Moment, Options, Replay, run_observed};
use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};

type Moments = Arc<Mutex<Vec<(Nanos, Moment)>>>;

/// Devices that complete at the time and in the order that the test sets.
#[derive(Debug, Default)]
struct Virtual(Vec<Operation>);

impl Backend for Virtual {
    fn start(&mut self, operation: Operation) {
        self.0.push(operation);
    }

    fn standby(&mut self, _device: DeviceId) {}
}

struct Listed(Vec<Request>, usize);

impl Source for Listed {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.1 + BATCH).min(self.0.len());
        batch.extend_from_slice(&self.0[self.1..end]);
        self.1 = end;
        Ok(())
    }
}

/// Pseudo-random numbers from a fixed seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

fn requests(volume: u64) -> Vec<Request> {
    let mut random = Random(5);
    let mut at = Nanos::ZERO;
    let each = |_| {
        at = at.saturating_add(Nanos::from_us(random.below(800)));
        let span = if random.below(10) < 7 { volume / 8 } else { volume };
        let len = (1 + random.below(200)) * 512;
        let offset = random.below((span - len) / 512) * 512;
        let op = match random.below(100) {
            0..45 => Op::Read,
            45..92 => Op::Write,
            92..96 => Op::Discard,
            _ => return Request { at, offset: Bytes::ZERO, len: Bytes::ZERO, volume: 0, op: Op::Flush },
        };
        Request { at, offset: Bytes(offset), len: Bytes(len), volume: 0, op }
    };
    (0..6000).map(each).collect()
}

fn design(placement: &str) -> Design {
    let text = format!(
        "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '8MiB'\n\
         [devices.hdd]\nprofile = 'seagate-st32000641as'\nsize = '32MiB'\n{placement}"
    );
    Design::parse(&text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const HYBRID: &str = "fast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\npromotion = { threshold = 1, window = '60s' }\n\
                      demotion = { low = 8, high = 16 }\n";

fn designs() -> Vec<Design> {
    vec![
        design("[placement]\nmode = 'linear'\ndevices = ['ssd', 'hdd']\n"),
        design("[placement]\nmode = 'logging'\nprimary = 'hdd'\nlog = 'ssd'\n"),
        design("[placement]\nmode = 'logging'\nprimary = 'hdd'\nlog = 'ssd'\nwrite_unit = '64KiB'\n"),
        design(&format!("[placement]\nmode = 'tiering'\n{HYBRID}")),
        design(&format!("[placement]\nmode = 'caching'\nwrite = 'back'\n{HYBRID}")),
        design(&format!("[placement]\nmode = 'caching'\nwrite = 'back'\nwrite_unit = '16KiB'\n{HYBRID}")),
        design(&format!("[placement]\nmode = 'caching'\nwrite = 'through'\nreplacement = 'arc'\n{HYBRID}")),
        design(&format!(
            "[placement]\nmode = 'caching'\nwrite = 'around'\n{HYBRID}[power.hdd]\nspin_down_after = '1s'\n"
        )),
        design(&format!(
            "[placement]\nmode = 'caching'\nwrite = 'back'\n{HYBRID}[admission]\nby = 'probability'\n\
             adaptive = {{ rate = 0.5, caches = 4, target_latency = '1ms', frame = 200 }}\n"
        )),
        design(
            "[endurance.ssd]\nwritten = '100GB'\n[placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\n\
             extent = '64KiB'\ndemotion = { low = 8, high = 16 }\n[partition]\nlifetime_years = 0.001\nidle_after = '1ms'\nbust_after = '500ms'\n",
        ),
        design(&format!("[placement]\nmode = 'tiering'\n{HYBRID}[climb]\nevery = '200ms'\nrequests = 50\n")),
        design(&format!(
            "[placement]\nmode = 'caching'\n{HYBRID}[climb]\nevery = '100ms'\nrequests = 20\n\
             caps = {{ power = '9W', fast_writes_per_day = '2TB', mean = '1s' }}\n"
        )),
    ]
}

#[test]
fn a_simulated_run_is_repeated_command_by_command() {
    for design in designs() {
        let simulated = Moments::default();
        let sink = Arc::clone(&simulated);
        let trace = requests(design.volume.0);
        for replay in [Replay::Timed { speed: 1.0 }, Replay::Depth(16)] {
            let sink = Arc::clone(&sink);
            let trace = Box::new(Listed(trace.clone(), 0));
            let options = Options { replay, ..Options::default() };
            sink.lock().unwrap().clear();
            let observer = Box::new(move |now, _, moment| sink.lock().unwrap().push((now, moment)));
            run_observed(&design, trace, &options, observer).unwrap();
            let simulated = simulated.lock().unwrap().clone();
            let repeated = repeat(&design, &simulated);
            let commands = simulated.iter().filter(|(_, moment)| matches!(moment, Moment::Commanded(_))).count();
            assert!(commands > 6000, "{commands} commands are a poor test");
            let first = simulated.iter().zip(&repeated).position(|(one, other)| one != other);
            assert_eq!(first.map(|at| (simulated[at], repeated[at])), None, "{:?} {replay:?}", design.placement);
            assert_eq!(simulated.len(), repeated.len());
        }
    }
}

/// Gives the drive's volume the inputs of the simulator's engine; returns all events.
fn repeat(design: &Design, simulated: &[(Nanos, Moment)]) -> Vec<(Nanos, Moment)> {
    let happened = Moments::default();
    // As a run begins by default: the volume is in use.
    let engine = design.engine(true).unwrap();
    let mut volume = Volume::new(engine, Virtual::default(), 1 << 30).unwrap();
    volume.keep_no_data();
    let sink = Arc::clone(&happened);
    volume.observe(move |now, command| sink.lock().unwrap().push((now, Moment::Commanded(*command))));
    let mut data = vec![0; 256 << 10];
    // SAFETY: the data outlives the volume, whose back end never accesses it.
    let memory = unsafe { Memory::of(&mut data) };
    for (now, moment) in simulated.iter().copied() {
        match moment {
            // The volume must give the command without an input; the comparison shows whether it does.
            Moment::Commanded(_) => continue,
            _ => happened.lock().unwrap().push((now, moment)),
        }
        match moment {
            Moment::Submitted(id, request) => {
                let data = if matches!(request.op, Op::Read | Op::Write) { Data::At(memory) } else { Data::None };
                volume.submit(now, id, request, data);
            }
            Moment::Completed(io) => {
                let at = volume.backend.0.iter().position(|operation| operation.io == io);
                let at = at.unwrap_or_else(|| panic!("the drive has not begun {io:?}"));
                volume.backend.0.swap_remove(at);
                volume.complete(now, io, Ok(()));
            }
            Moment::Ticked => {
                volume.tick(now);
            }
            Moment::Hinted(from, to) => volume.evict(now, from..to),
            Moment::Programmed(device, bytes) => volume.programmed(device, bytes),
            Moment::Drew(microjoules) => volume.drew(microjoules),
            Moment::Commanded(_) => {}
        }
        volume.replies().clear();
    }
    happened.lock().unwrap().clone()
}
