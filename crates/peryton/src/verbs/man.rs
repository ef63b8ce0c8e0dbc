//! `peryton man`: writes manual pages, one file for each verb.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use clap_mangen::Man;

use crate::{exit_code, failure::Failure, output};

/// Options of `peryton man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton man | man -l -                      # the page of peryton itself
  peryton man --out /usr/local/share/man/man1 # all of them: peryton.1, peryton-sim.1, …")]
pub struct Args {
    /// Write a page for each verb into this folder
    ///
    /// Write a page for each verb into this folder; it is created if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints the page of `command`, the whole program, or writes those of all its verbs.
pub fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    command.build();
    let Some(folder) = &args.out else {
        let mut page = Vec::new();
        render(&command, &mut page).map_err(|error| Failure::failed(format!("the manual page: {error}")))?;
        return output::print(&String::from_utf8_lossy(&page));
    };
    let failed = |path: &PathBuf, error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut pages = Vec::new();
    collect(command, &mut pages);
    for page in pages {
        // The display name, such as peryton-trace-info; `build` has made it from the names of the verbs.
        let path = folder.join(format!("{}.1", page.get_display_name().unwrap_or(page.get_name())));
        let mut text = Vec::new();
        render(&page, &mut text).and_then(|()| fs::write(&path, &text)).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn collect(command: clap::Command, pages: &mut Vec<clap::Command>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        collect(below.clone(), pages);
    }
    pages.push(command);
}

fn render(command: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    // The page has no build date, so that the same source always gives the same page.
    Man::new(command.clone()).manual("Peryton").render(page)?;
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, name, says) in exit_code::TABLE {
        writeln!(page, ".TP\n\\fB{code}\\fR\n{name}: {says}.")?;
    }
    writeln!(page, ".PP\n{}", exit_code::SUMS)
}
