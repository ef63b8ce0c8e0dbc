//! Hints to the processor about data that will be read soon. The map of a large volume does not fit the processor's
//! caches, and a driver with waiting requests knows which entries they need: a hint some requests ahead hides most of
//! the delay.

/// Fetches the item's cache line, on processors with an instruction for it.
#[inline(always)]
pub fn prefetch<T>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing, changes nothing and cannot fault, and the pointer comes from a reference.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
