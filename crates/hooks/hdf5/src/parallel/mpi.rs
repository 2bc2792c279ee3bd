//! What is wanted of the program's MPI besides the adapter's functions.

use std::ffi::{CStr, c_int, c_void};

use knarr_array::error::Result;
use knarr_captured::{Ranks, Wanted};

use crate::host::{CallerHdf5, Hid};

/// A function of MPI that takes one place and returns a code. HDF5 uses MPI, so it is there.
type Function = unsafe extern "C" fn(*mut usize) -> c_int;

fn function(name: &CStr) -> Option<Function> {
    // SAFETY: a name that ends in a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: a null pointer is `None`; any other is this function of MPI, whose only argument is a pointer.
    unsafe { std::mem::transmute::<*mut c_void, Option<Function>>(found) }
}

/// True if the program has ended MPI: nothing can be done together any more.
pub(super) fn is_over() -> bool {
    let mut flag = 0usize;
    // SAFETY: there is room for an `int`.
    function(c"MPI_Finalized").is_some_and(|ask| unsafe { ask(&raw mut flag) } == 0) && flag != 0
}

/// The ranks that open a file by an access list, which is one of MPI-IO if the file `is_parallel`. `None` if HDF5 does not tell who
/// they are. Collective, if it is.
pub(super) fn ranks_of(host: &CallerHdf5, access: Hid, wanted: &Wanted, is_parallel: bool) -> Option<Result<Ranks>> {
    if !is_parallel {
        return Some(Ok(Ranks::Alone(Default::default())));
    }
    let comm = Communicator::of(host, access)?;
    // SAFETY: the program's own communicator.
    Some(unsafe { Ranks::of(comm.0, &wanted.run.rules().adapters) })
}

/// The communicator of an access list: a copy, which is given back when this is dropped.
struct Communicator(usize);

impl Communicator {
    /// `None` if the list is not of MPI-IO. Collective, if it is.
    fn of(host: &CallerHdf5, access: Hid) -> Option<Self> {
        let (get, null) = (host.is_parallel?, std::ptr::null_mut::<c_void>());
        let mut comm = 0usize;
        // SAFETY: the list is the program's own. Communicators are numbers or pointers, for which there is room.
        let done = host.quietly(|_| unsafe { get(access, (&raw mut comm).cast(), null) })?;
        (done >= 0).then_some(Self(comm))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Some(free) = function(c"MPI_Comm_free") {
            // SAFETY: HDF5 made this copy for us.
            unsafe { free(&raw mut self.0) };
        }
    }
}
