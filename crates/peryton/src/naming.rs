//! How the command line names a volume: by its name, or by the path of its design. The sockets of its server follow from that.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, fs,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use peryton_drive::control::{self, Ask, ControlError};
use peryton_sim::DesignText;
use serde_json::Value;

use crate::failure::Failure;

/// The value of an option that names a volume, in help.
pub const VOLUME: &str = "NAME|DESIGN.toml";
/// The longest name of a volume: it is part of the paths of sockets, which are short.
const LONGEST_NAME: usize = 48;
const EXTENSION: &str = "toml";

/// Where volumes with a name have their designs, and where their servers have their sockets.
#[derive(Debug)]
struct Place {
    designs: PathBuf,
    sockets: Option<PathBuf>,
}

/// The machine's place, and that of the user.
fn places() -> Vec<Place> {
    let machine = Place { designs: "/etc/peryton".into(), sockets: Some("/run/peryton".into()) };
    std::iter::once(machine).chain(own_place()).collect()
}

fn own_place() -> Option<Place> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    let user = || Some(PathBuf::from(format!("/run/user/{}", user()))).filter(|path| path.is_dir());
    let sockets = folder("XDG_RUNTIME_DIR").or_else(user).map(|run| run.join("peryton"));
    Some(Place { designs: config.join("peryton"), sockets })
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Whether a word is a path, and not the name of a volume.
pub fn is_path(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.contains(&b'/') || Path::new(word).extension().is_some_and(|extension| extension == EXTENSION)
}

fn file_of(name: &OsStr) -> OsString {
    let mut file = name.to_owned();
    file.push(".");
    file.push(EXTENSION);
    file
}

/// A volume, as it was named on the command line.
#[derive(Clone, Debug)]
pub struct Named {
    given: OsString,
    design: PathBuf,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given.to_string_lossy().fmt(f)
    }
}

impl Named {
    /// The path of its design.
    pub fn design(&self) -> &Path {
        &self.design
    }

    /// A volume that is there.
    ///
    /// # Errors
    /// One line: there is none of this name, or several.
    pub fn find(word: &OsStr) -> Result<Named, String> {
        // "." and ".." are folders, and no names.
        let is_folder = word == "." || word == "..";
        let design = if is_path(word) || is_folder { PathBuf::from(word) } else { by_name(word)? };
        if fs::metadata(&design).is_ok_and(|about| about.file_type().is_socket()) {
            return Err("is a socket: give the volume's name, or the path of its design".to_owned());
        }
        Ok(Named { given: word.to_owned(), design })
    }

    /// A volume that may be there or is to be made.
    ///
    /// # Errors
    /// One line: the name cannot be one, or there are several volumes of it.
    pub fn find_or_new(word: &OsStr) -> Result<Named, String> {
        // "-" is standard output.
        if is_path(word) || word == "-" {
            return Ok(Named { given: word.to_owned(), design: word.into() });
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = word.to_str().filter(|name| name.chars().all(is_plain) && !name.starts_with(['.', '-']));
        if name.is_none_or(|name| name.is_empty() || name.len() > LONGEST_NAME) {
            return Err(format!(
                "is no name for a volume: at most {LONGEST_NAME} letters, digits, '.', '_' and '-'; or give the path of a design"
            ));
        }
        let there = designs_of(word);
        let design = match &there[..] {
            [] => new_place()?.join(file_of(word)),
            [one] => one.clone(),
            several => return Err(is_ambiguous(several)),
        };
        Ok(Named { given: word.to_owned(), design })
    }

    /// Whether this is the design of a volume, and no other file.
    pub fn is_design(&self) -> bool {
        self.design.extension().is_some_and(|extension| extension == EXTENSION)
    }

    /// The sockets of its server.
    pub fn sockets(&self) -> Sockets {
        Sockets::of(&self.design)
    }
}

/// Where the designs of new volumes are.
fn new_place() -> Result<PathBuf, String> {
    match user() {
        0 => Ok("/etc/peryton".into()),
        _ => own_place().map(|own| own.designs).ok_or_else(|| "HOME is not set: give the path of a design".to_owned()),
    }
}

/// The designs of this name.
fn designs_of(name: &OsStr) -> Vec<PathBuf> {
    let designs = places().into_iter().map(|place| place.designs.join(file_of(name)));
    designs.filter(|design| design.exists()).collect()
}

fn is_ambiguous(several: &[PathBuf]) -> String {
    let paths: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
    format!("may be {}: give the path", paths.join(" or "))
}

fn by_name(name: &OsStr) -> Result<PathBuf, String> {
    let mut found = designs_of(name);
    found.extend(Some(Path::new(".").join(name)).filter(|path| path.is_file()));
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(is_absent(name)),
        several => Err(is_ambiguous(several)),
    }
}

fn is_absent(name: &OsStr) -> String {
    let file = file_of(name);
    let folders: Vec<String> = places().iter().map(|place| place.designs.display().to_string()).collect();
    let here = Path::new(&file).is_file().then(|| format!("{} is here: ", Path::new(&file).display()));
    let names = volumes();
    let known = names.iter().map(|volume| volume.name.as_str());
    let near = peryton_device::nearest(&name.to_string_lossy(), known).map(|near| format!("did you mean '{near}'? "));
    format!(
        "there is no such volume in {}: {}give the path of its design",
        folders.join(" or "),
        near.or(here).unwrap_or_default()
    )
}

/// A volume that has a name on this machine.
#[derive(Debug)]
pub struct Listed {
    pub name: String,
    pub design: PathBuf,
}

/// The volumes with designs in the usual places, by name.
pub fn volumes() -> Vec<Listed> {
    let entries = places().into_iter().filter_map(|place| fs::read_dir(place.designs).ok()).flatten().flatten();
    let listed = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|of| of == EXTENSION));
    let listed = listed.filter(|path| path.is_file());
    let named = listed
        .map(|design| Listed { name: design.file_stem().unwrap_or_default().to_string_lossy().into_owned(), design });
    let mut all: Vec<Listed> = named.collect();
    all.sort_by(|a, b| (&a.name, &a.design).cmp(&(&b.name, &b.design)));
    all
}

/// Offers the names of volumes, and designs.
pub fn completer() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let designs = PathCompleter::file().filter(|path| path.extension().is_some_and(|of| of == EXTENSION));
        let begun = word.to_string_lossy();
        let names = volumes().into_iter().filter(|volume| volume.name.starts_with(&*begun));
        let mut all: Vec<CompletionCandidate> = names.map(|volume| CompletionCandidate::new(volume.name)).collect();
        all.extend(designs.complete(word));
        all
    })
}

/// Reads the name of a volume that is there.
pub fn volume() -> impl TypedValueParser<Value = Named> {
    OsStringValueParser::new().try_map(|word| Named::find(&word))
}

/// Reads the path of a recording, or the name of a volume that is there.
pub fn volume_or_recording() -> impl TypedValueParser<Value = Named> {
    OsStringValueParser::new().try_map(|word| match is_path(&word) || Path::new(&word).extension().is_none() {
        true => Named::find(&word),
        false => Ok(Named { design: PathBuf::from(&word), given: word }),
    })
}

/// Reads the name of a volume that is there, and gives the path of its design.
pub fn design() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|word| Named::find(&word).map(|named| named.design))
}

/// Reads the name of a volume that is to be made.
pub fn new_volume() -> impl TypedValueParser<Value = Named> {
    OsStringValueParser::new().try_map(|word| Named::find_or_new(&word))
}

/// Makes the folder for the design of a new volume, if it is one of the usual places.
pub fn make_folder(design: &Path) -> Result<(), Failure> {
    let Some(folder) = design.parent() else { return Ok(()) };
    if !places().iter().any(|place| place.designs == folder) {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(|error| Failure::writing(&folder.display().to_string(), &error))
}

/// The sockets of the server of a volume.
#[derive(Debug)]
pub struct Sockets {
    pub control: PathBuf,
    pub nbd: PathBuf,
    /// The folder that is theirs alone, if they have one.
    folder: Option<PathBuf>,
}

impl Sockets {
    /// In a folder of the volume's name where the design is in one of the usual places; otherwise beside the design.
    pub fn of(design: &Path) -> Sockets {
        let beside =
            || Sockets { control: design.with_extension("control"), nbd: design.with_extension("nbd"), folder: None };
        let parent = design.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(parent) = fs::canonicalize(parent) else { return beside() };
        let is_its = |place: &Place| fs::canonicalize(&place.designs).is_ok_and(|designs| designs == parent);
        let sockets = places().into_iter().find(is_its).and_then(|place| place.sockets);
        let Some((sockets, name)) = sockets.zip(design.file_stem()) else { return beside() };
        let folder = sockets.join(name);
        Sockets { control: folder.join("control"), nbd: folder.join("nbd"), folder: Some(folder) }
    }

    /// Makes their folder, for a server that is to listen on them.
    pub fn make_folder(&self) -> Result<(), Failure> {
        let Some(folder) = &self.folder else { return Ok(()) };
        fs::create_dir_all(folder).map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))
    }
}

/// The options that name a volume that is being served.
#[derive(Clone, Debug, clap::Args)]
pub struct Served {
    /// The volume: its name, or the path of its design
    #[arg(value_name = VOLUME, value_parser = volume(), add = completer())]
    volume: Named,
    /// The server's control socket, if it is not at its usual place
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.volume.fmt(f)
    }
}

impl Served {
    pub fn new(volume: Named, control: Option<PathBuf>) -> Served {
        Served { volume, control }
    }

    /// The volume, as it was named.
    pub fn named(&self) -> &Named {
        &self.volume
    }

    /// The path of its design.
    pub fn design(&self) -> &Path {
        self.volume.design()
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.control.clone().unwrap_or_else(|| self.volume.sockets().control)
    }

    /// Asks its server, and passes on each line of the answer until `line` returns `false`.
    pub fn ask(&self, ask: &Ask, line: impl FnMut(Value) -> bool) -> Result<(), Failure> {
        let socket = self.socket();
        control::ask(&socket, ask, line).map_err(|error| self.refused(&socket, error))
    }

    /// The value with this key of its server's answer.
    pub fn value(&self, ask: &Ask, key: &str) -> Result<Value, Failure> {
        let mut value = Value::Null;
        self.ask(ask, |mut answer| {
            value = answer[key].take();
            true
        })?;
        Ok(value)
    }

    /// Whether a server answers.
    pub fn is_served(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    fn refused(&self, socket: &Path, error: ControlError) -> Failure {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        let ControlError::Connect { source, .. } = &error else { return error.into() };
        if !matches!(source.kind(), ConnectionRefused | NotFound) {
            return Failure::bad_input(format!("{}: {source}", socket.display()));
        }
        if self.control.is_none()
            && let Err(error) = DesignText::read(self.design())
        {
            return error.into();
        }
        Failure::not_served(format!(
            "'{self}' is not being served, or its server has another control socket than {} (--control): peryton serve {self}",
            socket.display()
        ))
    }
}
