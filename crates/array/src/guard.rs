//! The guard of every C interface: no panic leaves it, and nothing is printed.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::error::{Error, Result};

thread_local! {
    /// Guards that the thread is in.
    static GUARDS: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work`. A panic, which is a defect, becomes an error and is not printed: a library does not write to its
/// caller's terminal.
///
/// # Errors
/// What `work` returns; `Internal` if it panics.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    silence_guarded_panics();
    GUARDS.with(|guards| guards.set(guards.get() + 1));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDS.with(|guards| guards.set(guards.get() - 1));
    outcome.unwrap_or_else(|panic| Err(defect(panic.as_ref())))
}

/// Panics outside a guard, of a program that Knarr is linked into, are reported as before.
fn silence_guarded_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The thread's own values may be gone where it ends.
            if GUARDS.try_with(Cell::get).is_ok_and(|guards| guards == 0) {
                report(panic);
            }
        }));
    });
}

fn defect(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("a defect of Knarr: {}", text.unwrap_or("unknown"))).hint("please report this")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_panic_becomes_an_error_and_the_guard_can_be_nested() {
        let error = guarded(|| -> Result<()> {
            let inner = guarded(|| -> Result<()> { panic!("inner {}", 1) }).unwrap_err();
            assert!(inner.to_string().contains("inner 1"));
            panic!("outer")
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert!(error.to_string().contains("outer"));
        assert_eq!(GUARDS.with(Cell::get), 0);
    }
}
