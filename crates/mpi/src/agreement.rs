//! Whether all ranks can do something, found out by the program's own MPI before an adapter is used: a rank that has no adapter has
//! nothing else, and the others must not wait for it.

use std::ffi::{CStr, c_int, c_void};

/// `PMPI_Allreduce`. Handles of MPI are an `int` or a pointer, which registers carry alike.
type Allreduce = unsafe extern "C" fn(*const c_void, *mut c_void, c_int, usize, usize, usize) -> c_int;

/// `MPI_INT` and `MPI_MIN` of MPICH and all MPIs with its ABI. Source: mpi.h of MPICH 4.0.
const MPICH: (usize, usize) = (0x4c00_0405, 0x5800_0002);

/// Names of MPI's library, for programs that have loaded it for themselves.
const LIBRARIES: [&CStr; 4] = [c"libmpi.so.40", c"libmpi.so.12", c"libmpich.so.12", c"libmpi.so"];

/// True if `can` is true on all ranks of the communicator. Collective. `None` if this process does not show its MPI.
///
/// # Safety
/// `comm` is a communicator of the MPI of this process, and this thread may call MPI.
pub unsafe fn all_can(comm: usize, can: bool) -> Option<bool> {
    let find = finder()?;
    let (int, min) = match (find(c"ompi_mpi_int"), find(c"ompi_mpi_op_min")) {
        (int, min) if !int.is_null() && !min.is_null() => (int as usize, min as usize),
        _ => MPICH,
    };
    let reduce = find(c"PMPI_Allreduce");
    // SAFETY: MPI has this function under this name.
    let reduce = unsafe { std::mem::transmute::<*mut c_void, Option<Allreduce>>(reduce) }?;
    let (own, mut all) = (c_int::from(can), 0);
    // SAFETY: the caller's promise; there is a number, and room for one.
    let code = unsafe { reduce((&raw const own).cast(), (&raw mut all).cast(), 1, int, min, comm) };
    Some(code == 0 && all == 1)
}

/// Finds what the MPI of this process defines.
fn finder() -> Option<impl Fn(&CStr) -> *mut c_void> {
    // SAFETY: names that end in a zero; NOLOAD opens nothing new.
    let loaded = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // SAFETY: a handle of the loader, and a name that ends in a zero.
    let symbol = |handle: *mut c_void, name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
    let handles = std::iter::once(libc::RTLD_DEFAULT).chain(LIBRARIES.into_iter().map(loaded));
    let handle = handles
        .filter(|handle| handle == &libc::RTLD_DEFAULT || !handle.is_null())
        .find(|handle| !symbol(*handle, c"PMPI_Allreduce").is_null())?;
    Some(move |name: &CStr| symbol(handle, name))
}
