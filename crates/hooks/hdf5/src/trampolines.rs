//! The names that programs find here instead of in their HDF5.
//!
//! Each adds the address it returns to as one more argument and goes on to its hook, with everything else as it was.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("knarr-preload has trampolines for x86-64 and 64-bit ARM only: write them in trampolines.rs");

use crate::needing::Needs;
use crate::parallel::hand_back::needs::needs_file;
use crate::{hooks, parallel};

/// Defines the function `$symbol`, which calls `$hook` with the caller's address in the register for the argument
/// behind its own: `$x86` or `$arm`.
macro_rules! trampoline {
    ($symbol:ident, $hook:path, $x86:literal, $arm:literal) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $symbol() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                concat!("mov ", $x86, ", qword ptr [rsp]"),
                "jmp {hook}",
                hook = sym $hook,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                concat!("mov ", $arm, ", x30"),
                "b {hook}",
                hook = sym $hook,
            );
        }
    };
}

trampoline!(H5close, hooks::close_library, "rdi", "x0");
trampoline!(H5Fclose, hooks::file_close, "rsi", "x1");
trampoline!(H5Idec_ref, hooks::release, "rsi", "x1");
trampoline!(H5Fopen, hooks::file_open, "rcx", "x3");
trampoline!(H5Fcreate, hooks::file_create, "r8", "x4");
trampoline!(H5Dcreate1, hooks::create_1, "r9", "x5");
trampoline!(H5Dcreate_anon, hooks::create_unnamed, "r9", "x5");
trampoline!(nc_open, parallel::opening::open, "rcx", "x3");
trampoline!(nc__open, parallel::opening::open_with_hint, "r8", "x4");
trampoline!(nc_open_par, parallel::opening::open_together, "r9", "x5");
trampoline!(nc_open_par_fortran, parallel::opening::open_together_in_fortran, "r9", "x5");
trampoline!(H5Dset_extent, parallel::hooks::set_extent, "rdx", "x2");
trampoline!(H5Fflush, parallel::hooks::flush, "rdx", "x2");
trampoline!(H5Fget_name, parallel::hooks::file_name, "rcx", "x3");
trampoline!(H5Fget_access_plist, parallel::hooks::access_list, "rsi", "x1");
trampoline!(H5Fget_mpi_atomicity, parallel::hooks::atomicity, "rdx", "x2");
trampoline!(H5Fset_mpi_atomicity, parallel::hooks::set_atomicity, "rdx", "x2");

/// The same for six arguments, which take all registers on x86-64: the caller's address goes over the stack.
macro_rules! trampoline_of_six {
    ($symbol:ident, $hook:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $symbol() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                // Debuggers, and threads that are cancelled, walk the stack by these directives.
                ".cfi_startproc",
                "push qword ptr [rsp]",
                ".cfi_adjust_cfa_offset 8",
                "call {hook}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "ret",
                ".cfi_endproc",
                hook = sym $hook,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("mov x6, x30", "b {hook}", hook = sym $hook);
        }
    };
}

trampoline_of_six!(H5Dwrite, hooks::write);
trampoline_of_six!(H5Dwrite_chunk, hooks::write_chunk);
trampoline_of_six!(H5Dread, parallel::hooks::read);
trampoline_of_six!(H5Ocopy, parallel::hooks::copy_object);

/// The same for seven arguments: the seventh, and so the caller's address as the eighth, go over the stack on x86-64.
macro_rules! trampoline_of_seven {
    ($symbol:ident, $hook:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $symbol() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "push qword ptr [rsp + 8]",
                ".cfi_adjust_cfa_offset 8",
                "push qword ptr [rsp + 24]",
                ".cfi_adjust_cfa_offset 8",
                "call {hook}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                hook = sym $hook,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("mov x7, x30", "b {hook}", hook = sym $hook);
        }
    };
}

trampoline_of_seven!(H5Dcreate2, hooks::create_2);
trampoline_of_seven!(H5Dwrite_multi, parallel::hooks::write_many);
trampoline_of_seven!(H5Dread_multi, parallel::hooks::read_many);

/// Defines the function `$symbol`, before which a captured file is handed back: see [`needs_file`]. Whatever its arguments are, it gets
/// them as they came.
macro_rules! trampoline_that_needs_the_file {
    ($symbol:ident, $function:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $symbol() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push r9",
                ".cfi_adjust_cfa_offset 8",
                "push r8",
                ".cfi_adjust_cfa_offset 8",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "mov rdi, rsp",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "mov esi, {function}",
                "mov rdx, qword ptr [rsp + 56]",
                "call {needs_file}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "pop r8",
                ".cfi_adjust_cfa_offset -8",
                "pop r9",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                function = const $function as u32,
                needs_file = sym needs_file,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                ".cfi_startproc",
                "stp x0, x1, [sp, #-80]!",
                ".cfi_adjust_cfa_offset 80",
                "stp x2, x3, [sp, #16]",
                "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]",
                "str x30, [sp, #64]",
                ".cfi_rel_offset x30, 64",
                "mov x0, sp",
                "mov w1, {function}",
                "mov x2, x30",
                "bl {needs_file}",
                "mov x16, x0",
                "ldr x30, [sp, #64]",
                "ldp x2, x3, [sp, #16]",
                "ldp x4, x5, [sp, #32]",
                "ldp x6, x7, [sp, #48]",
                "ldp x0, x1, [sp], #80",
                ".cfi_adjust_cfa_offset -80",
                "br x16",
                ".cfi_endproc",
                function = const $function as u32,
                needs_file = sym needs_file,
            );
        }
    };
}

macro_rules! trampolines_that_need_the_file {
    ($($symbol:ident = $function:path;)*) => {
        $(trampoline_that_needs_the_file!($symbol, $function);)*
    };
}

trampolines_that_need_the_file! {
    H5Dget_offset = Needs::Offset;
    H5Dget_storage_size = Needs::StorageSize;
    H5Dget_num_chunks = Needs::ChunkCount;
    H5Dget_chunk_info = Needs::ChunkInfo;
    H5Dget_chunk_info_by_coord = Needs::ChunkInfoAt;
    H5Dget_chunk_storage_size = Needs::ChunkSize;
    H5Dchunk_iter = Needs::EachChunk;
    H5Dread_chunk = Needs::ReadChunk;
    H5Dread_chunk1 = Needs::ReadChunk1;
    H5Dread_chunk2 = Needs::ReadChunk2;
    H5Dget_space_status = Needs::SpaceStatus;
    H5Fget_filesize = Needs::FileSize;
    H5Fget_eoa = Needs::EndOfFile;
    H5Fget_vfd_handle = Needs::Handle;
    H5Fget_file_image = Needs::Image;
    H5Fget_freespace = Needs::FreeSpace;
    H5Fstart_swmr_write = Needs::SingleWriter;
    H5Fmount = Needs::Mount;
    H5Dwrite_async = Needs::WriteLater;
    H5Dread_async = Needs::ReadLater;
    H5Dset_extent_async = Needs::ExtentLater;
    H5Dwrite_multi_async = Needs::WriteManyLater;
    H5Dread_multi_async = Needs::ReadManyLater;
    H5Ocopy_async = Needs::CopyLater;
}
