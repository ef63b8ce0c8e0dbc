use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use peryton_units::Bytes;

use super::layer::Layer;

/// Images of preconditioned flash, kept for the next equal device, because preconditioning a drive can take longer than
/// its simulation. A device built from an image is the same as one that is preconditioned again.
#[derive(Debug)]
pub struct Images {
    most: Bytes,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_device: BTreeMap<String, Image>,
    bytes: u64,
    /// The number of uses so far, by which the least recently used image is found.
    clock: u64,
}

#[derive(Debug)]
struct Image {
    layer: Arc<OnceLock<Layer>>,
    bytes: u64,
    used: u64,
}

/// The most memory for the images that designs share.
const MOST_SHARED: Bytes = Bytes::gib(2);

impl Images {
    /// Images for designs that are simulated beside each other: they often have the same flash.
    pub fn shared() -> Arc<Images> {
        Arc::new(Images::new(MOST_SHARED))
    }

    /// Keeps at most this many bytes; the least recently used images are removed first.
    pub fn new(most: Bytes) -> Images {
        Images { most, kept: Mutex::default() }
    }

    /// The number of images.
    pub fn count(&self) -> usize {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).by_device.len()
    }

    /// The image of a device, of about `bytes`. If another thread is making it, this one waits for it.
    pub(super) fn take(&self, device: String, bytes: u64, make: impl FnOnce() -> Layer) -> Layer {
        if bytes > self.most.0 {
            return make();
        }
        let layer = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.take(device, bytes, self.most.0)
        };
        layer.get_or_init(make).clone()
    }
}

impl Kept {
    fn take(&mut self, device: String, bytes: u64, most: u64) -> Arc<OnceLock<Layer>> {
        self.clock += 1;
        let used = self.clock;
        if let Some(image) = self.by_device.get_mut(&device) {
            image.used = used;
            return Arc::clone(&image.layer);
        }
        while self.bytes + bytes > most
            && let Some((oldest, _)) = self.by_device.iter().min_by_key(|(_, image)| image.used)
        {
            let oldest = oldest.clone();
            let gone = self.by_device.remove(&oldest);
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
        let layer = Arc::new(OnceLock::new());
        self.bytes += bytes;
        self.by_device.insert(device, Image { layer: Arc::clone(&layer), bytes, used });
        layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_kept_than_allowed_and_what_is_used_stays() {
        let mut kept = Kept::default();
        for (device, bytes) in [("a", 40), ("b", 40), ("a", 40), ("c", 40), ("d", 10)] {
            kept.take(device.to_owned(), bytes, 100);
            assert!(kept.bytes <= 100);
            assert_eq!(kept.bytes, kept.by_device.values().map(|image| image.bytes).sum::<u64>());
        }
        assert_eq!(kept.by_device.keys().collect::<Vec<_>>(), ["a", "c", "d"]);
    }
}
