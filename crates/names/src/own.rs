//! What Knarr itself does in a program.

use std::cell::Cell;

thread_local! {
    /// How often `own` was called and has not returned.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Does something of Knarr's own: no name that it uses is waited for. A call that is made by what waits, or that the
/// launcher needs, must not wait itself.
pub fn own<T>(work: impl FnOnce() -> T) -> T {
    /// Leaves also when the work panics.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
        }
    }
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _leave = Leave;
    work()
}

/// True while this thread does something of Knarr's own.
pub fn is_own() -> bool {
    DEPTH.with(Cell::get) > 0
}

thread_local! {
    /// True while the program's library opens a file.
    static OPENS: Cell<bool> = const { Cell::new(false) };
}

/// Has the program's library open a file that Knarr has looked for before: no session is to become a file by that.
pub fn opened_by_library<T>(open: impl FnOnce() -> T) -> T {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            OPENS.set(self.0);
        }
    }
    let _leave = Leave(OPENS.replace(true));
    open()
}

/// True while a library opens a file in this thread.
pub fn is_opened_by_library() -> bool {
    OPENS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_busy_with_its_own_until_the_outermost_work_is_done() {
        assert!(!is_own());
        own(|| {
            assert!(own(is_own));
            assert!(is_own(), "the outer work goes on");
            assert!(!std::thread::scope(|scope| scope.spawn(is_own).join()).unwrap(), "another thread");
        });
        assert!(!is_own());
        let panicked = std::panic::catch_unwind(|| own(|| std::panic::resume_unwind(Box::new(()))));
        assert!(panicked.is_err() && !is_own());
        assert!(!is_opened_by_library());
        assert!(opened_by_library(|| opened_by_library(is_opened_by_library) && is_opened_by_library()));
        assert!(!is_opened_by_library());
    }
}
