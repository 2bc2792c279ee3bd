//! The functions of `knarr.h` that write files.

use knarr_array::array::ArrayView;
use knarr_routes::output::Value;
use std::ffi::{c_char, c_void};

use crate::errors::call;
use crate::memory::{array, bytes, extents, handle, optional_text, print, put, text, texts};
use crate::session::{close, hand_over, open, with};
use crate::types::knarr_status;
use crate::{KNARR_UNLIMITED, knarr_comm, knarr_output};

/// Begins a file that all ranks of a program write together: netCDF-4 (.nc), HDF5 (.h5) or a Zarr v3 store (.zarr).
/// 'options' are words such as "goal=ratio replace=yes", or null: goal, portable, chain, chunks and bounds as for knarr
/// repack, verify (no: chunks are not proven), replace (yes: a file that is there is replaced), spool (directory where values
/// lie until the file is made; memory), jobs (threads that make it), max_mem. 'comm' is a table of the program's ranks, which
/// belongs to Knarr from then on whatever this returns, or null for one process; the ranks may be on several nodes. Collective, as
/// are end_step, commit, test, wait and close: all ranks call them in the same order. An error of one rank is an error on
/// all. The file appears under its name when it is complete and on the disk, or not at all.
///
/// libknarr.a is without the functions knarr_output_...: they bring an HDF5 of their own.
///
/// # Safety
/// `path` and `options` are NUL-terminated; `comm` is null or a struct knarr_comm; `output` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_create(
    path: *const c_char,
    options: *const c_char,
    comm: *const knarr_comm,
    output: *mut *mut knarr_output,
) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { open("knarr_output_create", path, options, comm, output) }
}

/// Defines a dimension. With the length KNARR_UNLIMITED it can grow, and is as long as what is put along it. Not collective,
/// but all ranks define the same things in the same order; they may do so until the commit. After an error of a function
/// that is not collective the file is not written: what is collective then fails on all ranks.
///
/// # Safety
/// `output` is null or an output; `name` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_def_dim(
    output: *mut knarr_output,
    name: *const c_char,
    length: usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_output_def_dim", output, |session| {
            let name = text(name, "name")?;
            session.output.define_dimension(name, (length != KNARR_UNLIMITED).then_some(length as u64))
        })
    }
}

/// Defines a variable of a knarr_dtype along 'rank' dimensions that are defined, the slowest first. 'wishes' are words such
/// as "max_abs_error=0.01 chunks=1x90x180", or null: bounds, quality, chain and chunks of this variable as in knarr.toml. As
/// for knarr_output_def_dim().
///
/// # Safety
/// `output` is null or an output; `name` and, unless null, `wishes` are NUL-terminated; `dimensions` is readable for `rank`
/// pointers to NUL-terminated names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_def_var(
    output: *mut knarr_output,
    name: *const c_char,
    dtype: i32,
    rank: i32,
    dimensions: *const *const c_char,
    wishes: *const c_char,
) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_output_def_var", output, |session| {
            let dtype = array(dtype, 0, std::ptr::null())?.dtype;
            let dimensions = texts(dimensions, rank, "dimensions")?;
            let wishes = optional_text(wishes, "wishes")?.unwrap_or_default();
            session.define_variable(text(name, "name")?, dtype, &dimensions, wishes)
        })
    }
}

/// Sets an attribute that is text, of a variable, or with a null 'variable' of the file. As for knarr_output_def_dim().
///
/// # Safety
/// `output` is null or an output; `name`, `value` and, unless null, `variable` are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_put_att_text(
    output: *mut knarr_output,
    variable: *const c_char,
    name: *const c_char,
    value: *const c_char,
) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_output_put_att_text", output, |session| {
            let variable = optional_text(variable, "variable")?;
            let (name, value) = (text(name, "name")?, text(value, "value")?);
            session.output.set_attribute(variable, name, Value::Text(value.to_owned()))
        })
    }
}

/// Sets an attribute of 'count' numbers of a knarr_dtype, of a variable, or with a null 'variable' of the file. '_FillValue'
/// of a variable, one number of its type, is what elements are that nobody puts; without it they are netCDF's fill values. As
/// for knarr_output_def_dim().
///
/// # Safety
/// `output` is null or an output; `name` and, unless null, `variable` are NUL-terminated; `values` is readable for all
/// numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_put_att(
    output: *mut knarr_output,
    variable: *const c_char,
    name: *const c_char,
    dtype: i32,
    count: usize,
    values: *const c_void,
) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_output_put_att", output, |session| {
            let spec = array(dtype, 1, &raw const count)?;
            let values = bytes(values.cast(), spec.byte_len(), "values")?;
            let variable = optional_text(variable, "variable")?;
            session.set_numbers(variable, text(name, "name")?, spec.dtype, values)
        })
    }
}

/// Copies an array of this rank, which may be changed at once: the region of the variable 'name' that begins at 'start'
/// (null: at the first element) and has the extents 'count'. Where regions overlap, what was put in a later step counts, in
/// one step what the higher rank put, and of one rank the last. Not collective. After an error the file is not written.
///
/// # Safety
/// `output` is null or an output; `name` is NUL-terminated; `count` and, unless null, `start` are readable for `rank`
/// numbers; `source` is readable for the whole region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_put(
    output: *mut knarr_output,
    name: *const c_char,
    source: *const c_void,
    dtype: i32,
    rank: i32,
    count: *const usize,
    start: *const usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_output_put", output, |session| {
            let spec = array(dtype, rank, count)?;
            let start = extents(start, spec.shape.len());
            let source = bytes(source.cast(), spec.byte_len(), "source")?;
            session.output.put(text(name, "name")?, &ArrayView::new(&spec, source)?, start)
        })
    }
}

/// Ends a step: what is put afterwards counts where it overlaps with what was put before. The ranks compare what they
/// defined, and learn of each other's errors.
///
/// # Safety
/// `output` is null or an output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_end_step(output: *mut knarr_output) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_output_end_step", output, |session| session.output.end_step()) }
}

/// Hands all values over and returns as soon as the file is being made, in a thread of rank 0 that calls no MPI. Nothing can
/// be defined or put afterwards.
///
/// # Safety
/// `output` is null or an output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_commit(output: *mut knarr_output) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_output_commit", output, |session| session.output.commit()) }
}

/// 'done' becomes 1 if the file is complete, else 0. Fails if there is no file, and before the commit.
///
/// # Safety
/// `output` is null or an output; `done` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_test(output: *mut knarr_output, done: *mut i32) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_output_test", output, |session| put(done, session.output.test()?.into(), "done")) }
}

/// Waits until the file is complete. Fails as knarr_output_test() does.
///
/// # Safety
/// `output` is null or an output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_wait(output: *mut knarr_output) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_output_wait", output, |session| session.output.wait()) }
}

/// Writes notes on the file that is complete, one a line: wishes that were not met, and what readers do not find. 'text',
/// 'capacity' and 'length' as for knarr_hints_print().
///
/// # Safety
/// `output` is null or an output; the others as for knarr_hints_print.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_notes(
    output: *const knarr_output,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> knarr_status {
    // SAFETY: the caller's promises.
    call("knarr_output_notes", || unsafe {
        let notes = handle(output, "output")?.notes();
        print(&notes, text, capacity, length)
    })
}

/// Commits the file unless that was done, waits until it is complete, and frees the output, whatever it returns. Null is
/// allowed.
///
/// # Safety
/// `output` is null, or came from knarr_output_create and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_output_close(output: *mut knarr_output) -> knarr_status {
    // SAFETY: null, or came from `open` and was not closed.
    unsafe { close("knarr_output_close", output) }
}
