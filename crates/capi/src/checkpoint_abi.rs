//! The functions of `knarr.h` that make checkpoints and restart from them.

use knarr_array::Result;
use knarr_array::comm::{Comm, Solo};
use knarr_array::region::Region;
use knarr_array::request::Share;
use knarr_mpi::Mpi;
use std::ffi::{c_char, c_void};

use crate::errors::call;
use crate::memory::{array, bytes, bytes_mut, extents, handle, handle_mut, named_dtype, print, put, text};
use crate::types::knarr_status;
use crate::{knarr_checkpoint, knarr_comm, knarr_restart};

/// Opens the directory of a program's checkpoints, which is made if it is not there. 'options' are words such as "keep=3
/// goal=ratio", or null: keep (sets that stay), replace (yes: steps that are there may be written again), spool (directory
/// where arrays lie until they are packed; memory), jobs (threads that pack), max_mem, group_size, scheme, block_size,
/// goal, bundle_below, verify. 'comm' is a table of the program's ranks, which belongs to Knarr from then on whatever this
/// returns, or null for one process. Collective, as are all functions of a knarr_checkpoint but put and add_file: all
/// ranks call them in the same order. An error of one rank is an error on all.
///
/// # Safety
/// `directory` and `options` are NUL-terminated; `comm` is null or a struct knarr_comm; `checkpoint` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_open(
    directory: *const c_char,
    options: *const c_char,
    comm: *const knarr_comm,
    checkpoint: *mut *mut knarr_checkpoint,
) -> knarr_status {
    call("knarr_checkpoint_open", || {
        // SAFETY: null or writable. What was there is not looked at, and a failure leaves null.
        unsafe { put(checkpoint, std::ptr::null_mut(), "checkpoint")? };
        let ranks: Box<dyn Comm> = if comm.is_null() {
            Box::new(Solo)
        } else {
            // SAFETY: a table as knarr_comm.h describes it.
            Box::new(unsafe { Mpi::of_program(comm.cast::<c_void>())? })
        };
        // SAFETY: null or NUL-terminated.
        let options = if options.is_null() { "" } else { unsafe { text(options, "options")? } };
        // SAFETY: null or NUL-terminated.
        let made = knarr_checkpoint::open(unsafe { text(directory, "directory")? }, options, ranks)?;
        // SAFETY: null or writable.
        unsafe { put(checkpoint, Box::into_raw(Box::new(made)), "checkpoint") }
    })
}

/// Begins a step, counted from 0, after waiting for the one before; fails with what became of that, and then nothing is
/// begun. What was put since a begin without commit is forgotten. KNARR_EXISTS if there is a checkpoint of this step.
///
/// # Safety
/// `checkpoint` is null or a checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_begin(checkpoint: *mut knarr_checkpoint, step: i64) -> knarr_status {
    call("knarr_checkpoint_begin", || {
        // SAFETY: null or a checkpoint.
        unsafe { handle_mut(checkpoint, "checkpoint")? }.begin(step)
    })
}

/// Copies an array of this rank, which may be changed at once. It is a region of the global array 'name', whose extents
/// are 'shape', that begins at 'start' (null: at the first element); 'count' are the extents of the region. With a null
/// 'shape' the array is this rank's own. 'dtype' is a knarr_dtype. Not collective. After an error the step cannot be
/// committed.
///
/// # Safety
/// `checkpoint` is null or a checkpoint; `name` is NUL-terminated; `count` and, unless null, `shape` and `start` are
/// readable for `rank` numbers; `source` is readable for the whole region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_put(
    checkpoint: *mut knarr_checkpoint,
    name: *const c_char,
    source: *const c_void,
    dtype: i32,
    rank: i32,
    count: *const usize,
    shape: *const usize,
    start: *const usize,
) -> knarr_status {
    call("knarr_checkpoint_put", || {
        // SAFETY: null or a checkpoint.
        let checkpoint = unsafe { handle_mut(checkpoint, "checkpoint")? };
        let given = || {
            // SAFETY: null or readable for the rank.
            let spec = unsafe { array(dtype, rank, count)? };
            // SAFETY: null or readable for the rank.
            let share = unsafe { share(&spec.shape, shape, start)? };
            // SAFETY: null or readable for the array.
            let source = unsafe { bytes(source.cast(), spec.byte_len(), "source")? };
            // SAFETY: null or NUL-terminated.
            Ok((unsafe { text(name, "name")? }, spec, source, share))
        };
        let (name, spec, source, share) = given().map_err(|error| checkpoint.fail(error))?;
        checkpoint.put(name, &spec, source, share)
    })
}

/// # Safety
/// Unless null, `shape` and `start` are readable for as many numbers as `count` has.
unsafe fn share(count: &[usize], shape: *const usize, start: *const usize) -> Result<Share> {
    let count: Vec<u64> = count.iter().map(|&n| n as u64).collect();
    if shape.is_null() {
        return Ok(Share::Own(count));
    }
    // SAFETY: the caller's promise.
    let (shape, start) = unsafe { (extents(shape, count.len(), "shape")?, start_of(start, count.len())?) };
    let start = start.unwrap_or_else(|| vec![0; count.len()]);
    Ok(Share::Global { shape, region: Region { start, count } })
}

/// # Safety
/// Unless null, `start` is readable for `rank` numbers.
unsafe fn start_of(start: *const usize, rank: usize) -> Result<Option<Vec<u64>>> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { extents(start, rank, "start") }.map(Some)
}

/// Adds a file of this rank, which a restart on as many ranks brings back as 'name', a path below a directory; null: the
/// file's own name. It is read while it is packed: it must stay as it is until knarr_checkpoint_wait() returns. Not
/// collective. After an error the step cannot be committed.
///
/// # Safety
/// `checkpoint` is null or a checkpoint; `path` is NUL-terminated; `name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_add_file(
    checkpoint: *mut knarr_checkpoint,
    path: *const c_char,
    name: *const c_char,
) -> knarr_status {
    call("knarr_checkpoint_add_file", || {
        // SAFETY: null or a checkpoint.
        let checkpoint = unsafe { handle_mut(checkpoint, "checkpoint")? };
        let given = || {
            // SAFETY: null or NUL-terminated.
            let name = if name.is_null() { None } else { Some(unsafe { text(name, "name")? }) };
            // SAFETY: null or NUL-terminated.
            Ok((unsafe { text(path, "path")? }, name))
        };
        let (path, name) = given().map_err(|error| checkpoint.fail(error))?;
        checkpoint.add_file(path, name)
    })
}

/// Hands the step over and returns as soon as packing has begun, in a thread of one rank on each node that calls no MPI.
///
/// # Safety
/// `checkpoint` is null or a checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_commit(checkpoint: *mut knarr_checkpoint) -> knarr_status {
    call("knarr_checkpoint_commit", || {
        // SAFETY: null or a checkpoint.
        unsafe { handle_mut(checkpoint, "checkpoint")? }.commit()
    })
}

/// 'done' becomes 1 if no step is under way, else 0. Fails with what became of the step, which is given up then; the sets
/// that are there stay.
///
/// # Safety
/// `checkpoint` is null or a checkpoint; `done` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_test(checkpoint: *mut knarr_checkpoint, done: *mut i32) -> knarr_status {
    call("knarr_checkpoint_test", || {
        // SAFETY: null or a checkpoint.
        let is_done = unsafe { handle_mut(checkpoint, "checkpoint")? }.test()?;
        // SAFETY: null or writable.
        unsafe { put(done, i32::from(is_done), "done") }
    })
}

/// Waits until no step is under way. Fails as knarr_checkpoint_test() does.
///
/// # Safety
/// `checkpoint` is null or a checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_wait(checkpoint: *mut knarr_checkpoint) -> knarr_status {
    call("knarr_checkpoint_wait", || {
        // SAFETY: null or a checkpoint.
        unsafe { handle_mut(checkpoint, "checkpoint")? }.wait()
    })
}

/// Writes what went wrong without being an error of a call, one a line, and forgets it: on rank 0, damaged sets that a
/// restart passed over, and old ones that could not be removed. 'text', 'capacity' and 'length' as for
/// knarr_hints_print().
///
/// # Safety
/// `checkpoint` is null or a checkpoint; the others as for knarr_hints_print.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_warnings(
    checkpoint: *mut knarr_checkpoint,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> knarr_status {
    call("knarr_checkpoint_warnings", || {
        // SAFETY: null or a checkpoint.
        let warnings = unsafe { handle_mut(checkpoint, "checkpoint")? }.warnings();
        // SAFETY: null or writable as stated.
        unsafe { print(&warnings, text, capacity, length) }
    })
}

/// Opens the checkpoint of 'step', or with KNARR_LATEST the newest one that is whole; 'restart' becomes null if there is
/// none of any step. With 'verify' not 0 all of it is read and checked first. Waits for the step under way.
///
/// # Safety
/// `checkpoint` is null or a checkpoint; `restart` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_restart(
    checkpoint: *mut knarr_checkpoint,
    step: i64,
    verify: i32,
    restart: *mut *mut knarr_restart,
) -> knarr_status {
    call("knarr_checkpoint_restart", || {
        // SAFETY: null or writable.
        unsafe { put(restart, std::ptr::null_mut(), "restart")? };
        // SAFETY: null or a checkpoint.
        match unsafe { handle_mut(checkpoint, "checkpoint")? }.restart(step, verify != 0)? {
            None => Ok(()),
            // SAFETY: null or writable.
            Some(found) => unsafe { put(restart, Box::into_raw(Box::new(found)), "restart") },
        }
    })
}

/// Waits for the step under way, says what became of it, and frees the checkpoint, whatever it returns. Null is allowed.
///
/// # Safety
/// `checkpoint` is null, or came from knarr_checkpoint_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_close(checkpoint: *mut knarr_checkpoint) -> knarr_status {
    call("knarr_checkpoint_close", || {
        if checkpoint.is_null() {
            return Ok(());
        }
        // SAFETY: it was made by `Box::into_raw` and is freed once.
        unsafe { Box::from_raw(checkpoint) }.close()
    })
}

/// 'step' becomes the step of the checkpoint, 'ranks' the number of ranks that made it. Either may be null.
///
/// # Safety
/// `restart` is null or a restart; `step` and `ranks` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_restart_about(
    restart: *const knarr_restart,
    step: *mut i64,
    ranks: *mut i64,
) -> knarr_status {
    call("knarr_restart_about", || {
        // SAFETY: null or a restart.
        let about = unsafe { handle(restart, "restart")? }.about();
        for (value, target) in [(about.0, step), (about.1, ranks)] {
            if !target.is_null() {
                // SAFETY: not null, so writable.
                unsafe { put(target, value.cast_signed(), "step")? };
            }
        }
        Ok(())
    })
}

/// Says what an array is: 'dtype' becomes a knarr_dtype, 'rank' its number of dimensions, 'shape', which has room for
/// KNARR_MAX_RANK numbers, its extents, and 'is_global' 1 for global arrays, whose extents are those of the whole, 0 for
/// arrays that this rank had of its own.
///
/// # Safety
/// `restart` is null or a restart; `name` is NUL-terminated; the others are null or writable as stated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_restart_describe(
    restart: *const knarr_restart,
    name: *const c_char,
    dtype: *mut i32,
    rank: *mut i32,
    shape: *mut usize,
    is_global: *mut i32,
) -> knarr_status {
    call("knarr_restart_describe", || {
        // SAFETY: null or NUL-terminated.
        let name = unsafe { text(name, "name")? };
        // SAFETY: null or a restart.
        let (spec, global) = unsafe { handle(restart, "restart")? }.describe(name)?;
        // SAFETY: null or writable.
        unsafe { put(dtype, named_dtype(spec.dtype)?, "dtype")? };
        // SAFETY: null or writable.
        unsafe { put(rank, i32::try_from(spec.shape.len()).unwrap_or(i32::MAX), "rank")? };
        for (axis, &extent) in spec.shape.iter().enumerate() {
            // SAFETY: null, which adding nothing to leaves null and is refused, or writable for KNARR_MAX_RANK numbers,
            // which no array of a set exceeds.
            unsafe { put(if shape.is_null() { shape } else { shape.add(axis) }, extent, "shape")? };
        }
        // SAFETY: null or writable.
        unsafe { put(is_global, i32::from(global), "is_global") }
    })
}

/// Reads the region of a global array that begins at 'start' (null: at the first element) and has the extents 'count', on
/// any number of ranks, or, with a null 'start' and its whole shape as 'count', the array that this rank had of its own.
/// Where regions that were put overlap, the highest rank counts. Fails if no rank put a part of it. Not collective. What
/// is read is checked.
///
/// # Safety
/// `restart` is null or a restart; `name` is NUL-terminated; `count` and, unless null, `start` are readable for `rank`
/// numbers; `destination` is writable for the whole region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_restart_read(
    restart: *const knarr_restart,
    name: *const c_char,
    destination: *mut c_void,
    dtype: i32,
    rank: i32,
    count: *const usize,
    start: *const usize,
) -> knarr_status {
    call("knarr_restart_read", || {
        // SAFETY: null or a restart.
        let restart = unsafe { handle(restart, "restart")? };
        // SAFETY: null or readable for the rank.
        let spec = unsafe { array(dtype, rank, count)? };
        // SAFETY: null or readable for the rank.
        let start = unsafe { start_of(start, spec.shape.len())? };
        // SAFETY: null or writable for the region.
        let out = unsafe { bytes_mut(destination.cast(), spec.byte_len(), "destination")? };
        // SAFETY: null or NUL-terminated.
        restart.read(unsafe { text(name, "name")? }, &spec, start, out)
    })
}

/// Brings back the files that this rank added, below 'directory', on as many ranks as made the checkpoint. Files that are
/// there are replaced if 'force' is not 0. Not collective.
///
/// # Safety
/// `restart` is null or a restart; `directory` is NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_restart_files(
    restart: *const knarr_restart,
    directory: *const c_char,
    force: i32,
) -> knarr_status {
    call("knarr_restart_files", || {
        // SAFETY: null or NUL-terminated.
        let directory = unsafe { text(directory, "directory")? };
        // SAFETY: null or a restart.
        unsafe { handle(restart, "restart")? }.restore_files(directory, force != 0)
    })
}

/// Frees a restart, which no thread may use any more. Null is allowed.
///
/// # Safety
/// `restart` is null, or came from knarr_checkpoint_restart and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_restart_free(restart: *mut knarr_restart) {
    call("knarr_restart_free", || {
        if !restart.is_null() {
            // SAFETY: it was made by `Box::into_raw` and is freed once.
            drop(unsafe { Box::from_raw(restart) });
        }
        Ok(())
    });
}
