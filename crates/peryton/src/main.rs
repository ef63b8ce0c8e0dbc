//! The command line: plan, simulate and run a hybrid drive.
//!
//! `verbs/` has a file for each verb, and `cli` calls them. `naming` finds a volume by its name or design, and its server's sockets;
//! `condition` and `exit_code` say in which state it is. `volume` and `new_design` read and write designs for volumes. `page/` makes
//! pages, `top/` the live screen, `twin/` compares a recording with its replay, `calibrating/` measures devices. `output` and `table` are
//! where text and results go, `failure` is how an error is told, and `completing/` answers shells.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod at_risk;
mod calibrating;
mod cleaning;
mod cli;
mod comma_separated;
mod completing;
mod condition;
mod design_edit;
mod design_path;
mod drive_health;
mod endurance;
mod exit_code;
mod failure;
mod figure_arg;
mod in_service;
mod lifetime_told;
mod measured_args;
mod naming;
mod new_design;
mod output;
mod page;
mod replay_args;
mod sensitivity;
mod table;
mod terminal;
mod top;
mod trace_args;
mod twin;
mod verbs;
mod volume;

use std::process::ExitCode;

use failure::Failure;

/// The maps of extents and flash pages are large tables with random reads; on huge pages a look-up takes about half the
/// time.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The options that jemalloc reads when it starts.
#[cfg(feature = "jemalloc")]
#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: Option<&'static [u8; 11]> = Some(b"thp:always\0");

fn main() -> ExitCode {
    peryton_sim::built_as(peryton_sim::Build { version: peryton_version::VERSION, sources: peryton_version::SOURCES });
    match completing::answered(cli::command) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(failure) => return failure.report(),
    }
    cli::parse().and_then(cli::run).map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}
