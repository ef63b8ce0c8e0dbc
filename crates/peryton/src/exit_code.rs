//! What the exit codes say: one table, for the program, its help and its manual page.

/// The verb did what it was asked to, and nothing is to be said of the volume.
pub const DONE: u8 = 0;
/// The machine or Peryton failed.
pub const FAILED: u8 = 1;
/// The command line, a design, a trace or a profile is wrong, or the volume cannot do what was asked.
pub const BAD_INPUT: u8 = 2;
/// The verb needs a server, and the volume has none.
pub const NOT_SERVED: u8 = 3;
/// Of a volume that is not being served: it was not closed in good order. The codes from here on are added up.
pub const NOT_CLOSED: u8 = 4;
/// The slow device does not have the newest data of all of it.
pub const DIRTY: u8 = 8;
/// Copies of its metadata are damaged.
pub const DAMAGED: u8 = 16;
/// Data are lost.
pub const LOST: u8 = 32;

/// Each code, its name, and what it says.
pub const TABLE: [(u8, &str, &str); 8] = [
    (DONE, "done", "the verb did what it was asked to"),
    (FAILED, "failed", "the machine, a device or Peryton failed; the line on standard error says how"),
    (
        BAD_INPUT,
        "bad input",
        "the command line, a design, a trace or a profile is wrong, or the volume cannot do what was asked",
    ),
    (NOT_SERVED, "not served", "the verb asks a server, and the volume has none (peryton serve)"),
    (NOT_CLOSED, "not closed", "the volume was not closed in good order: opening it, or repair, replays its journal"),
    (
        DIRTY,
        "dirty",
        "only the fast device, or the log, has the newest data of a part of the volume (peryton writeback)",
    ),
    (DAMAGED, "damaged", "copies of the volume's metadata are damaged (peryton repair), or it cannot be opened"),
    (LOST, "lost", "data of the volume are lost until they are overwritten or discarded"),
];

/// Which codes are added up, and of what.
pub const SUMS: &str = "The codes from 4 on describe the volume after check, repair, export and status, and are added up. A volume that is \
being served is not closed, and may be dirty, so status reports only 32.";

/// The table as text.
pub fn text() -> String {
    let lines = TABLE.iter().map(|(code, name, says)| format!("  {code:>3}  {name:<12} {says}\n"));
    format!("Exit codes of every verb:\n{}{SUMS}\n", lines.collect::<String>())
}
