//! The table of functions that an adapter fills, as a [`Comm`]. All unsafe code of the crate is here.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::path::Path;

use knarr_array::comm::{Comm, check_root};
use knarr_array::error::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// Version of `c/knarr_comm.h`.
const VERSION: i32 = 1;
/// Bytes of the longest message of an error that is shown.
const MESSAGE: usize = 1024;

type Gather = unsafe extern "C" fn(*mut c_void, i32, *const c_void, u64, *mut c_void, *const u64) -> i32;
type Broadcast = unsafe extern "C" fn(*mut c_void, i32, *mut c_void, u64) -> i32;
type Message = unsafe extern "C" fn(*mut c_void, i32, *mut c_char, u64);
type End = unsafe extern "C" fn(*mut c_void);
type Abort = unsafe extern "C" fn(*mut c_void, i32);

/// `struct knarr_comm`.
#[repr(C)]
struct Table {
    version: i32,
    rank: i32,
    size: i32,
    node: i32,
    context: *mut c_void,
    gather: Option<Gather>,
    broadcast: Option<Broadcast>,
    message: Option<Message>,
    end: Option<End>,
    abort: Option<Abort>,
}

/// All ranks of MPI. Dropping it gives MPI back; where that would wait for ever, because this rank panics or MPI reported
/// an error, it ends all ranks of Knarr's own command, and leaves those of another program as they are.
pub struct Mpi {
    rank: usize,
    size: usize,
    node: usize,
    context: *mut c_void,
    gather: Gather,
    broadcast: Broadcast,
    message: Message,
    end: End,
    abort: Abort,
    broken: Cell<bool>,
    /// MPI was started by this, and the process is Knarr's own.
    is_own: bool,
}

impl Mpi {
    /// Loads an adapter and starts MPI with it.
    ///
    /// # Errors
    /// `Unsupported` if it cannot be loaded or is none; `Internal` for what MPI reports.
    pub(crate) fn start(adapter: &Path) -> Result<Self> {
        // MPIs load parts of themselves that look for symbols of the others.
        // SAFETY: opening runs the constructors of the adapter and of the MPI it was linked with, as any program of that
        // MPI does when it starts.
        let library = unsafe { Library::open(Some(adapter), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|error| Error::unsupported(format!("cannot be loaded: {error}")).hint(REBUILD))?;
        // SAFETY: the type is that of the function in c/knarr_mpi.c.
        let start = unsafe { library.get::<unsafe extern "C" fn(*mut Table) -> i32>(b"knarr_mpi_start\0") }
            .map(|start| *start)
            .map_err(|_| Error::unsupported("is no adapter for MPI").hint(REBUILD))?;
        // MPI leaves threads and handlers that need their code until the process ends.
        std::mem::forget(library);
        let mut table = MaybeUninit::<Table>::zeroed();
        // SAFETY: the table is writable and has the layout of the header.
        let code = unsafe { start(table.as_mut_ptr()) };
        if code != 0 {
            return Err(Error::internal(format!("MPI does not start (code {code})")));
        }
        // SAFETY: every field may be zero, so the table is initialised whatever the adapter wrote.
        Self::new(&unsafe { table.assume_init() }, true)
    }

    /// The ranks of a program that filled a table, whose context belongs to what is returned. It never ends the program.
    ///
    /// # Safety
    /// `table` is null or points to a `struct knarr_comm` as `c/knarr_comm.h` describes it. Its functions do what is
    /// described there, as long as what is returned lives.
    ///
    /// # Errors
    /// `Usage` for a null pointer; `Unsupported` for a table of another version.
    pub unsafe fn of_program(table: *const c_void) -> Result<Self> {
        // SAFETY: null or readable by the caller's promise. Where the version is another one, no more than the fields that
        // all versions begin with is used.
        let table = unsafe { table.cast::<Table>().as_ref() };
        Self::new(table.ok_or_else(|| Error::usage("the table of the ranks is a null pointer"))?, false)
    }

    fn new(table: &Table, is_own: bool) -> Result<Self> {
        let number = |number: i32| usize::try_from(number).ok();
        match *table {
            Table {
                version: VERSION,
                context,
                gather: Some(gather),
                broadcast: Some(broadcast),
                message: Some(message),
                end: Some(end),
                abort: Some(abort),
                ..
            } => {
                let (Some(rank), Some(size), Some(node)) = (number(table.rank), number(table.size), number(table.node))
                else {
                    return Err(Error::internal("the adapter gives negative ranks"));
                };
                let broken = Cell::new(false);
                Ok(Self { rank, size, node, context, gather, broadcast, message, end, abort, broken, is_own })
            }
            _ => Err(Error::unsupported(format!(
                "the adapter is of version {}, this Knarr knows {VERSION}",
                table.version
            ))
            .hint(REBUILD)),
        }
    }

    /// True once MPI reported an error: ranks do not agree any more.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    fn checked(&self, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        self.broken.set(true);
        let mut text = [0u8; MESSAGE];
        // SAFETY: the buffer is writable for its length, and the context is the table's.
        unsafe { (self.message)(self.context, code, text.as_mut_ptr().cast(), MESSAGE as u64) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        Err(Error::internal(format!("MPI: {text}")).at(format!("rank {} of {}", self.rank, self.size)))
    }

    /// As the table's function: to `all`, at the root alone, come the bytes of all ranks, as many as `lengths` says.
    fn gather_into(&self, root: i32, bytes: &[u8], all: &mut [u8], lengths: &[u64]) -> Result<()> {
        let enough = lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length)) == Some(all.len() as u64);
        let is_root = usize::try_from(root) == Ok(self.rank);
        let mine = lengths.get(self.rank).copied();
        if is_root && !(enough && lengths.len() == self.size && mine == Some(bytes.len() as u64)) {
            return Err(Error::internal("lengths that do not fit what is gathered"));
        }
        // SAFETY: `bytes` has its length; where it is used, `lengths` has an entry for every rank and `all` room for their
        // sum, as was checked.
        self.checked(unsafe {
            (self.gather)(
                self.context,
                root,
                bytes.as_ptr().cast(),
                bytes.len() as u64,
                all.as_mut_ptr().cast(),
                lengths.as_ptr(),
            )
        })
    }

    fn broadcast_into(&self, root: i32, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: `bytes` is writable for its length, which is the same on all ranks.
        self.checked(unsafe { (self.broadcast)(self.context, root, bytes.as_mut_ptr().cast(), bytes.len() as u64) })
    }
}

/// What to do about adapters that do not fit.
const REBUILD: &str = "build it anew with tools/build-mpi.sh of this version of Knarr";

/// Room for so many bytes, all zero.
fn room(length: u64) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    room.try_reserve_exact(length)
        .map_err(|_| Error::new(ErrorKind::Unsupported, format!("no memory for a message of {length} bytes")))?;
    room.resize(length, 0);
    Ok(room)
}

impl Comm for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn node(&self) -> usize {
        self.node
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        check_root(self, root)?;
        let is_root = root == self.rank;
        let root = i32::try_from(root).unwrap_or(i32::MAX);
        let each = size_of::<u64>();
        let count = if is_root { self.size } else { 0 };
        let mut lengths = vec![0; count * each];
        self.gather_into(root, &(bytes.len() as u64).to_le_bytes(), &mut lengths, &vec![each as u64; count])?;
        let lengths: Vec<u64> = lengths.as_chunks().0.iter().map(|length| u64::from_le_bytes(*length)).collect();
        let all = lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length)).unwrap_or(u64::MAX);
        let mut all = room(all).inspect_err(|_| self.broken.set(true))?;
        self.gather_into(root, bytes, &mut all, &lengths)?;
        if !is_root {
            return Ok(None);
        }
        let mut rest = all.as_slice();
        let mut parts = Vec::with_capacity(self.size);
        for length in lengths {
            let (part, left) = rest.split_at(usize::try_from(length).unwrap_or(usize::MAX).min(rest.len()));
            parts.push(part.to_vec());
            rest = left;
        }
        Ok(Some(parts))
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        check_root(self, root)?;
        let is_root = root == self.rank;
        let root = i32::try_from(root).unwrap_or(i32::MAX);
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.broadcast_into(root, &mut length)?;
        let mut bytes = match is_root {
            true => bytes,
            false => room(u64::from_le_bytes(length)).inspect_err(|_| self.broken.set(true))?,
        };
        self.broadcast_into(root, &mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if self.is_broken() || std::thread::panicking() {
            if self.is_own {
                // SAFETY: the context is the table's, and nothing is used after it.
                unsafe { (self.abort)(self.context, i32::from(ErrorKind::Internal.exit_code())) };
            }
        } else {
            // SAFETY: as above.
            unsafe { (self.end)(self.context) };
        }
    }
}
