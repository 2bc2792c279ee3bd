//! The table of functions that an adapter fills, as a [`Comm`]. Unsafe code of the crate is here and in `adapter.rs`.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::path::Path;

use knarr_array::comm::{Comm, check_peer};
use knarr_array::error::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// Version of `c/knarr_comm.h`.
const VERSION: i32 = 2;
/// Bytes of the longest message of an error that is shown.
const MESSAGE: usize = 1024;

type SendBytes = unsafe extern "C" fn(*mut c_void, i32, *const c_void, u64) -> i32;
type ReceiveBytes = unsafe extern "C" fn(*mut c_void, i32, Room, *mut c_void) -> i32;
type Room = unsafe extern "C" fn(*mut c_void, u64) -> *mut c_void;
type Message = unsafe extern "C" fn(*mut c_void, i32, *mut c_char, u64);
type End = unsafe extern "C" fn(*mut c_void);
type Abort = unsafe extern "C" fn(*mut c_void, i32);

/// `struct knarr_comm`.
#[repr(C)]
pub(crate) struct Table {
    version: i32,
    rank: i32,
    size: i32,
    node: i32,
    context: *mut c_void,
    send: Option<SendBytes>,
    receive: Option<ReceiveBytes>,
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
    send: SendBytes,
    receive: ReceiveBytes,
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

    pub(crate) fn new(table: &Table, is_own: bool) -> Result<Self> {
        let number = |number: i32| usize::try_from(number).ok();
        match *table {
            Table {
                version: VERSION,
                context,
                send: Some(send),
                receive: Some(receive),
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
                Ok(Self { rank, size, node, context, send, receive, message, end, abort, broken, is_own })
            }
            _ => Err(Error::unsupported(format!(
                "the adapter is of version {}, this Knarr knows {VERSION}",
                table.version
            ))
            .hint(if is_own { REBUILD } else { RECOMPILE })),
        }
    }

    /// True once MPI reported an error: ranks do not agree any more.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// What the adapter's functions are handed.
    pub(crate) fn context(&self) -> *mut c_void {
        self.context
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
}

/// What to do about adapters that do not fit.
pub(crate) const REBUILD: &str = "build it anew with tools/build-mpi.sh of this version of Knarr";
const RECOMPILE: &str = "compile the program anew with knarr_comm.h and knarr_mpi.c of this version of Knarr";

/// A message that arrives.
#[derive(Default)]
struct Arriving {
    bytes: Vec<u8>,
    /// A length that there is no memory for.
    too_long: Option<u64>,
}

impl Arriving {
    /// As the table's function asks. What is added is zero.
    fn room(&mut self, length: u64) -> Option<&mut [u8]> {
        let more = usize::try_from(length).ok().map(|length| length.saturating_sub(self.bytes.len()));
        if more.is_none_or(|more| self.bytes.try_reserve(more).is_err()) {
            self.too_long = Some(length);
            return None;
        }
        self.bytes.resize(usize::try_from(length).ok()?, 0);
        Some(&mut self.bytes)
    }
}

/// Where the bytes of a message are put, which is an [`Arriving`].
///
/// # Safety
/// `message` is what `Mpi::receive` handed over, while it waits.
unsafe extern "C" fn room(message: *mut c_void, length: u64) -> *mut c_void {
    // SAFETY: it is what was handed over, which nobody else uses meanwhile.
    let message = unsafe { &mut *message.cast::<Arriving>() };
    message.room(length).map_or(std::ptr::null_mut(), |bytes| bytes.as_mut_ptr().cast())
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

    fn send(&self, to: usize, bytes: &[u8]) -> Result<()> {
        check_peer(self, to)?;
        let to = i32::try_from(to).unwrap_or(i32::MAX);
        // SAFETY: `bytes` is readable for its length, and the context is the table's.
        self.checked(unsafe { (self.send)(self.context, to, bytes.as_ptr().cast(), bytes.len() as u64) })
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        check_peer(self, from)?;
        let from = i32::try_from(from).unwrap_or(i32::MAX);
        let mut message = Arriving::default();
        // SAFETY: `room` takes the message, which lives until the function returns, and gives as much as it is asked for.
        let code = unsafe { (self.receive)(self.context, from, room, (&raw mut message).cast()) };
        match message.too_long.filter(|_| code != 0) {
            None => self.checked(code).map(|()| message.bytes),
            Some(length) => {
                self.broken.set(true);
                Err(Error::unsupported(format!("no memory for a message of {length} bytes")))
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of another version, as a program or an adapter that was compiled long ago fills it.
    #[test]
    fn tables_of_other_versions_are_refused() {
        for version in [0, 1, VERSION + 1] {
            let mut table = MaybeUninit::<Table>::zeroed();
            // SAFETY: a writable table; all its fields may be zero.
            let table = unsafe {
                (&raw mut (*table.as_mut_ptr()).version).write(version);
                table.assume_init()
            };
            for (is_own, hint) in [(true, "tools/build-mpi.sh"), (false, "knarr_mpi.c")] {
                let error = Mpi::new(&table, is_own).err().unwrap();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                let text = error.to_string();
                assert!(text.contains(&format!("is of version {version}, this Knarr knows 2")), "{text}");
                assert!(text.contains(hint), "{text}");
            }
        }
    }
}
