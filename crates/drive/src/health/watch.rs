//! The threads that wait for drives: one for each.
//!
//! A drive that does not answer keeps its own thread and nothing else: the loop hands orders over without waiting, and everybody copies
//! what the table has.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::Instant,
};

use super::{
    judge::judge,
    nvme,
    reading::{self, Known},
    table::Table,
    transport::{Ioctl, Transport, TransportError},
};
use crate::{
    block::{Linux, PhysicalDrive, Protocol},
    events::{Events, What},
};

/// The most orders that wait for a drive; the loop drops further ones.
const MOST_ORDERS: usize = 4;
/// No more drives of a volume are watched.
const MOST_DRIVES: usize = 64;
/// The memory of a server of a block device is locked, the threads' stacks as well.
const STACK: usize = 256 << 10;

/// What the loop wants of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Put it into standby, unless it is used again meanwhile.
    Rest,
    /// Read how much was written to its flash.
    CountPrograms,
}

/// What the threads tell the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A device was put into standby.
    Rested(usize),
    /// It cannot be.
    CannotRest(usize),
    /// This many bytes were written to the flash beneath the device since the server started.
    Programmed(usize, u64),
    /// The share of its life that the device has used up, in parts per million, and for how many hours it had power.
    Worn(usize, u32, Option<u64>),
}

/// Where the threads tell it.
pub(crate) type Tell = Arc<dyn Fn(News) + Send + Sync>;

/// The threads of a volume's drives. They end when this is dropped, except those whose drive does not answer.
pub(crate) struct Watch {
    table: Arc<Table>,
    posts: Vec<Post>,
    names: Vec<String>,
    events: Events,
    tell: Tell,
}

/// The thread of the drive in a place of the table.
struct Post {
    /// Absent once the drive is not beneath the volume any more.
    orders: Option<mpsc::SyncSender<Order>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watch {
    /// Starts the threads. `names`: those of the volume's devices.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(table: Arc<Table>, names: &[String], events: &Events, tell: &Tell) -> io::Result<Watch> {
        let drives = table.drives().len();
        if drives > MOST_DRIVES {
            tracing::warn!(drives, "health: the first {MOST_DRIVES} drives are watched");
        }
        let (names, events, tell) = (names.to_vec(), events.clone(), Arc::clone(tell));
        let mut watch = Watch { table, posts: Vec::new(), names, events, tell };
        (0..drives.min(MOST_DRIVES)).try_for_each(|place| watch.watch(place))?;
        Ok(watch)
    }

    /// Starts the thread of the drive in this place of the table.
    fn watch(&mut self, place: usize) -> io::Result<()> {
        let (about, devices) = {
            let rows = self.table.rows();
            (rows.drives[place].about.clone(), rows.drives[place].devices)
        };
        let (sender, receiver) = mpsc::sync_channel(MOST_ORDERS);
        let mut watcher = Watcher {
            place,
            about,
            devices: (0..self.names.len()).filter(|device| devices >> device & 1 == 1).collect(),
            names: self.names.clone(),
            known: Known::default(),
            table: Arc::clone(&self.table),
            events: self.events.clone(),
            tell: Arc::clone(&self.tell),
            last_error: None,
        };
        let name = format!("health {}", watcher.about.name);
        let thread = thread::Builder::new().name(name).stack_size(STACK).spawn(move || watcher.run(&receiver))?;
        let post = Post { orders: Some(sender), thread: Some(thread) };
        if place < self.posts.len() {
            self.posts[place] = post
        } else {
            self.posts.push(post)
        }
        Ok(())
    }

    /// Another device is in this place of the volume, or none: its drives are watched, and those of the one before are not.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn follow(&mut self, linux: &Linux, device: usize, path: Option<&Path>) -> io::Result<()> {
        let beneath = path.map(|path| linux.beneath(path)).unwrap_or_default();
        let has_ended = |post: &Post| post.thread.as_ref().is_none_or(thread::JoinHandle::is_finished);
        let is_free = |place: usize| self.posts.get(place).is_none_or(has_ended);
        let (over, new) = self.table.follow(device, (path, beneath), is_free, MOST_DRIVES);
        for place in over {
            if let Some(post) = self.posts.get_mut(place) {
                post.orders = None;
            }
        }
        new.into_iter().try_for_each(|place| self.watch(place))
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Puts the drives of a device into standby; returns whether that was ordered.
    pub(crate) fn rest(&self, device: usize) -> bool {
        self.order(device, Order::Rest)
    }

    /// Asks how much was written to the flash beneath a device.
    pub(crate) fn count_programs(&self, device: usize) {
        self.order(device, Order::CountPrograms);
    }

    fn order(&self, device: usize, order: Order) -> bool {
        let drives = match self.table.rows().devices.get(device) {
            Some(row) => row.drives.clone(),
            None => return false,
        };
        let senders = drives.iter().filter_map(|drive| self.posts.get(*drive)?.orders.as_ref());
        // A drive that does not take orders is given up for this time.
        senders.map(|sender| sender.try_send(order).is_ok()).fold(false, |any, sent| any | sent)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("drives", &self.posts.len()).finish_non_exhaustive()
    }
}

/// The thread of a drive.
struct Watcher {
    place: usize,
    about: PhysicalDrive,
    /// The volume's devices that lie on it.
    devices: Vec<usize>,
    names: Vec<String>,
    known: Known,
    table: Arc<Table>,
    events: Events,
    tell: Tell,
    last_error: Option<String>,
}

impl Watcher {
    fn run(&mut self, orders: &mpsc::Receiver<Order>) {
        let mut next = self.table.every.map(|_| Instant::now());
        loop {
            let order = match next {
                Some(next) => orders.recv_timeout(next.saturating_duration_since(Instant::now())),
                None => orders.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            };
            // The drive is opened each time, so that one that comes back is found again.
            let drive = || Ioctl::open(&self.about.node);
            match order {
                Ok(order) => {
                    let drive = drive();
                    self.carry_out(order, drive);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let drive = drive();
                    self.read(drive);
                    next = self.table.every.map(|every| Instant::now() + every);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn carry_out(&mut self, order: Order, drive: Result<impl Transport, TransportError>) {
        match order {
            Order::Rest => self.rest(drive),
            Order::CountPrograms => {
                let read = drive.and_then(|mut drive| nvme::nand_bytes_written(&mut drive, &mut self.known.nvme));
                if let Ok(Some(bytes)) = read {
                    self.programmed(bytes);
                }
            }
        }
    }

    fn rest(&mut self, drive: Result<impl Transport, TransportError>) {
        // The drive may be in use again, or another device on it.
        if !self.table.may_rest(self.place) {
            return;
        }
        match drive.and_then(|mut drive| reading::stand_by(&mut drive, &self.about)) {
            Ok(()) => {
                tracing::debug!(drive = self.about.name, "put into standby");
                self.devices.iter().for_each(|device| (self.tell)(News::Rested(*device)));
            }
            Err(error) => {
                for device in &self.devices {
                    let why = format!("{}: {error}", self.about.name);
                    let device_name = &self.names[*device];
                    tracing::warn!(
                        "{device_name} is served without standby (power.{device_name}.spin_down_after): {why}"
                    );
                    self.table.rows().devices[*device].cannot_rest = Some(why);
                    (self.tell)(News::CannotRest(*device));
                }
            }
        }
    }

    fn read(&mut self, drive: Result<impl Transport, TransportError>) {
        self.table.rows().drives[self.place].asked = Some(Instant::now());
        let read = drive.and_then(|mut drive| reading::read(&mut drive, &self.about, &mut self.known));
        let now = Instant::now();
        let mut rows = self.table.rows();
        let row = &mut rows.drives[self.place];
        row.asked = None;
        let health = match read {
            Err(error) => {
                // Another drive may be there when it answers again.
                self.known = Known::default();
                let error = error.to_string();
                row.error = Some(error.clone());
                drop(rows);
                if self.last_error.as_ref() != Some(&error) {
                    tracing::warn!(drive = self.about.name, error, "the health of the drive cannot be read");
                    self.last_error = Some(error);
                }
                return;
            }
            Ok(health) => health,
        };
        self.last_error = None;
        row.error = None;
        // At the power of the state that it was in at the last reading, for the time since then.
        if let (Some(watts), Some(then)) = (row.health.as_ref().and_then(|last| last.power_state_w), row.read) {
            let used = watts * now.saturating_duration_since(then).as_secs_f64() * 1e6;
            row.most_energy_uj = Some(row.most_energy_uj.unwrap_or(0).saturating_add(used as u64));
        }
        if health.power.is_some_and(|power| power.sleeps()) {
            // What was read before is still true.
            row.error = health.not_read.first().cloned();
            if let Some(last) = &mut row.health {
                last.power = health.power;
            } else {
                row.health = Some(health);
            }
            return;
        }
        let concerns = judge(row.health.as_ref().filter(|_| row.read.is_some()), &health);
        let nand = health.nand_bytes_written;
        row.read = Some(now);
        row.health = Some(health);
        let worn: Vec<_> = self.devices.iter().filter_map(|device| Some((*device, rows.worn(*device)?))).collect();
        drop(rows);
        for concern in concerns {
            let drive = self.about.name.clone();
            tracing::warn!(drive, "the drive {}", concern.text);
            let devices = self.devices.iter().map(|device| self.names[*device].clone()).collect();
            self.events.report(What::DriveHealth {
                drive,
                devices,
                about: concern.about.to_owned(),
                text: concern.text,
            });
        }
        for (device, (used, hours)) in worn {
            (self.tell)(News::Worn(device, used, hours));
        }
        if let Some(bytes) = nand {
            self.programmed(bytes);
        }
    }

    /// This many bytes were written to the flash in the drive's life.
    fn programmed(&self, bytes: u64) {
        let mut rows = self.table.rows();
        let row = &mut rows.drives[self.place];
        // A counter that goes back begins again.
        let first = row.nand.map(|(first, last)| if bytes < last { bytes } else { first });
        row.nand = Some((first.unwrap_or(bytes), bytes));
        let known: Vec<_> =
            self.devices.iter().filter_map(|device| Some((*device, rows.programmed(*device)?))).collect();
        drop(rows);
        for (device, bytes) in known {
            self.table.counts_programs.fetch_or(1 << device, Ordering::AcqRel);
            (self.tell)(News::Programmed(device, bytes));
        }
    }
}

impl PhysicalDrive {
    /// Why it can never be put into standby, if that is known without asking it.
    pub(crate) fn never_rests(&self) -> Option<String> {
        let why = || format!("{}: NVMe drives rest by themselves", self.name);
        (self.protocol == Protocol::Nvme).then(why)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use super::{
        super::{ata, nvme::tests as recordings, transport::recorded::Recorded},
        *,
    };
    use crate::health::table::DeviceRow;

    struct Watched {
        watcher: Watcher,
        news: Arc<Mutex<Vec<News>>>,
    }

    fn watched(protocol: Protocol) -> Watched {
        let about = PhysicalDrive { name: "sda".to_owned(), node: "/none".into(), protocol, is_restarted: false };
        let table = Arc::new(Table::new(&Linux::default(), &[], Some(Duration::from_secs(60))));
        let mut rows = table.rows();
        let row = DeviceRow { drives: vec![0], is_mirror: false, without: vec![], cannot_rest: None, number: None };
        rows.devices = vec![row];
        rows.drives = vec![super::super::table::DriveRow::new(about.clone(), 1)];
        drop(rows);
        let news = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&news);
        let watcher = Watcher {
            place: 0,
            about,
            devices: vec![0],
            names: vec!["ssd".to_owned()],
            known: Known::default(),
            table,
            events: Events::default(),
            tell: Arc::new(move |one| told.lock().unwrap().push(one)),
            last_error: None,
        };
        Watched { watcher, news }
    }

    fn events(watcher: &Watcher) -> Vec<String> {
        let all = watcher.events.since(0, Duration::ZERO).unwrap();
        let about = |event: crate::events::Event| match event.what {
            What::DriveHealth { about, devices, drive, .. } if devices == ["ssd"] && drive == "sda" => Some(about),
            _ => None,
        };
        all.into_iter().filter_map(about).collect()
    }

    #[test]
    fn readings_reach_table_engine_and_events() {
        let Watched { mut watcher, news } = watched(Protocol::Nvme);
        let drive = |used: u8, errors: u8, nand: u128| {
            let mut page = recordings::health_log();
            (page[5], page[160]) = (used, errors);
            Ok(recordings::drive(page, Some(recordings::ocp_log(nand))))
        };
        watcher.read(drive(79, 1, 1000));
        watcher.read(drive(81, 3, 1500));
        watcher.carry_out(Order::CountPrograms, drive(81, 3, 1800));
        // The drive was replaced beneath the server, and counts from the beginning.
        watcher.carry_out(Order::CountPrograms, drive(81, 3, 10));
        let expected = [
            News::Worn(0, 790_000, Some(200)),
            News::Programmed(0, 0),
            News::Worn(0, 810_000, Some(200)),
            News::Programmed(0, 500),
            News::Programmed(0, 800),
            News::Programmed(0, 0),
        ];
        assert_eq!(*news.lock().unwrap(), expected);
        assert_eq!(events(&watcher), ["percentage_used", "media_errors"]);
        assert_eq!(watcher.table.counts_programs.load(Ordering::Acquire), 1);
        let status = watcher.table.status(0);
        assert_eq!(status["drives"][0]["health"]["percentage_used"], 81, "{status}");
        assert!(watcher.table.drives()[0].most_energy_uj.is_some());
    }

    #[test]
    fn a_drive_that_does_not_answer_keeps_its_last_figures() {
        let Watched { mut watcher, .. } = watched(Protocol::Nvme);
        watcher.read(Ok(recordings::drive(recordings::health_log(), None)));
        watcher.read(Err::<Recorded, _>(TransportError::TimedOut));
        let status = watcher.table.status(0);
        assert_eq!(status["drives"][0]["health"]["temperature_c"], 39);
        assert!(status["drives"][0]["error"].as_str().unwrap().contains("did not answer"), "{status}");
        assert!(status["drives"][0]["read_s_ago"].is_number());
    }

    #[test]
    fn a_drive_that_sleeps_keeps_its_last_figures() {
        let Watched { mut watcher, .. } = watched(Protocol::Scsi);
        watcher.read(Ok(ata::tests::disk()));
        let mut asleep = ata::tests::disk();
        ata::tests::power_mode(&mut asleep, 0);
        watcher.read(Ok(asleep));
        let status = watcher.table.status(0);
        assert_eq!(status["drives"][0]["health"]["power"], "standby");
        assert_eq!(status["drives"][0]["health"]["temperature_c"], 34);
        assert!(events(&watcher).is_empty());
    }

    #[test]
    fn a_drive_in_use_is_not_put_into_standby_and_one_that_cannot_is_said_once() {
        let Watched { mut watcher, news } = watched(Protocol::Scsi);
        watcher.carry_out(Order::Rest, Ok(Recorded::default()));
        assert_eq!(*news.lock().unwrap(), [], "it was used again meanwhile");
        watcher.table.rests.store(1, Ordering::Release);
        let mut drive = Recorded::default();
        drive.scsi.push((vec![0x85], Ok((ata::tests::sense(0, [0; 3], 0x50), vec![]))));
        watcher.carry_out(Order::Rest, Ok(drive));
        watcher.carry_out(Order::Rest, Ok(Recorded::default()));
        assert_eq!(*news.lock().unwrap(), [News::Rested(0), News::CannotRest(0)]);
        assert!(watcher.table.cannot_rest(0).unwrap().contains("sda"));
    }

    /// The fear: a drive that hangs keeps the server from ending, or from answering.
    #[test]
    fn orders_never_wait() {
        let Watched { watcher, .. } = watched(Protocol::Scsi);
        let (sender, receiver) = mpsc::sync_channel(MOST_ORDERS);
        let watch = Watch {
            table: Arc::clone(&watcher.table),
            posts: vec![Post { orders: Some(sender), thread: None }],
            names: watcher.names.clone(),
            events: watcher.events.clone(),
            tell: Arc::clone(&watcher.tell),
        };
        let taken = (0..2 * MOST_ORDERS).filter(|_| watch.rest(0)).count();
        assert_eq!((taken, watch.rest(7)), (MOST_ORDERS, false));
        drop(watch);
        assert_eq!(receiver.into_iter().count(), MOST_ORDERS);
    }
}
