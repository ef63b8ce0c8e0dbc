//! Memory that outlives a process, in which it keeps its records, as a server does in a mapped file.

use peryton_engine::{
    Engine, VolumeId,
    handoff::{Found, Record, Writer},
};

/// Records of a drive, as they lie in shared memory.
#[derive(Clone, Debug)]
pub struct Memory {
    words: Vec<u64>,
    writer: Writer,
}

impl Memory {
    /// Makes the memory of a drive that was just opened; `None` if its placement has no records.
    pub fn of(engine: &mut Engine) -> Option<Memory> {
        let label = engine.label_of_records()?;
        engine.keep_records();
        let mut block = [0; 4096];
        label.encode(&mut block);
        let mut words = vec![0; label.contents.words() as usize];
        words.iter_mut().zip(block.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        Some(Memory { words, writer: Writer::new(&label) })
    }

    /// Stores a record.
    pub fn store(&mut self, record: Record) {
        self.writer.store(record, &mut self.words);
    }

    /// The records as the next process finds them.
    ///
    /// # Panics
    /// If that is not what this engine wrote.
    pub fn found(&self, volume: VolumeId) -> Option<Found> {
        Some(Found::decode(&self.words, volume).expect("the records are those of this volume, and whole"))
    }
}
