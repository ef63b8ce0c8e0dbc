//! Reads that go into the pages of a block device's requests ([`RequestPages`]).

use super::{Ask, Disks, Job, chunk::Chunk};
use crate::{
    arena::Memory,
    request_pages::{Place, RequestPages},
};

impl Disks {
    /// The pages that a command reads into in place of `memory`. A chunk goes on as it began.
    #[inline]
    pub(super) fn place_in_pages(&mut self, slot: u32, ask: Ask, memory: Memory) -> Option<Place> {
        let pages = self.pages.as_ref().filter(|_| ask == Ask::Read)?;
        let job = self.jobs[slot as usize].as_mut().expect("a job that is issued exists");
        let ability = &self.abilities[job.operation.device.index()];
        let begins = job.moved == 0;
        let alignment = if begins { ability.block.max(ability.memory) } else { 1 };
        let place = pages.place(memory, alignment);
        if begins {
            job.into_pages = place.is_some();
        }
        place.filter(|_| job.into_pages)
    }
}

impl Job {
    /// Copies what was read into a slot's memory to its request's pages.
    pub(super) fn store_in(&self, pages: &RequestPages) {
        if let Chunk::Direct { ask: Ask::Read, len, .. } = self.chunk
            && !self.into_pages
        {
            pages.store(self.operation.memory.add(self.done as usize), len as usize);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::{fd::AsRawFd, unix::fs::FileExt};

    use peryton_engine::{DeviceId, IoId};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::{
        arena::Arena,
        backend::{Action, Backend, Operation},
        disks::{Ability, tests::plain},
    };

    const EACH: u64 = 32 << 10;
    const SLOTS: u32 = 4;

    /// The file stands for the kernel: what a request's pages have is at the place where the kernel has it.
    fn position(slot: u64, offset: u64) -> u64 {
        0x8000_0000 + (slot << 25) + offset
    }

    #[test]
    fn every_byte_of_a_read_reaches_the_pages() {
        for (block, registered) in [(512, true), (512, false), (4096, true), (4096, false), (1, true)] {
            let mut random = Pcg64::seed_from_u64(block);
            let disk: Vec<u8> = (0..EACH * 4).map(|_| random.random()).collect();
            let (arena, file) = (Arena::new((EACH * 4) as usize).unwrap(), tempfile::tempfile().unwrap());
            let mut disks = Disks::new(vec![Ability { block, memory: block.min(512), ..plain() }]).unwrap();
            let pages = RequestPages::new(file.as_raw_fd(), arena.at(0), (SLOTS, SLOTS), EACH as usize, 512);
            disks.pages = Some(pages);
            let mut direct = 0;
            for round in 0..300_u32 {
                let slot = u64::from(round % SLOTS);
                disks.pages.as_mut().unwrap().came(slot as u32, registered);
                // Other requests have left something in both.
                file.write_all_at(&[0xaa; EACH as usize], position(slot, 0)).unwrap();
                let memory = arena.at((slot * EACH) as usize);
                // SAFETY: nothing else uses the arena.
                unsafe { memory.slice_mut(EACH as usize) }.fill(0xbb);
                let within = random.random_range(0..8) * 512;
                let at = random.random_range(0..EACH * 2 / 512) * 512;
                let len = random.random_range(1..=(EACH - within) / 512) * 512;
                let memory = memory.add(within as usize).first(len as usize);
                let io = IoId::new(round, 0);
                disks.start(Operation { io, device: DeviceId(0), action: Action::Read, at, len, memory });
                while let Some(raw) = disks.raw.pop() {
                    // Sometimes less is read than asked for.
                    let less = random.random_bool(0.3) && raw.len > block;
                    let moved = if less { raw.len / 2 } else { raw.len };
                    let data = &disk[raw.at as usize..(raw.at + moved) as usize];
                    if let Some(place) = raw.pages {
                        assert!(registered && u64::from(place.buffer) == slot);
                        file.write_all_at(data, position(slot, place.offset)).unwrap();
                        direct += 1;
                    } else {
                        // SAFETY: as above.
                        unsafe { raw.memory.slice_mut(moved as usize) }.copy_from_slice(data);
                    }
                    disks.answered(raw.slot, moved as i32);
                }
                assert_eq!(disks.finished.pop(), Some((io, Ok(()))));
                let mut found = vec![0; EACH as usize];
                file.read_exact_at(&mut found, position(slot, 0)).unwrap();
                let expected = &disk[at as usize..(at + len) as usize];
                assert!(
                    found[within as usize..(within + len) as usize] == *expected,
                    "round {round}, blocks of {block}"
                );
                assert!(
                    found[(within + len) as usize..].iter().all(|byte| *byte == 0xaa),
                    "no more than was asked for"
                );
            }
            assert_eq!(direct > 0, registered && block <= 512, "blocks of {block}");
        }
    }
}
