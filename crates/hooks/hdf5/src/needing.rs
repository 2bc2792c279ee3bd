//! Functions of HDF5 that need the values in the file, or that Knarr does not know: their names, and what is known of them.

use std::ffi::{CStr, c_void};

/// A function of HDF5.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(crate) enum Needs {
    Offset,
    StorageSize,
    ChunkCount,
    ChunkInfo,
    ChunkInfoAt,
    ChunkSize,
    EachChunk,
    ReadChunk,
    ReadChunk1,
    ReadChunk2,
    SpaceStatus,
    FileSize,
    EndOfFile,
    Handle,
    Image,
    FreeSpace,
    SingleWriter,
    Mount,
    WriteLater,
    ReadLater,
    ExtentLater,
    WriteManyLater,
    ReadManyLater,
    CopyLater,
}

/// Why a file is handed back of which the program reads or writes single chunks.
pub(crate) const CHUNKS: &str = "the program reads or writes chunks as they are stored (H5Dwrite_chunk, H5Dread_chunk)";

/// What is known of such a function.
pub(crate) struct Function {
    name: &'static CStr,
    /// Which of its arguments are objects of a file.
    pub(crate) objects: &'static [usize],
    /// Its first object is that of a list, which is this argument.
    pub(crate) list: Option<usize>,
    /// Without the values it must not be called. Others only ask, and a file that stays captured answers that it has none.
    pub(crate) is_refused: bool,
    pub(crate) why: &'static str,
}

const STORED: Function = Function {
    name: c"",
    objects: &[0],
    list: None,
    is_refused: false,
    why: "the program asks how values are stored in the file",
};
const CHUNK: Function = Function { is_refused: true, why: CHUNKS, ..STORED };
const LATER: Function =
    Function { objects: &[3], is_refused: true, why: "the program has HDF5 work later (H5Dwrite_async)", ..STORED };

/// By their numbers.
pub(crate) static FUNCTIONS: [Function; 24] = [
    Function { name: c"H5Dget_offset", ..STORED },
    Function { name: c"H5Dget_storage_size", ..STORED },
    Function { name: c"H5Dget_num_chunks", ..STORED },
    Function { name: c"H5Dget_chunk_info", ..STORED },
    Function { name: c"H5Dget_chunk_info_by_coord", ..STORED },
    Function { name: c"H5Dget_chunk_storage_size", ..STORED },
    Function { name: c"H5Dchunk_iter", ..STORED },
    Function { name: c"H5Dread_chunk", ..CHUNK },
    Function { name: c"H5Dread_chunk1", ..CHUNK },
    Function { name: c"H5Dread_chunk2", ..CHUNK },
    Function { name: c"H5Dget_space_status", ..STORED },
    Function { name: c"H5Fget_filesize", why: "the program asks for the size of the file", ..STORED },
    Function { name: c"H5Fget_eoa", why: "the program asks for the size of the file", ..STORED },
    Function { name: c"H5Fget_vfd_handle", why: "the program asks for the descriptor of the file", ..STORED },
    Function { name: c"H5Fget_file_image", why: "the program asks for the bytes of the file", ..STORED },
    Function { name: c"H5Fget_freespace", ..STORED },
    Function {
        name: c"H5Fstart_swmr_write",
        is_refused: true,
        why: "others read the file while it is written (SWMR)",
        ..STORED
    },
    Function {
        name: c"H5Fmount",
        objects: &[0, 2],
        is_refused: true,
        why: "files are mounted in each other (H5Fmount)",
        ..STORED
    },
    Function { name: c"H5Dwrite_async", ..LATER },
    Function { name: c"H5Dread_async", ..LATER },
    Function { name: c"H5Dset_extent_async", ..LATER },
    Function { name: c"H5Dwrite_multi_async", list: Some(4), ..LATER },
    Function { name: c"H5Dread_multi_async", list: Some(4), ..LATER },
    Function { name: c"H5Ocopy_async", objects: &[3, 5], ..LATER },
];

/// These functions in one HDF5, by their numbers; null where it has none.
pub(crate) struct Needing(pub(crate) [*mut c_void; FUNCTIONS.len()]);

impl Needing {
    pub(crate) fn look_up(find: impl Fn(&CStr) -> *mut c_void) -> Self {
        Self(std::array::from_fn(|number| FUNCTIONS.get(number).map_or(std::ptr::null_mut(), |known| find(known.name))))
    }
}
