//! The names that programs find here instead of in PnetCDF. Each calls PnetCDF itself unless the file is captured.
//!
//! `tests/e2e/test_pnetcdf.py` compares the names with those of the installed library.

mod at_end;
mod blocking;
mod buffers;
mod dtf;
mod files;
mod inquiries;
mod many;
mod nonblocking;
mod session;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("knarr-pnetcdf has trampolines for x86-64 and 64-bit ARM only: write them in calls/mod.rs");

/// Exports a function under `$name`: a trampoline that notes the address it returns to, and goes on to the function with
/// all arguments as they were. None of them is a floating-point number. `$real` calls the one of PnetCDF with the same
/// arguments.
macro_rules! export {
    ($name:expr, ($($argument:ident: $type:ty),* $(,)?), $real:ident => $body:expr) => {
        const _: () = {
            #[unsafe(export_name = $name)]
            #[unsafe(naked)]
            extern "C" fn exported() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!(
                    "lea r11, [rip + {called}]",
                    "jmp {enter}",
                    called = sym called,
                    enter = sym $crate::calls::enter,
                );
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!(
                    "adrp x16, {called}",
                    "add x16, x16, :lo12:{called}",
                    "b {enter}",
                    called = sym called,
                    enter = sym $crate::calls::enter,
                );
            }
            unsafe extern "C" fn called($($argument: $type),*) -> std::ffi::c_int {
                let $real = || {
                    // SAFETY: the program's own arguments.
                    unsafe { $crate::real::real!(@ concat!($name, "\0"), ($($type),*))($($argument),*) }
                };
                $crate::calls::guarded(|| $body)
            }
        };
    };
}
pub(crate) use export;

/// Notes the address that the call returns to, and goes on to the function at the address in `r11` or `x16`.
#[unsafe(naked)]
pub(crate) extern "C" fn enter() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        // Debuggers, and threads that are cancelled, walk the stack by these directives.
        ".cfi_startproc",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push r11",
        ".cfi_adjust_cfa_offset 56",
        "mov rdi, qword ptr [rsp + 56]",
        "call {note}",
        "pop r11",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        ".cfi_adjust_cfa_offset -56",
        "jmp r11",
        ".cfi_endproc",
        note = sym crate::real::note_caller,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "stp x0, x1, [sp, #-80]!",
        ".cfi_adjust_cfa_offset 80",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "stp x16, x30, [sp, #64]",
        "mov x0, x30",
        "bl {note}",
        "ldp x16, x30, [sp, #64]",
        "ldp x6, x7, [sp, #48]",
        "ldp x4, x5, [sp, #32]",
        "ldp x2, x3, [sp, #16]",
        "ldp x0, x1, [sp], #80",
        ".cfi_adjust_cfa_offset -80",
        "br x16",
        ".cfi_endproc",
        note = sym crate::real::note_caller,
    );
}

/// Runs a call. No panic reaches the program: that is an error of the file.
pub(crate) fn guarded(call: impl FnOnce() -> std::ffi::c_int) -> std::ffi::c_int {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(crate::codes::EFILE)
}

/// Calls `$mac!` for the functions of each type of memory: the last part of their names, and the type. PnetCDF has them for
/// twelve types of C.
macro_rules! each_type {
    ($mac:ident) => {
        $mac!("_text", Text);
        $mac!("_schar", I8);
        $mac!("_uchar", U8);
        $mac!("_short", I16);
        $mac!("_ushort", U16);
        $mac!("_int", I32);
        $mac!("_uint", U32);
        // On all systems that Knarr runs on.
        $mac!("_long", I64);
        $mac!("_float", F32);
        $mac!("_double", F64);
        $mac!("_longlong", I64);
        $mac!("_ulonglong", U64);
    };
}
pub(crate) use each_type;

/// The arguments that say which elements are meant, and what they are as a [`Shape`](crate::values::access::Shape): calls
/// `$mac!` with the name of each family, the arguments, the shape, and whatever else it was given.
macro_rules! each_shape {
    ($mac:ident $(, $more:tt)*) => {
        $mac!("var", (), Shape::Whole $(, $more)*);
        $mac!("var1", (start: *const Offset), Shape::One(start) $(, $more)*);
        $mac!("vara", (start: *const Offset, count: *const Offset),
            Shape::Part { start, count, stride: std::ptr::null(), imap: std::ptr::null() } $(, $more)*);
        $mac!("vars", (start: *const Offset, count: *const Offset, stride: *const Offset),
            Shape::Part { start, count, stride, imap: std::ptr::null() } $(, $more)*);
        $mac!("varm", (start: *const Offset, count: *const Offset, stride: *const Offset, imap: *const Offset),
            Shape::Part { start, count, stride, imap } $(, $more)*);
        $mac!("varn", (number: std::ffi::c_int, starts: *const *const Offset, counts: *const *const Offset),
            Shape::Several { number, starts, counts } $(, $more)*);
    };
}
pub(crate) use each_shape;
