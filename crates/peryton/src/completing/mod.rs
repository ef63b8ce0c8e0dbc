//! Completions for shells: the shell asks this program what may come next. So keys of designs, their values and the devices of
//! the design on the command line are completed as well.

mod bash;
mod keys;

use std::{ffi::OsString, io};

use clap::Command;
use clap_complete::{
    CompleteEnv, Shell,
    env::{Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh},
};

use crate::failure::Failure;
use bash::Bash;
pub use keys::{key_value, key_values, live_key, live_key_value, prefix};

/// The variable with which the script of a shell asks; its value names the shell.
const VARIABLE: &str = "PERYTON_COMPLETE";

const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell, if it is one that asks.
pub fn answered(command: fn() -> Command) -> Result<bool, Failure> {
    let folder = std::env::current_dir().ok();
    let environment = CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS);
    let args: Vec<OsString> = std::env::args_os().collect();
    environment.try_complete(args, folder.as_deref()).map_err(|error| Failure::failed(error.to_string().trim()))
}

/// The script that makes a shell ask.
pub fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let completer: &dyn EnvCompleter = match shell {
        Shell::Bash => &Bash,
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        other => return Err(io::Error::other(format!("there are no completions for {other}"))),
    };
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "peryton", "peryton", "peryton", &mut script)?;
    Ok(script)
}
