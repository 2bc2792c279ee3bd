//! Another path in place of one of a call, for a file that is read or written in a tier. The call is made with the program's own
//! arguments, but for this one.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};

thread_local! {
    /// The path of the call that this thread makes, and the one that it gets.
    static INSTEAD: Cell<Option<(*const c_char, *const c_char)>> = const { Cell::new(None) };
}

/// Calls with `path` wherever the call has `of`.
pub(crate) fn with<A>(of: *const c_char, path: *const c_char, call: &dyn Fn() -> A) -> A {
    let before = INSTEAD.replace(Some((of, path)));
    let answer = call();
    INSTEAD.set(before);
    answer
}

/// An argument of a function of the C library.
pub(crate) trait Argument: Sized {
    /// What the call gets.
    fn now(self) -> Self {
        self
    }
}

impl Argument for *const c_char {
    fn now(self) -> Self {
        match INSTEAD.get() {
            Some((of, path)) if of == self => path,
            _ => self,
        }
    }
}

impl Argument for c_int {}
impl Argument for c_uint {}
impl Argument for u64 {}
impl Argument for i64 {}
impl Argument for usize {}
impl Argument for *const *const c_char {}
impl Argument for *mut c_char {}
impl Argument for *mut c_void {}
impl Argument for *const c_void {}
