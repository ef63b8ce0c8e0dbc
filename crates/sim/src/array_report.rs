//! The report of a device that is an array with redundancy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Design,
    design::NamedDevice,
    redundancy::{ArrayWrites, Redundancy},
};

/// An array with redundancy, and the commands that its writes cost in the measured span.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ArrayReport {
    /// The kind of redundancy.
    pub scheme: Redundancy,
    /// Number of devices.
    pub devices: u32,
    /// Number of devices whose capacity is left for data.
    pub data_devices: u32,
    /// Number of devices that may fail, in any combination, before data are lost.
    pub survives_failures: u32,
    /// Commands to devices for a write within one stripe, by the arithmetic of the scheme.
    pub small_write_commands: u32,
    /// Writes to the array.
    pub writes: u64,
    /// Writes to the array that had to read old data, or the rest of a row, first.
    pub writes_after_reads: u64,
    /// Commands to devices for these reads before writes.
    pub parity_reads: u64,
    /// Write commands to devices.
    pub device_writes: u64,
    /// Reads and writes of devices per write to the array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands_per_write: Option<f64>,
}

pub(crate) fn of(design: &Design, arrays: &[Option<ArrayWrites>]) -> BTreeMap<String, ArrayReport> {
    let all = design.leaves().into_iter().zip(arrays);
    all.filter_map(|(NamedDevice { name, device, .. }, writes)| {
        let writes = writes.as_ref()?;
        let commands = writes.parity_reads + writes.member_writes;
        let report = ArrayReport {
            scheme: device.redundancy,
            devices: device.count,
            data_devices: device.data_devices(),
            survives_failures: device.redundancy.survives(),
            small_write_commands: device.redundancy.commands_of_a_small_write(),
            writes: writes.writes,
            writes_after_reads: writes.after_reads,
            parity_reads: writes.parity_reads,
            device_writes: writes.member_writes,
            commands_per_write: (writes.writes > 0).then(|| commands as f64 / writes.writes as f64),
        };
        Some((name, report))
    })
    .collect()
}
