use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder of another library, which may panic on hostile bytes, and turns a panic into an error without
/// printing a backtrace.
///
/// After an error, values that `decode` borrowed must not be used again, because they may be half changed.
pub(super) fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                previous(info);
            }
        }));
    });
    GUARDED.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
        format!("the file is damaged ({})", text.unwrap_or("it cannot be decoded"))
    })
}
