//! The functions of `knarr.h` that make checkpoints and restart from them.

use knarr_array::array::ArrayView;
use knarr_array::region::Region;
use knarr_array::request::Share;
use std::ffi::{c_char, c_void};

use crate::errors::call;
use crate::memory::{
    array, bytes, bytes_mut, extents, handle, handle_mut, named_dtype, optional_text, print, put, text,
};
use crate::session::{close, hand_over, open, with};
use crate::types::knarr_status;
use crate::{knarr_checkpoint, knarr_comm, knarr_restart};

/// Opens the directory of a program's checkpoints, which is made if it is not there. 'options' are words such as "keep=3
/// goal=ratio", or null: keep (sets that stay), replace (yes: steps that are there may be written again), spool (directory
/// where arrays lie until they are packed; memory), jobs (threads that pack), max_mem, group_size, scheme, block_size,
/// goal, bundle_below, verify; memory (directory in the memory of each node, such as /dev/shm, where steps are complete
/// first), memory_keep (sets that stay there), local (directory on a disk of each node), local_keep, local_every (which
/// steps come from memory to it: "5", or "10m"), flush (which steps come to the directory: "10", or "30m"), protect
/// (partner, parity:8+1 or none). 'comm' is a table of the program's ranks, which belongs to Knarr from then on whatever
/// this returns, or null for one process. Collective, as are all functions of a knarr_checkpoint but put and add_file:
/// all ranks call them in the same order. An error of one rank is an error on all.
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
    // SAFETY: the caller's promises.
    unsafe { open("knarr_checkpoint_open", directory, options, comm, checkpoint) }
}

/// Begins a step, counted from 0, after waiting for the one before; fails with what became of that, and then nothing is
/// begun. What was put since a begin without commit is forgotten. KNARR_EXISTS if there is a checkpoint of this step.
///
/// # Safety
/// `checkpoint` is null or a checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_begin(checkpoint: *mut knarr_checkpoint, step: i64) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_checkpoint_begin", checkpoint, |checkpoint| checkpoint.begin(step)) }
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
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_checkpoint_put", checkpoint, |session| {
            let spec = array(dtype, rank, count)?;
            let share = share(&spec.shape, shape, start);
            let source = bytes(source.cast(), spec.byte_len(), "source")?;
            session.checkpoints.put(text(name, "name")?, &ArrayView::new(&spec, source)?, share)
        })
    }
}

/// # Safety
/// Unless null, `shape` and `start` are readable for as many numbers as `count` has.
unsafe fn share(count: &[usize], shape: *const usize, start: *const usize) -> Share {
    let count: Vec<u64> = count.iter().map(|&n| n as u64).collect();
    // SAFETY: the caller's promises.
    let (shape, start) = unsafe { (extents(shape, count.len()), extents(start, count.len())) };
    let Some(shape) = shape else { return Share::Own(count) };
    let start = start.unwrap_or_else(|| vec![0; count.len()]);
    Share::Global { shape, region: Region { start, count } }
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
    // SAFETY: the caller's promises.
    unsafe {
        hand_over("knarr_checkpoint_add_file", checkpoint, |checkpoint| {
            let name = optional_text(name, "name")?;
            checkpoint.add_file(text(path, "path")?, name)
        })
    }
}

/// Hands the step over and returns as soon as packing has begun, in a thread of one rank on each node that calls no MPI.
///
/// # Safety
/// `checkpoint` is null or a checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_commit(checkpoint: *mut knarr_checkpoint) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_checkpoint_commit", checkpoint, |session| session.checkpoints.commit()) }
}

/// 'done' becomes 1 if no step is under way, else 0. Fails with what became of the step, which is given up then; the sets
/// that are there stay.
///
/// # Safety
/// `checkpoint` is null or a checkpoint; `done` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_test(checkpoint: *mut knarr_checkpoint, done: *mut i32) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        with("knarr_checkpoint_test", checkpoint, |session| put(done, session.checkpoints.test()?.into(), "done"))
    }
}

/// 'needed' becomes 1 if a checkpoint should be written now, else 0: when as much time has passed as loses the least to checkpoints and to
/// failures, which come every 'mtbf' on average, or when the job ends before the program asks again. To be asked after each step of the
/// program. Fails as knarr_checkpoint_test() does.
///
/// # Safety
/// `checkpoint` is null or a checkpoint; `needed` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_need(checkpoint: *mut knarr_checkpoint, needed: *mut i32) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe {
        with("knarr_checkpoint_need", checkpoint, |session| put(needed, session.checkpoints.need()?.into(), "needed"))
    }
}

/// Waits until no step is under way. Fails as knarr_checkpoint_test() does.
///
/// # Safety
/// `checkpoint` is null or a checkpoint.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_wait(checkpoint: *mut knarr_checkpoint) -> knarr_status {
    // SAFETY: the caller's promises.
    unsafe { with("knarr_checkpoint_wait", checkpoint, |session| session.checkpoints.wait()) }
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
    // SAFETY: the caller's promises.
    unsafe {
        with("knarr_checkpoint_warnings", checkpoint, |session| {
            let warnings = session.checkpoints.take_warnings();
            let lines = warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            print(&lines, text, capacity, length)
        })
    }
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
    // SAFETY: the caller's promises.
    call("knarr_checkpoint_restart", || unsafe {
        put(restart, std::ptr::null_mut(), "restart")?;
        match handle_mut(checkpoint, "checkpoint")?.restart(step, verify != 0)? {
            None => Ok(()),
            Some(found) => put(restart, Box::into_raw(Box::new(found)), "restart"),
        }
    })
}

/// Waits for the step under way, says what became of it, and frees the checkpoint, whatever it returns. Null is allowed.
///
/// # Safety
/// `checkpoint` is null, or came from knarr_checkpoint_open and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_checkpoint_close(checkpoint: *mut knarr_checkpoint) -> knarr_status {
    // SAFETY: null, or came from `open` and was not closed.
    unsafe { close("knarr_checkpoint_close", checkpoint) }
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
    // SAFETY: the caller's promises.
    call("knarr_restart_about", || unsafe {
        let about = handle(restart, "restart")?.about();
        for (value, target) in [(about.0, step), (about.1, ranks)] {
            if !target.is_null() {
                put(target, value.cast_signed(), "step")?;
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
    // SAFETY: the caller's promises.
    call("knarr_restart_describe", || unsafe {
        let name = text(name, "name")?;
        let (spec, global) = handle(restart, "restart")?.describe(name)?;
        put(dtype, named_dtype(spec.dtype)?, "dtype")?;
        put(rank, i32::try_from(spec.shape.len()).unwrap_or(i32::MAX), "rank")?;
        for (axis, &extent) in spec.shape.iter().enumerate() {
            // Null stays null, which is refused. No array of a set has more than KNARR_MAX_RANK dimensions.
            put(if shape.is_null() { shape } else { shape.add(axis) }, extent, "shape")?;
        }
        put(is_global, i32::from(global), "is_global")
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
    // SAFETY: the caller's promises.
    call("knarr_restart_read", || unsafe {
        let restart = handle(restart, "restart")?;
        let spec = array(dtype, rank, count)?;
        let start = extents(start, spec.shape.len());
        let out = bytes_mut(destination.cast(), spec.byte_len(), "destination")?;
        restart.read(text(name, "name")?, &spec, start, out)
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
    // SAFETY: the caller's promises.
    call("knarr_restart_files", || unsafe {
        let directory = text(directory, "directory")?;
        handle(restart, "restart")?.restore_files(directory, force != 0)
    })
}

/// Frees a restart, which no thread may use any more. Null is allowed.
///
/// # Safety
/// `restart` is null, or came from knarr_checkpoint_restart and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn knarr_restart_free(restart: *mut knarr_restart) {
    // SAFETY: the caller's promises.
    call("knarr_restart_free", || unsafe {
        if !restart.is_null() {
            drop(Box::from_raw(restart));
        }
        Ok(())
    });
}
