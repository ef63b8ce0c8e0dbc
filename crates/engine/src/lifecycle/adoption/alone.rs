//! Gives a disk back whose fast device has gone, with what the disk has of the volume.
//!
//! Nothing of the volume has to be written: its slow device has all data in their places but for the first part. Where the home of that is
//! on the disk, it is copied back. The record of how far that is, which the fast device would have, is the block that says whose the
//! disk is: it is the first that is overwritten, and the last that is restored.

use peryton_format::{
    adoption::{Phase, Record},
    block::BLOCK,
    copies,
    displaced::Displaced,
    storage::Storage,
    superblock::Superblock,
    translated::Translated,
};
use peryton_units::Bytes;

use super::{AdoptError, GivenBack, begin_to_restore, copy_back, digest, failed, mark, marker, pair_of, pieces, read};
use crate::{
    api::command::DeviceId,
    api::config::{Config, Hybrid},
    api::error::OpenError,
    lifecycle::any::with_drive,
    lifecycle::inspect::Overlay,
    lifecycle::volume::{Opening, open},
};

/// What is written as a whole or not at all.
const SECTOR: usize = 512;

/// The record in the first block of the disk, if giving it back was begun, or taking it over was not completed. It is durable: a write
/// that failed may have left it in the device's cache alone, so that the device is flushed.
pub(super) fn begun(pair: Hybrid, storage: &mut dyn Storage) -> Result<Option<Record>, AdoptError> {
    let mut block = read(storage, pair.slow, Bytes::ZERO, BLOCK)?;
    let whole = Record::decode(&block);
    // The rest of the block is restored before its first sector is.
    block[SECTOR..].fill(0);
    let record = whole.or_else(|| Record::decode(&block)).filter(|record| record.displaced.device == pair.slow);
    if record.is_some() {
        storage.flush(pair.slow).map_err(failed(pair.slow))?;
    }
    Ok(record)
}

pub(super) fn give_back(
    config: &Config,
    displaced: Option<Displaced>,
    storage: &mut dyn Storage,
    accept_loss: bool,
) -> Result<GivenBack, AdoptError> {
    let pair = pair_of(config)?;
    let begun = begun(pair, storage)?;
    let resumed = begun.is_some();
    let displaced = match (&begun, displaced) {
        (Some(record), _) => record.displaced,
        (None, Some(displaced)) => displaced,
        (None, None) => return Err(OpenError::NotFormatted { device: pair.slow.index() }.into()),
    };
    let lacks_first = displaced.home != pair.slow;
    let first = if lacks_first { displaced.bytes } else { Bytes::ZERO };
    let bytes = if begun.is_some() { first } else { lost(config, displaced, storage, pair.fast)? };
    if bytes > Bytes::ZERO && !accept_loss {
        return Err(AdoptError::Lost { device: pair.fast.index(), bytes, first });
    }
    let record = match begun {
        Some(record) => record,
        None => record_of(displaced, storage, lacks_first)?,
    };
    if lacks_first {
        blank(storage, &record)?
    } else {
        restore(storage, &record)?
    }
    Ok(GivenBack { device: displaced.device, len: displaced.volume, written_back: 0, lost: bytes, resumed })
}

/// Copies the first part back. The sector that says whose the disk is comes last: no other device has a record.
fn restore(storage: &mut dyn Storage, record: &Record) -> Result<(), AdoptError> {
    let Displaced { device, home, at, bytes, .. } = record.displaced;
    begin_to_restore(storage, record)?;
    copy_back(storage, record, BLOCK..bytes.0)?;
    let mut block = read(storage, home, at, BLOCK)?;
    block[..SECTOR].copy_from_slice(&marker(record)[..SECTOR]);
    storage.write(device, Bytes::ZERO, &block).map_err(failed(device))?;
    storage.flush(device).map_err(failed(device))?;
    copy_back(storage, record, 0..BLOCK)
}

/// How much of the data only the fast device had.
fn lost(config: &Config, displaced: Displaced, storage: &mut dyn Storage, fast: DeviceId) -> Result<Bytes, AdoptError> {
    let mut seen = Translated::new(storage, displaced);
    let (drive, _) = open(config.clone(), &mut Overlay::new(&mut seen), Opening::without(&[fast]))?;
    Ok(with_drive!(&drive, drive => drive.losses(0).bytes))
}

fn record_of(displaced: Displaced, storage: &mut dyn Storage, lacks_first: bool) -> Result<Record, AdoptError> {
    let disk = displaced.device;
    let of_disk = copies::read(&mut Translated::new(storage, displaced), disk, displaced.used, |_| None);
    let Superblock { volume, formatted_unix_s, geometry, .. } =
        of_disk.map_err(|_| AdoptError::Device { device: disk.index() })?.superblock;
    let digest = if lacks_first { 0 } else { digest(storage, &displaced)? };
    let (phase, began_unix_s, devices) = (Phase::Copied, formatted_unix_s, geometry.devices);
    Ok(Record { volume, sequence: 0, phase, began_unix_s, digest, devices, displaced })
}

/// Writes zeros where the metadata were, the first block last: what was there has gone.
fn blank(storage: &mut dyn Storage, record: &Record) -> Result<(), AdoptError> {
    mark(storage, record)?;
    let Displaced { device, bytes, .. } = record.displaced;
    for range in [BLOCK..bytes.0, 0..BLOCK] {
        for (at, len) in pieces(range) {
            storage.write(device, Bytes(at), &vec![0; len as usize]).map_err(failed(device))?;
        }
        storage.flush(device).map_err(failed(device))?;
    }
    Ok(())
}
