//! The fear: a signal for a server reaches another program, which has got the server's number since.

use std::{
    fs,
    process::{Child, Command},
    time::Duration,
};

use peryton_drive::{Ask, ServerProcess};

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep starts")
}

/// A process with this number, if the system gives it: root may say which number was given last. Other programs may take it first.
fn with_number(number: u32) -> Option<Child> {
    for _ in 0..200 {
        fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).ok()?;
        let mut child = sleeper();
        if child.id() == number {
            return Some(child);
        }
        end(&mut child);
    }
    None
}

fn end(child: &mut Child) {
    child.kill().expect("it is a child of this program");
    child.wait().expect("it ends");
}

#[test]
fn a_signal_reaches_the_server_and_no_process_that_has_its_number_later() {
    let mut server = sleeper();
    let process = ServerProcess::of(&server).expect("it runs");
    let found = ServerProcess::running(server.id() as i32).expect("it can be asked").expect("it runs");
    assert!(!process.ends_within(Duration::from_millis(10)) && !found.ends_within(Duration::ZERO));
    process.ask(Ask::End);
    assert!(found.ends_within(Duration::from_secs(10)), "the signal reaches it");
    server.wait().expect("it ends");
    assert!(ServerProcess::running(i32::MAX).expect("it can be asked").is_none());
    let Some(mut other) = with_number(server.id()) else {
        return eprintln!("skipped: the system does not give a number again");
    };
    for ask in [Ask::End, Ask::HandOver, Ask::Kill] {
        process.ask(ask);
        found.ask(ask);
    }
    std::thread::sleep(Duration::from_millis(100));
    let ended = other.try_wait().expect("it is a child of this program");
    assert!(process.ends_within(Duration::ZERO), "the server has ended, whoever has its number");
    end(&mut other);
    assert_eq!(ended, None, "a process that has the server's number was sent its signals");
}
