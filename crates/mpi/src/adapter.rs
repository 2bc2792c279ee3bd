//! An adapter in a process whose program uses MPI itself. Handles of MPI are numbers here: an `int` or a pointer, which the
//! calling conventions of all processors that Knarr runs on pass in the same way.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::Path;

use knarr_array::error::{Error, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::table::{Mpi, REBUILD, Table};

/// What a datatype is made of: `struct knarr_datatype` of `c/knarr_datatype.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datatype {
    /// Number of the kind of its elements, as that file has them.
    pub element: i32,
    /// Elements follow each other.
    pub is_plain: bool,
    /// Elements in one of it.
    pub elements: u64,
}

/// Why a datatype is not described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKind {
    /// Its elements are of several kinds.
    Several,
    /// They are of one that has no number.
    Unknown,
}

#[repr(C)]
struct Described {
    element: i32,
    is_plain: i32,
    elements: u64,
}

type FillTable = unsafe extern "C" fn(usize, *mut Table) -> i32;
type Describe = unsafe extern "C" fn(usize, *mut Described) -> i32;
type Reach = unsafe extern "C" fn(usize, *mut i64, *mut i64) -> i32;
type Pack = unsafe extern "C" fn(*mut c_void, u64, *const c_void, i64, usize) -> i32;
type Unpack = unsafe extern "C" fn(*const c_void, u64, *mut c_void, i64, usize) -> i32;
type Largest = unsafe extern "C" fn(*mut c_void, *mut u64) -> i32;
type Keep = unsafe extern "C" fn(usize) -> usize;
type GiveBack = unsafe extern "C" fn(usize);
type AtEnd = unsafe extern "C" fn(extern "C" fn()) -> i32;
type Handle = unsafe extern "C" fn() -> i32;

/// What `c/knarr_datatype.c` returns for elements of several kinds.
const SEVERAL_KINDS: i32 = -1;

/// A loaded adapter. It stays loaded until the process ends.
#[derive(Debug)]
pub struct Adapter {
    table: FillTable,
    describe: Describe,
    reach: Reach,
    pack: Pack,
    unpack: Unpack,
    largest: Largest,
    keep: Keep,
    give_back: GiveBack,
    at_end: AtEnd,
    /// Bytes of a handle of a datatype.
    handle: usize,
}

impl Adapter {
    /// Loads the adapter at `path` for the MPI that this process has loaded.
    ///
    /// # Errors
    /// `Unsupported` if it cannot be loaded, or is none of this version.
    pub fn load(path: &Path) -> Result<Self> {
        let place = |error: Error| error.hint(REBUILD).at(path.display().to_string());
        // SAFETY: opening runs the constructors of the adapter; its MPI is loaded already.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|error| place(Error::unsupported(format!("cannot be loaded: {error}"))))?;
        let missing = |_| place(Error::unsupported("is no adapter for MPI of this version"));
        // SAFETY: the types are those of the functions in c/knarr_mpi.c and c/knarr_datatype.c.
        let adapter = unsafe {
            Self {
                table: *library.get::<FillTable>(b"knarr_mpi_table\0").map_err(missing)?,
                describe: *library.get::<Describe>(b"knarr_datatype_describe\0").map_err(missing)?,
                reach: *library.get::<Reach>(b"knarr_datatype_reach\0").map_err(missing)?,
                pack: *library.get::<Pack>(b"knarr_datatype_pack\0").map_err(missing)?,
                unpack: *library.get::<Unpack>(b"knarr_datatype_unpack\0").map_err(missing)?,
                largest: *library.get::<Largest>(b"knarr_mpi_largest\0").map_err(missing)?,
                keep: *library.get::<Keep>(b"knarr_datatype_keep\0").map_err(missing)?,
                give_back: *library.get::<GiveBack>(b"knarr_datatype_give_back\0").map_err(missing)?,
                at_end: *library.get::<AtEnd>(b"knarr_mpi_at_end\0").map_err(missing)?,
                handle: match library.get::<Handle>(b"knarr_datatype_handle\0").map_err(missing)?() {
                    4 => 4,
                    _ => size_of::<usize>(),
                },
            }
        };
        std::mem::forget(library);
        Ok(adapter)
    }

    /// The ranks of a communicator, an `MPI_Comm`, which stays the caller's. Collective.
    ///
    /// # Errors
    /// `Internal` for what MPI reports.
    ///
    /// # Safety
    /// `comm` is a communicator of the MPI of this process, and this thread may call MPI.
    pub unsafe fn comm(&self, comm: usize) -> Result<Mpi> {
        let mut table = MaybeUninit::<Table>::zeroed();
        // SAFETY: the caller's promise; the table is writable and has the layout of the header.
        let code = unsafe { (self.table)(comm, table.as_mut_ptr()) };
        if code != 0 {
            return Err(Error::internal(format!("MPI gives no communicator (code {code})")));
        }
        // SAFETY: every field may be zero, so the table is initialised whatever the adapter wrote.
        Mpi::new(&unsafe { table.assume_init() }, false)
    }

    /// The largest of the numbers that the ranks have, found by MPI itself: a call of the program that is collective in its
    /// library must not take longer here. Collective.
    ///
    /// # Errors
    /// `Internal` for what MPI reports.
    pub fn largest(&self, ranks: &Mpi, mut number: u64) -> Result<u64> {
        // SAFETY: the context is one that this adapter made, and there is room for a number.
        let code = unsafe { (self.largest)(ranks.context(), &raw mut number) };
        if code == 0 { Ok(number) } else { Err(Error::internal(format!("MPI does not reduce (code {code})"))) }
    }

    /// Has `call` called when the program begins to end MPI, while ranks still reach each other.
    ///
    /// # Errors
    /// `Internal` for what MPI reports.
    pub fn at_end(&self, call: extern "C" fn()) -> Result<()> {
        // SAFETY: this thread may call MPI, as it has made communicators.
        let code = unsafe { (self.at_end)(call) };
        if code == 0 { Ok(()) } else { Err(Error::internal(format!("MPI does not call at its end (code {code})"))) }
    }

    /// What a datatype, an `MPI_Datatype`, is made of; `None` for `MPI_DATATYPE_NULL`.
    ///
    /// # Errors
    /// Its elements are not of one kind that has a number.
    pub fn describe(&self, datatype: usize) -> Result<Option<Datatype>, NoKind> {
        let mut found = Described { element: 0, is_plain: 0, elements: 0 };
        // SAFETY: MPI answers for handles that are none, too.
        let code = unsafe { (self.describe)(datatype, &raw mut found) };
        match code {
            0 => {}
            SEVERAL_KINDS => return Err(NoKind::Several),
            _ => return Err(NoKind::Unknown),
        }
        let Described { element, is_plain, elements } = found;
        Ok((element != 0).then_some(Datatype { element, is_plain: is_plain != 0, elements }))
    }

    /// A copy of a datatype that stays when the program frees its own; the datatype itself if MPI gives none.
    pub fn keep(&self, datatype: usize) -> usize {
        // SAFETY: MPI answers for handles that are none, too.
        unsafe { (self.keep)(datatype) }
    }

    /// Frees what [`Adapter::keep`] made.
    pub fn give_back(&self, datatype: usize) {
        // SAFETY: as above; what is no copy is left as it is.
        unsafe { (self.give_back)(datatype) };
    }

    /// The elements of `count` of a datatype, one behind the other: `bytes` bytes.
    ///
    /// # Errors
    /// `Internal` for what MPI reports; `Unsupported` without memory.
    ///
    /// # Safety
    /// `buffer` holds so many of them.
    pub unsafe fn pack(&self, buffer: *const c_void, count: i64, datatype: usize, bytes: usize) -> Result<Vec<u8>> {
        let mut packed = Vec::new();
        let no_room = |_| Error::unsupported(format!("no memory for {bytes} bytes of a datatype of MPI"));
        packed.try_reserve_exact(bytes).map_err(no_room)?;
        packed.resize(bytes, 0);
        // SAFETY: the caller's promise, and room for `bytes` bytes.
        let code = unsafe { (self.pack)(packed.as_mut_ptr().cast(), bytes as u64, buffer, count, datatype) };
        if code == 0 { Ok(packed) } else { Err(Error::internal(format!("MPI does not pack (code {code})"))) }
    }

    /// The first byte of each of the `count` elements of a datatype, which have `size` bytes, in the order in which MPI takes
    /// them, relative to the place of the datatype.
    ///
    /// # Errors
    /// As for [`Adapter::pack`].
    pub fn places(&self, datatype: usize, count: u64, size: usize) -> Result<Vec<i64>> {
        let (mut first, mut length) = (0, 0);
        // SAFETY: MPI answers for handles that are none, too; there are places for both numbers.
        let code = unsafe { (self.reach)(datatype, &raw mut first, &raw mut length) };
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(size)).unwrap_or(usize::MAX);
        let length = usize::try_from(length).ok().filter(|_| code == 0);
        let length = length.ok_or_else(|| Error::internal(format!("MPI does not know a datatype (code {code})")))?;
        let mut digits = Vec::new();
        digits.try_reserve_exact(length).map_err(|_| Error::unsupported("no memory for a datatype of MPI"))?;
        let mut places = vec![first; bytes / size.max(1)];
        // MPI says where elements are by packing memory in which each byte is a digit of its number.
        for digit in 0..size_of::<usize>() {
            let shift = 8 * digit;
            if digit > 0 && length.saturating_sub(1) >> shift == 0 {
                break;
            }
            digits.clear();
            digits.extend((0..length).map(|number| (number >> shift).to_le_bytes()[0]));
            // The datatype begins `first` bytes behind its place, or before it.
            let place = digits.as_ptr().wrapping_offset(isize::try_from(-first).unwrap_or(0));
            // SAFETY: one of the datatype takes bytes of `digits` only.
            let packed = unsafe { self.pack(place.cast(), 1, datatype, bytes) }?;
            for (place, element) in places.iter_mut().zip(packed.chunks_exact(size.max(1))) {
                *place += i64::from(element[0]) << shift;
            }
        }
        Ok(places)
    }

    /// The reverse of [`Adapter::pack`].
    ///
    /// # Errors
    /// `Internal` for what MPI reports.
    ///
    /// # Safety
    /// `buffer` has room for so many of them.
    pub unsafe fn unpack(&self, packed: &[u8], buffer: *mut c_void, count: i64, datatype: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.unpack)(packed.as_ptr().cast(), packed.len() as u64, buffer, count, datatype) };
        if code == 0 { Ok(()) } else { Err(Error::internal(format!("MPI does not unpack (code {code})"))) }
    }

    /// The handle at a place of an array of datatypes.
    ///
    /// # Safety
    /// The array has more than `at` of them.
    pub unsafe fn datatype_at(&self, datatypes: *const c_void, at: usize) -> usize {
        match self.handle {
            // SAFETY: the caller's promise.
            4 => unsafe { datatypes.cast::<u32>().add(at).read() as usize },
            // SAFETY: the caller's promise.
            _ => unsafe { datatypes.cast::<usize>().add(at).read() },
        }
    }
}
