//! The fear: a committed transaction, or a whole database, is lost when the drive below it is killed.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Write as _},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crate::mounted::{Stack, done, end, has, run, until};
use crate::tools::out_of;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// A program that reads statements one at a time and answers each with a word.
struct Shell {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start(mut command: Command) -> Shell {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Shell { child, out }
    }

    /// Sends a statement and waits for the answering line; returns whether it came.
    fn say(&mut self, statement: &str, answer: &str) -> bool {
        let stdin = self.child.stdin.as_mut().unwrap();
        if writeln!(stdin, "{statement}").and_then(|()| stdin.flush()).is_err() {
            return false;
        }
        let mut line = String::new();
        while matches!(self.out.read_line(&mut line), Ok(1..)) {
            if line.trim() == answer {
                return true;
            }
            line.clear();
        }
        false
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn payload(row: u64) -> String {
    let mut text = String::new();
    while text.len() < 200 + row as usize * 97 % 3000 {
        write!(text, "{row:08x}").unwrap();
    }
    text
}

/// Inserts rows until the drive is gone. Each row is counted after its transaction was committed.
fn insert_rows(mut shell: Shell, committed: &AtomicU64) {
    loop {
        let row = committed.load(Ordering::Relaxed) + 1;
        let transaction = format!(
            "BEGIN; INSERT INTO ledger VALUES ({row}, '{}'); UPDATE counter SET rows = {row}; COMMIT; SELECT 'row {row}';",
            payload(row)
        );
        if !shell.say(&transaction, &format!("row {row}")) {
            return;
        }
        committed.store(row, Ordering::Relaxed);
    }
}

/// Checks that all committed transactions are there, and each as a whole. `rows`: number and payload, as a table's
/// lines with `|`.
fn check_rows(rows: &str, counter: &str, committed: u64) -> u64 {
    let mut count = 0;
    for line in rows.lines() {
        count += 1;
        assert!(line == format!("{count}|{}", payload(count)), "row {count} is {line:.40}...");
    }
    assert!(count >= committed, "{committed} rows were committed, {count} are there");
    assert!(count <= committed + 1, "{committed} rows were committed, {count} are there");
    assert_eq!(counter.trim(), count.to_string(), "half of a transaction");
    count
}

#[test]
fn sqlite_is_whole_and_has_every_committed_row() {
    if !has("sqlite3") || !Stack::is_possible() {
        return;
    }
    let mut random = Pcg64::seed_from_u64(3);
    // DELETE is not tested, because its commit is the removal of a file, which is durable only with the directory: see
    // killed_beneath_ext4.
    for (placement, journal) in [("back", "WAL"), ("logging", "TRUNCATE")] {
        let mut stack = Stack::new(placement, 48);
        stack.mount("defaults");
        let path = stack.root().join("data.sqlite");
        let file = path.to_str().unwrap().to_owned();
        let durably = format!("PRAGMA journal_mode = {journal}; PRAGMA synchronous = FULL;");
        let begin = format!(
            "PRAGMA journal_mode = {journal}; CREATE TABLE ledger (number INTEGER PRIMARY KEY, text TEXT); \
             CREATE INDEX texts ON ledger (text); CREATE TABLE counter (rows INTEGER); INSERT INTO counter VALUES (0);"
        );
        done("sqlite3", &[&file, &begin]);
        let mut rows = 0;
        for _ in 0..4 {
            let committed = AtomicU64::new(rows);
            thread::scope(|scope| {
                let mut command = Command::new("sqlite3");
                command.args(["-bail", "-cmd", &durably, &file]);
                let shell = Shell::start(command);
                let writer = scope.spawn(|| insert_rows(shell, &committed));
                until("a few rows", || (committed.load(Ordering::Relaxed) > rows + 10).then_some(()));
                thread::sleep(Duration::from_micros(random.random_range(0..300_000)));
                stack.kill();
                writer.join().unwrap();
            });
            stack.take_down();
            stack.serve();
            stack.mount("defaults");
            // Reading the file rolls back, or recovers, unfinished transactions.
            assert_eq!(done("sqlite3", &[&file, "PRAGMA integrity_check;"]).trim(), "ok");
            let found = done("sqlite3", &[&file, "SELECT number, text FROM ledger ORDER BY number;"]);
            let counter = done("sqlite3", &[&file, "SELECT rows FROM counter;"]);
            rows = check_rows(&found, &counter, committed.into_inner());
        }
        assert!(stack.unmount());
        stack.is_sound();
    }
}

/// PostgreSQL refuses to run as root.
const NOBODY: u32 = 65534;

/// A server, and the folder of its programs.
struct Postgres {
    programs: PathBuf,
    sockets: PathBuf,
    data: PathBuf,
    server: Option<Child>,
}

impl Postgres {
    /// Debian's folder for the newest version, or the folder of `postgres` in the path.
    fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let debian = versions.map(|version| version.path().join("bin"));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut all: Vec<PathBuf> = debian.chain(std::env::split_paths(&path)).collect();
        all.sort_by_key(|at| std::cmp::Reverse(at.to_string_lossy().contains("postgresql")));
        let whole = |at: &PathBuf| {
            ["postgres", "initdb", "psql", "pgbench", "pg_amcheck"].iter().all(|tool| at.join(tool).exists())
        };
        let found = all.into_iter().find(whole);
        if found.is_none() {
            println!("skipped: postgres with pgbench and pg_amcheck is not installed");
        }
        found
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "60"]).arg(self.programs.join(program));
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
        command.env("PGHOST", &self.sockets).env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        command.stdin(Stdio::null());
        command
    }

    fn done(&self, program: &str, arguments: &[&str]) -> String {
        out_of(program, arguments, &self.command(program).args(arguments).output().unwrap())
    }

    fn ask(&self, query: &str) -> String {
        self.done("psql", &["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", query])
    }

    fn start(&mut self) {
        let log = fs::File::create(self.sockets.join("log")).unwrap();
        let mut command = Command::new(self.programs.join("postgres"));
        command.uid(NOBODY).gid(NOBODY).current_dir("/").arg("-D").arg(&self.data).arg("-k").arg(&self.sockets);
        command.args(["-c", "listen_addresses=", "-c", "shared_buffers=8MB", "-c", "max_connections=20"]);
        // Frequent checkpoints, so that not only the log is written between two kills.
        command.args(["-c", "checkpoint_timeout=30s", "-c", "max_wal_size=4MB", "-c", "min_wal_size=2MB"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.server = Some(command.spawn().unwrap());
        let ready = || self.command("psql").args(["-X", "-c", "SELECT 1"]).output().unwrap().status.success();
        let log = self.sockets.join("log");
        for _ in 0..300 {
            if ready() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("postgres does not start:\n{}", fs::read_to_string(log).unwrap());
    }

    /// Kills the server and its child processes.
    fn kill(&mut self) {
        let Some(server) = self.server.take() else { return };
        let children = children(server.id());
        end(Some(server));
        for child in children {
            run("kill", &["-9", &child.to_string()]);
            until("a process's end", || (!Path::new(&format!("/proc/{child}")).exists()).then_some(()));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The running child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

#[test]
fn postgresql_recovers_with_sound_indexes_and_every_committed_row() {
    let Some(programs) = Postgres::programs() else { return };
    if !Stack::is_possible() {
        return;
    }
    let mut random = Pcg64::seed_from_u64(5);
    let mut stack = Stack::new("tiering", 256);
    stack.mount("defaults");
    let (sockets, data) = (stack.beside("postgres"), stack.root().join("data"));
    for folder in [&sockets, &data] {
        fs::create_dir(folder).unwrap();
        std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut postgres = Postgres { programs, sockets, data: data.clone(), server: None };
    let data = data.to_str().unwrap();
    postgres
        .done("initdb", &["-D", data, "-U", "postgres", "-A", "trust", "-N", "--wal-segsize=1", "--data-checksums"]);
    // One sync of the file system is faster than initdb's sync of each file.
    done("sync", &["-f", data]);
    postgres.start();
    postgres.done("pgbench", &["-i", "-q"]);
    postgres.ask("CREATE TABLE ledger (number int PRIMARY KEY, text text); CREATE INDEX texts ON ledger (md5(text));");
    postgres.ask("CREATE TABLE counter (rows int); INSERT INTO counter VALUES (0); CHECKPOINT;");
    let mut rows = 0;
    for _ in 0..2 {
        let committed = AtomicU64::new(rows);
        thread::scope(|scope| {
            let mut command = postgres.command("psql");
            command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
            let shell = Shell::start(command);
            let writer = scope.spawn(|| insert_rows(shell, &committed));
            let mut bench = postgres.command("pgbench");
            bench.args(["-n", "-c", "4", "-T", "60"]).stdout(Stdio::null()).stderr(Stdio::null());
            let bench = bench.spawn().unwrap();
            until("a few rows", || (committed.load(Ordering::Relaxed) > rows + 20).then_some(()));
            thread::sleep(Duration::from_micros(random.random_range(500_000..1_500_000)));
            stack.kill();
            postgres.kill();
            end(Some(bench));
            writer.join().unwrap();
        });
        stack.take_down();
        stack.serve();
        stack.mount("defaults");
        postgres.start();
        let found = postgres.ask("SELECT number, text FROM ledger ORDER BY number");
        rows = check_rows(&found, &postgres.ask("SELECT rows FROM counter"), committed.into_inner());
        // pgbench transfers money between accounts: the sum must not change.
        let sums = postgres.ask(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), \
             (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(delta) FROM pgbench_history)",
        );
        let sums: Vec<&str> = sums.trim().split('|').collect();
        assert!(sums.len() == 4 && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        // Every row is in every index, in order, and every page is intact.
        postgres.done("pg_amcheck", &["--install-missing", "--heapallindexed", "--parent-check"]);
    }
    postgres.kill();
    assert!(stack.unmount());
    stack.is_sound();
}
