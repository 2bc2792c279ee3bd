//! How the functions are defined.

/// Defines functions under the names of the C library. Each says what it does with which name, by an expression of its
/// arguments that is a [`Use`](super::uses::Use), and calls the function behind it. `or` is the system call that does the same,
/// for times when that cannot be called; `or nothing` if there is none.
macro_rules! hooks {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $use:expr, or nothing;)*) => {
        $($crate::hooks::hooks!(@ $name ($($argument: $type),*) $result, $use, get,
            $crate::next::fail(libc::ENOSYS));)*
    };
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $use:expr, or $call:expr;)*) => {
        $($crate::hooks::hooks!(@ $name ($($argument: $type),*) $result, $use, get_late, $call);)*
    };
    (@ $name:ident ($($argument:ident: $type:ty),*) $result:ty, $use:expr, $get:ident, $otherwise:expr) => {
        #[unsafe(export_name = stringify!($name))]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static NEXT: $crate::next::Next = $crate::next::Next::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let call = || {
                $(let $argument = $crate::instead::Argument::now($argument);)*
                match NEXT.$get() {
                    Some(next) => {
                        // SAFETY: the C library has the function under this name, with these arguments; they are the program's own,
                        // or a path that lives as long as the call.
                        unsafe {
                            std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(next)(
                                $($argument),*
                            )
                        }
                    }
                    None => $otherwise,
                }
            };
            $crate::asked::asked(|| $use, call)
        }
    };
}
pub(crate) use hooks;

/// A system call with these arguments, which are the program's own. Its result is that of the function of the C library.
macro_rules! system {
    ($number:ident $(, $argument:expr)*) => {{
        // SAFETY: the system checks what it is given.
        let result = unsafe { libc::syscall(libc::$number $(, $argument)*) };
        #[allow(clippy::cast_possible_truncation, reason = "what the function returns has as many bits")]
        let result = result as _;
        result
    }};
}
pub(crate) use system;
