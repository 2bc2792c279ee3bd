//! The HDF5 that a caller uses: a process may have several, those of Python wheels visible to nobody else.
//!
//! The address a call returns to lies in the calling object, and leads to the HDF5 it is linked to.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use knarr_caller::{Cache, Identifier, Object, forget_failures};

pub(crate) use knarr_caller::Hid;

use crate::needing::Needing;
use knarr_captured::guard;

/// Result of calls that return no identifier: negative for failure.
pub(crate) type Herr = c_int;

/// Declares the functions of HDF5 that are called, each of them absent where the library has none of that name.
macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// Functions of one HDF5 library.
        pub(crate) struct CallerHdf5 {
            $(pub(crate) $field: Option<unsafe extern "C" fn($($argument),*) -> $result>,)*
            /// Classes of property lists.
            pub(crate) creation_class: Identifier,
            pub(crate) file_access_class: Identifier,
            /// Functions that are called with whatever arguments they have.
            pub(crate) needing: Needing,
            /// Filters that it has, once that was asked.
            pub(crate) filters: std::sync::OnceLock<knarr_codec::codec::FilterSet>,
            /// Whether it has Knarr's filter, once that was tried.
            pub(crate) own_filter: std::sync::OnceLock<Result<(), String>>,
        }

        impl CallerHdf5 {
            fn look_up(find: impl Fn(&CStr) -> *mut c_void) -> Self {
                // SAFETY: HDF5's headers give variables of these names, and what is found stays loaded.
                let class = |name: &CStr| unsafe { Identifier::new(name, &find) };
                Self {
                    $($field: {
                        let address = find($symbol);
                        // SAFETY: a null pointer is `None`; any other is the function that HDF5 documents under this
                        // name, with these arguments since HDF5 1.10.
                        unsafe {
                            std::mem::transmute::<*mut c_void, Option<unsafe extern "C" fn($($argument),*) -> $result>>(
                                address,
                            )
                        }
                    },)*
                    creation_class: class(c"H5P_CLS_DATASET_CREATE_ID_g"),
                    file_access_class: class(c"H5P_CLS_FILE_ACCESS_ID_g"),
                    needing: Needing::look_up(&find),
                    filters: std::sync::OnceLock::new(),
                    own_filter: std::sync::OnceLock::new(),
                }
            }
        }
    };
}

functions! {
    file_create = c"H5Fcreate" (*const c_char, c_uint, Hid, Hid) -> Hid;
    file_open = c"H5Fopen" (*const c_char, c_uint, Hid) -> Hid;
    file_close = c"H5Fclose" (Hid) -> Herr;
    release = c"H5Idec_ref" (Hid) -> c_int;
    close_library = c"H5close" () -> Herr;
    filter_available = c"H5Zfilter_avail" (c_int) -> c_int;
    register_filter = c"H5Zregister" (*const c_void) -> Herr;
    errors_are_v2 = c"H5Eauto_is_v2" (Hid, *mut c_uint) -> Herr;
    get_handler_1 = c"H5Eget_auto1" (*mut *mut c_void, *mut *mut c_void) -> Herr;
    set_handler_1 = c"H5Eset_auto1" (*mut c_void, *mut c_void) -> Herr;
    get_handler_2 = c"H5Eget_auto2" (Hid, *mut *mut c_void, *mut *mut c_void) -> Herr;
    set_handler_2 = c"H5Eset_auto2" (Hid, *mut c_void, *mut c_void) -> Herr;
    clear_errors = c"H5Eclear2" (Hid) -> Herr;
    create_1 = c"H5Dcreate1" (Hid, *const c_char, Hid, Hid, Hid) -> Hid;
    create_2 = c"H5Dcreate2" (Hid, *const c_char, Hid, Hid, Hid, Hid, Hid) -> Hid;
    create_unnamed = c"H5Dcreate_anon" (Hid, Hid, Hid, Hid, Hid) -> Hid;
    write = c"H5Dwrite" (Hid, Hid, Hid, Hid, Hid, *const c_void) -> Herr;
    read = c"H5Dread" (Hid, Hid, Hid, Hid, Hid, *mut c_void) -> Herr;
    gather = c"H5Dgather" (Hid, *const c_void, Hid, usize, *mut c_void, Option<TakeGathered>, *mut c_void) -> Herr;
    scatter = c"H5Dscatter" (Option<GiveScattered>, *mut c_void, Hid, Hid, *mut c_void) -> Herr;
    set_extent = c"H5Dset_extent" (Hid, *const u64) -> Herr;
    write_many = c"H5Dwrite_multi"
        (usize, *const Hid, *const Hid, *const Hid, *const Hid, Hid, *const *const c_void) -> Herr;
    read_many = c"H5Dread_multi"
        (usize, *const Hid, *const Hid, *const Hid, *const Hid, Hid, *const *mut c_void) -> Herr;
    space_of = c"H5Dget_space" (Hid) -> Hid;
    type_of = c"H5Dget_type" (Hid) -> Hid;
    write_chunk = c"H5Dwrite_chunk" (Hid, Hid, u32, *const u64, usize, *const c_void) -> Herr;
    creation_of = c"H5Dget_create_plist" (Hid) -> Hid;
    file_name = c"H5Fget_name" (Hid, *mut c_char, usize) -> isize;
    open_count = c"H5Fget_obj_count" (Hid, c_uint) -> isize;
    open_ones = c"H5Fget_obj_ids" (Hid, c_uint, usize, *mut Hid) -> isize;
    open_object = c"H5Oopen" (Hid, *const c_char, Hid) -> Hid;
    visit = c"H5Ovisit" (Hid, c_int, c_int, Option<See>, *mut c_void, c_uint) -> Herr;
    visit_1 = c"H5Ovisit1" (Hid, c_int, c_int, Option<See>, *mut c_void, c_uint) -> Herr;
    visit_2 = c"H5Ovisit2" (Hid, c_int, c_int, Option<See>, *mut c_void, c_uint) -> Herr;
    visit_3 = c"H5Ovisit3" (Hid, c_int, c_int, Option<See>, *mut c_void, c_uint) -> Herr;
    kind_of = c"H5Iget_type" (Hid) -> c_int;
    flush = c"H5Fflush" (Hid, c_int) -> Herr;
    atomicity = c"H5Fget_mpi_atomicity" (Hid, *mut u8) -> Herr;
    set_atomicity = c"H5Fset_mpi_atomicity" (Hid, c_uint) -> Herr;
    copy_object = c"H5Ocopy" (Hid, *const c_char, Hid, *const c_char, Hid, Hid) -> Herr;
    object_name = c"H5Iget_name" (Hid, *mut c_char, usize) -> isize;
    object_info = c"H5Gget_objinfo" (Hid, *const c_char, c_int, *mut c_void) -> Herr;
    file_of = c"H5Iget_file_id" (Hid) -> Hid;
    file_access = c"H5Fget_access_plist" (Hid) -> Hid;
    is_parallel = c"H5Pget_fapl_mpio" (Hid, *mut c_void, *mut c_void) -> Herr;
    is_collective = c"H5Pget_dxpl_mpio" (Hid, *mut c_int) -> Herr;
    set_serial = c"H5Pset_fapl_sec2" (Hid) -> Herr;
    close_degree = c"H5Pget_fclose_degree" (Hid, *mut c_int) -> Herr;
    set_close_degree = c"H5Pset_fclose_degree" (Hid, c_int) -> Herr;
    set_alignment = c"H5Pset_alignment" (Hid, u64, u64) -> Herr;
    driver = c"H5Pget_driver" (Hid) -> Hid;
    is_in_memory = c"H5Pget_fapl_core" (Hid, *mut c_void, *mut c_void) -> Herr;
    type_class = c"H5Tget_class" (Hid) -> c_int;
    type_size = c"H5Tget_size" (Hid) -> usize;
    is_variable_string = c"H5Tis_variable_str" (Hid) -> c_int;
    types_equal = c"H5Tequal" (Hid, Hid) -> c_int;
    member_count = c"H5Tget_nmembers" (Hid) -> c_int;
    member_type = c"H5Tget_member_type" (Hid, c_uint) -> Hid;
    member_name = c"H5Tget_member_name" (Hid, c_uint) -> *mut c_char;
    member_number = c"H5Tget_member_index" (Hid, *const c_char) -> c_int;
    member_offset = c"H5Tget_member_offset" (Hid, c_uint) -> usize;
    new_type = c"H5Tcreate" (c_int, usize) -> Hid;
    insert_member = c"H5Tinsert" (Hid, *const c_char, usize, Hid) -> Herr;
    free_memory = c"H5free_memory" (*mut c_void) -> Herr;
    base_type = c"H5Tget_super" (Hid) -> Hid;
    convert = c"H5Tconvert" (Hid, Hid, usize, *mut c_void, *mut c_void, Hid) -> Herr;
    is_regular = c"H5Sis_regular_hyperslab" (Hid) -> c_int;
    regular = c"H5Sget_regular_hyperslab" (Hid, *mut u64, *mut u64, *mut u64, *mut u64) -> Herr;
    block_count = c"H5Sget_select_hyper_nblocks" (Hid) -> i64;
    blocks = c"H5Sget_select_hyper_blocklist" (Hid, u64, u64, *mut u64) -> Herr;
    points = c"H5Sget_select_elem_pointlist" (Hid, u64, u64, *mut u64) -> Herr;
    selection_kind = c"H5Sget_select_type" (Hid) -> c_int;
    selection_bounds = c"H5Sget_select_bounds" (Hid, *mut u64, *mut u64) -> Herr;
    selection_count = c"H5Sget_select_npoints" (Hid) -> i64;
    new_space = c"H5Screate_simple" (c_int, *const u64, *const u64) -> Hid;
    select_hyperslab = c"H5Sselect_hyperslab" (Hid, c_int, *const u64, *const u64, *const u64, *const u64) -> Herr;
    space_kind = c"H5Sget_simple_extent_type" (Hid) -> c_int;
    space_rank = c"H5Sget_simple_extent_ndims" (Hid) -> c_int;
    space_extents = c"H5Sget_simple_extent_dims" (Hid, *mut u64, *mut u64) -> c_int;
    new_list = c"H5Pcreate" (Hid) -> Hid;
    copy_list = c"H5Pcopy" (Hid) -> Hid;
    close_list = c"H5Pclose" (Hid) -> Herr;
    transform = c"H5Pget_data_transform" (Hid, *mut c_char, usize) -> isize;
    chunk = c"H5Pget_chunk" (Hid, c_int, *mut u64) -> c_int;
    layout = c"H5Pget_layout" (Hid) -> c_int;
    external_count = c"H5Pget_external_count" (Hid) -> c_int;
    allocation_time = c"H5Pget_alloc_time" (Hid, *mut c_int) -> Herr;
    set_allocation_time = c"H5Pset_alloc_time" (Hid, c_int) -> Herr;
    filter_count = c"H5Pget_nfilters" (Hid) -> c_int;
    filter = c"H5Pget_filter2"
        (Hid, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
    fill_is_defined = c"H5Pfill_value_defined" (Hid, *mut c_int) -> Herr;
    fill_value = c"H5Pget_fill_value" (Hid, Hid, *mut c_void) -> Herr;
}

/// What `H5Ovisit` calls for each object: a group, its name below that, what HDF5 tells of it, and the caller's data.
pub(crate) type See = unsafe extern "C" fn(Hid, *const c_char, *const c_void, *mut c_void) -> Herr;

/// What `H5Dgather` calls for the elements it has gathered: where they are, their bytes, and the caller's data.
pub(crate) type TakeGathered = unsafe extern "C" fn(*const c_void, usize, *mut c_void) -> Herr;

/// What `H5Dscatter` calls for elements: a place for where they are, one for their bytes, and the caller's data.
pub(crate) type GiveScattered = unsafe extern "C" fn(*mut *const c_void, *mut usize, *mut c_void) -> Herr;

// SAFETY: addresses of functions and of variables that HDF5 sets while it opens, before a program has a file open.
unsafe impl Sync for CallerHdf5 {}

/// By the address a call returns to.
static CALLS: Cache<CallerHdf5, 4096> = Cache::new();
/// By the address an object is loaded at.
static OBJECTS: Cache<CallerHdf5, 256> = Cache::new();

impl CallerHdf5 {
    /// The HDF5 that the code at `caller` uses.
    pub(crate) fn of(caller: usize) -> &'static Self {
        if let Some(host) = CALLS.get(caller) {
            return host;
        }
        let object = Object::holding(caller);
        let known = OBJECTS.get(object.base());
        let host = known.unwrap_or_else(|| {
            let found: &'static Self = Box::leak(Box::new(functions(&object)));
            OBJECTS.put(object.base(), found);
            found
        });
        CALLS.put(caller, host);
        if known.is_none() {
            guard((), knarr_capture::program::calls);
        }
        host
    }
}

impl CallerHdf5 {
    /// True for the identifier of a file.
    pub(crate) fn is_file(&self, id: Hid) -> bool {
        /// `H5I_FILE`.
        const FILE: c_int = 1;
        // SAFETY: any number may be asked about.
        self.kind_of.is_some_and(|kind| unsafe { kind(id) } == FILE)
    }
}

fn functions(object: &Object) -> CallerHdf5 {
    let host = CallerHdf5::look_up(object.linked());
    forget_failures();
    host
}
