//! `peryton init`: asks what a design should be, and writes it with comments.

mod asking;
mod written;

use std::{
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use peryton_device::Profile;
use peryton_engine::PlacementKind;
use peryton_sim::Design;
use peryton_units::Bytes;

use crate::{failure::Failure, output, page, terminal};
use asking::Asking;
use written::{Answers, Device};

/// Options of `peryton init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton init                        # asks, and writes design.toml
  peryton init my.toml --mode tiering --fast wd-black-sn850x-2tb --fast-size 256GiB --volume 4TiB --yes
  peryton init - --yes                # a design to start from, on standard output

What the options say is not asked. Without a terminal nothing is asked: what the options do not say has its default.")]
pub struct Args {
    /// The file to write (- for standard output)
    #[arg(value_name = "DESIGN.toml", default_value = "design.toml")]
    design: PathBuf,
    /// How data are placed on the devices
    #[arg(long, value_name = "MODE", value_parser = modes())]
    mode: Option<PlacementKind>,
    /// Profile of the fast device, or of the only one (peryton devices lists them), or the path of one
    #[arg(long, value_name = "PROFILE")]
    fast: Option<String>,
    /// How much of the fast device to use
    #[arg(long, value_name = "SIZE")]
    fast_size: Option<Bytes>,
    /// Block device or image file of the fast device, for peryton serve
    #[arg(long, value_name = "PATH")]
    fast_path: Option<String>,
    /// Profile of the slow device
    #[arg(long, value_name = "PROFILE")]
    slow: Option<String>,
    /// Block device or image file of the slow device, for peryton serve
    #[arg(long, value_name = "PATH")]
    slow_path: Option<String>,
    /// Size of the volume
    #[arg(long, value_name = "SIZE")]
    volume: Option<Bytes>,
    /// When a cache answers writes: back, once the fast device has them; through, once both have; around, once the slow one has
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(WRITES))]
    write: Option<String>,
    /// Ask nothing: what the options do not say has its default
    #[arg(short, long)]
    yes: bool,
    /// Overwrite the file if it exists
    #[arg(long)]
    force: bool,
}

const WRITES: [&str; 3] = ["back", "through", "around"];

/// Reads the name of a placement.
fn modes() -> impl TypedValueParser<Value = PlacementKind> {
    PossibleValuesParser::new(PlacementKind::ALL.map(PlacementKind::name))
        .map(|name| mode(&name).expect("it is listed"))
}

fn mode(name: &str) -> Option<PlacementKind> {
    PlacementKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// Asks and writes.
pub fn run(args: &Args) -> Result<(), Failure> {
    let to_stdout = output::is_stdout(&args.design);
    if !to_stdout && args.design.exists() && !args.force {
        let file = args.design.display();
        return Err(Failure::bad_input(format!("{file} exists: give another name, or --force to overwrite it")));
    }
    let asks = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    let answers = match asks {
        true => {
            let (mut input, mut out) = (io::stdin().lock(), io::stderr());
            gather(args, &mut Asking::of(&mut input, &mut out))?
        }
        false => gather(args, &mut Asking::nobody())?,
    };
    let text = written::text(&answers, &page::command_line());
    // What is written can be simulated; otherwise the answers do not go together, and the message says why.
    let design = Design::parse(&text, &args.design.display().to_string(), &[])?;
    if to_stdout {
        return output::print(&text);
    }
    write(&args.design, &text, args.force)?;
    let file = page::quoted(&args.design.display().to_string());
    terminal::remark(&format!(
        "wrote {file}, {} with a volume of {}. Next: peryton sim {file} --trace TRACE{}; peryton keys explains every key",
        answers.mode.name(),
        design.volume,
        match answers.devices.iter().all(|device| device.path.is_some()) {
            true => format!(", or peryton format {file} and peryton serve {file}"),
            false => "; to serve it, give each device a path".to_owned(),
        }
    ));
    Ok(())
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    if force {
        return output::write(path, text.to_owned());
    }
    // Another program may have made the file meanwhile.
    let file = fs::File::options().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::writing(&path.display().to_string(), &error))
}

/// The profiles that are used unless others are named.
const FAST: &str = "wd-black-sn850x-2tb";
const SLOW: &str = "seagate-exos-x20-20tb";
/// The share of the volume that a fast device has.
const FAST_SHARE: u64 = 16;

/// The answers: those of the options, and of the questions that these leave open.
fn gather(args: &Args, asking: &mut Asking<'_>) -> Result<Answers, Failure> {
    use PlacementKind::{Caching, Logging, Partitioned, Single};
    let mode = match args.mode {
        Some(mode) => mode,
        None => asking.answer(
            "How are the devices to be used?\n  caching      the slow device has all data, the fast one copies of what is used most\n  \
             tiering      each extent is on one of them: together they are the volume\n  partitioned  writes go to the device \
             that answers sooner\n  logging      writes are appended to a log before the primary\n  linear       one after \
             the other, without moves\n  single       there is one device only",
            Caching.name(),
            |text| mode(text).ok_or_else(|| "one of these words".to_owned()),
        )?,
    };
    let two = mode != Single;
    let (first, second) = if mode == Logging {
        ("log", "primary")
    } else if two {
        ("fast", "slow")
    } else {
        ("device", "")
    };
    let (default_first, default_second) = if mode == Logging { (SLOW, FAST) } else { (FAST, SLOW) };
    let profile = |asking: &mut Asking<'_>, given: &Option<String>, role: &str, default: &str| match given {
        Some(name) => Ok::<Profile, Failure>(Profile::named(name)?),
        None => asking.answer(
            &format!("Which model is the {role} device? A name of `peryton devices`, or the path of a profile"),
            default,
            |text| Profile::named(text).map_err(|error| error.to_string()),
        ),
    };
    let role = if two { first } else { "only" };
    let fast = profile(asking, &args.fast, role, default_first)?;
    let slow = if two { Some(profile(asking, &args.slow, second, default_second)?) } else { None };
    let together = slow.as_ref().map_or(Bytes::ZERO, |slow| slow.capacity).max(fast.capacity);
    let volume = match args.volume {
        Some(volume) => volume,
        None => asking.answer(
            "How large is the volume to be? As large as the data, or as the span of addresses of the trace (peryton trace info)",
            &readable(Bytes::gib(1024).min(Bytes(together.0 / 2))).to_string(),
            |text| size(text, together),
        )?,
    };
    let fast_size = match (args.fast_size, mode) {
        (Some(size), _) => Some(size),
        (None, Single) => None,
        (None, _) => {
            let default = Bytes((volume.0 / FAST_SHARE).max(Bytes::mib(64).0)).min(fast.capacity);
            let default = readable(default);
            let question =
                format!("How much of the {first} device is to be used? (peryton size says how much is enough)");
            Some(asking.answer(&question, &default.to_string(), |text| size(text, fast.capacity))?)
        }
    };
    let write = match (&args.write, mode) {
        (Some(write), Caching) => Some(write.clone()),
        (Some(_), _) => {
            return Err(Failure::bad_input(format!("--write: has no effect with --mode {}: leave it out", mode.name())));
        }
        (None, Caching) => Some(asking.answer(
            "When are writes answered?\n  back     once the fast device has them: quick, but losing it loses what is not written home\n  \
             through  once both have them: losing the fast device loses nothing\n  around   once the slow device has them; they are \
             not cached",
            "back",
            |text| WRITES.contains(&text).then(|| text.to_owned()).ok_or_else(|| "one of these words".to_owned()),
        )?),
        (None, _) => None,
    };
    let path = |asking: &mut Asking<'_>, given: &Option<String>, role: &str| match given {
        Some(path) => Ok::<_, Failure>(Some(path.clone())),
        None => {
            let question = format!(
                "Block device or image file of the {role} device, such as /dev/sdb (empty: for simulations only)"
            );
            asking.answer(&question, "", |text| Ok((!text.is_empty()).then(|| text.to_owned())))
        }
    };
    let mut devices = vec![Device {
        name: first.to_owned(),
        path: path(asking, &args.fast_path, role)?,
        // A linear volume gets what the first device lacks from the second.
        size: if mode == Partitioned || two { fast_size } else { args.fast_size },
        profile: fast,
    }];
    if let Some(profile) = slow {
        let path = path(asking, &args.slow_path, second)?;
        devices.push(Device { name: second.to_owned(), path, size: None, profile });
    }
    if !two && (args.slow.is_some() || args.slow_path.is_some()) {
        return Err(Failure::bad_input("--slow: a design with --mode single has one device: leave it out"));
    }
    Ok(Answers { mode, devices, volume, write })
}

/// A smaller size that is easier to read.
fn readable(size: Bytes) -> Bytes {
    let unit = [Bytes::gib(1), Bytes::mib(1)].into_iter().find(|unit| size >= *unit).unwrap_or(Bytes(1));
    Bytes(size.0 - size.0 % unit.0)
}

/// A size above 0 and up to another.
fn size(text: &str, most: Bytes) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(Bytes::ZERO) => Err("a size above 0".to_owned()),
        Ok(size) if size > most => Err(format!("at most {most}, which is what the device has")),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn args(text: &str) -> Args {
        Cli::parse_from(["init"].into_iter().chain(text.split_whitespace())).args
    }

    /// The design from these answers, and what was printed meanwhile.
    fn asked(options: &str, answers: &str) -> Result<(Design, String), Failure> {
        let (mut input, mut out) = (answers.as_bytes(), Vec::new());
        let found = gather(&args(options), &mut Asking::of(&mut input, &mut out))?;
        let text = written::text(&found, "peryton init");
        Ok((Design::parse(&text, "design", &[]).unwrap(), String::from_utf8(out).unwrap()))
    }

    #[test]
    fn questions_are_asked_again_until_they_are_answered() {
        let (design, out) =
            asked("", "cash\ncaching\nwd-black\n\n\n64TiB\n2TiB\n\nthrough\nfast.img\nslow.img\n").unwrap();
        assert_eq!((design.volume, design.devices[0].data), (Bytes::gib(2048), Bytes::gib(128)));
        assert!(out.contains("one of these words") && out.contains("did you mean 'wd-black-sn850x-2tb'?"), "{out}");
        assert!(out.contains("at most") && out.matches("How are the devices").count() == 1, "{out}");
        assert_eq!(design.devices[1].path.as_deref(), Some(Path::new("slow.img")));
        assert!(design.toml.contains("write = \"through\""), "{}", design.toml);
    }

    #[test]
    fn what_options_say_is_not_asked() {
        let (design, out) = asked("--mode single --fast intel-320-300gb --volume 64GiB", "\n").unwrap();
        assert_eq!((design.volume, design.devices.len()), (Bytes::gib(64), 1));
        assert!(out.contains("Block device") && !out.contains("How"), "{out}");
    }

    #[test]
    fn every_mode_makes_a_design_without_an_answer() {
        for mode in PlacementKind::ALL {
            let found = gather(&args(&format!("--mode {}", mode.name())), &mut Asking::nobody()).unwrap();
            let text = written::text(&found, "peryton init");
            let design = Design::parse(&text, "design", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(design.placement.kind(), mode);
            assert!(design.volume >= Bytes::gib(900), "{}: {}", mode.name(), design.volume);
            assert!(text.lines().filter(|line| line.contains('#')).count() > 4, "{text}");
        }
    }

    #[test]
    fn an_end_without_an_answer_writes_nothing() {
        let error = asked("", "caching\n").unwrap_err();
        assert!(format!("{error:?}").contains("no answer"), "{error:?}");
    }
}
