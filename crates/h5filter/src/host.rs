//! The HDF5 library that called: found by the address that the call returns to.
//!
//! The first return address outside this object says which library called; its functions are looked up in that object
//! alone.

use knarr_array::{Error, Result};
use knarr_caller::{Identifier, Object, forget_failures};
use knarr_native::plugin::abi::Id;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

/// Minor class of an error.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Minor {
    SetLocal,
    CantFilter,
}

type Push = unsafe extern "C" fn(
    stack: Id,
    file: *const c_char,
    function: *const c_char,
    line: c_uint,
    class: Id,
    major: Id,
    minor: Id,
    format: *const c_char,
    ...
) -> c_int;

/// Declares the functions that are looked up, with the types of HDF5's public headers.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty,)*) => {
        /// Functions of one HDF5 library.
        #[expect(non_snake_case, reason = "names are those of HDF5")]
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn of(find: impl Fn(&CStr) -> *mut c_void) -> Option<Self> {
                Some(Self {
                    $($name: {
                        let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).ok()?;
                        let address = Some(find(name)).filter(|address| !address.is_null())?;
                        // SAFETY: the symbol is HDF5's function of that name, whose type the headers give.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    H5Tget_class: fn(Id) -> c_int,
    H5Tget_size: fn(Id) -> usize,
    H5Tget_order: fn(Id) -> c_int,
    H5Tget_sign: fn(Id) -> c_int,
    H5Tget_super: fn(Id) -> Id,
    H5Tclose: fn(Id) -> c_int,
    H5Tget_fields: fn(Id, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int,
    H5Tget_ebias: fn(Id) -> usize,
    H5Tget_norm: fn(Id) -> c_int,
    H5Pget_chunk: fn(Id, c_int, *mut u64) -> c_int,
    H5Pfill_value_defined: fn(Id, *mut c_int) -> c_int,
    H5Pget_fill_value: fn(Id, Id, *mut c_void) -> c_int,
    H5Pget_nfilters: fn(Id) -> c_int,
    H5Pget_filter2: fn(Id, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int,
    H5Pmodify_filter: fn(Id, c_int, c_uint, usize, *const c_uint) -> c_int,
    H5allocate_memory: fn(usize, u8) -> *mut c_void,
    H5free_memory: fn(*mut c_void) -> c_int,
}

/// One HDF5 library of the process. Never unloaded while it calls.
pub(crate) struct CallerHdf5 {
    pub(crate) functions: Functions,
    push: Option<Push>,
    /// Error classes: the library, the pipeline, setting up, filtering.
    classes: [Identifier; 4],
}

/// Start of the object that holds `address`, of which there are few: the places where HDF5 calls and those in between.
/// Asked once for each, because the loader looks through all symbols of an object.
fn base(address: usize) -> Option<usize> {
    static KNOWN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(base) = known.get(&address) {
        return Some(*base);
    }
    let base = Some(Object::holding(address).base()).filter(|&base| base > 0)?;
    known.insert(address, base);
    Some(base)
}

// The unwinder that every Rust program links; `std` does not hand out addresses.
unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Search {
    own: usize,
    found: usize,
}

/// Ends the walk at the first return address outside this object.
extern "C" fn visit(context: *mut c_void, data: *mut c_void) -> c_int {
    const CONTINUE: c_int = 0;
    const END: c_int = 4;
    // SAFETY: `data` is the search that `caller` passes, and nothing else uses it meanwhile.
    let search = unsafe { &mut *data.cast::<Search>() };
    // SAFETY: the unwinder passes a valid context.
    let address = unsafe { _Unwind_GetIP(context) };
    match base(address) {
        Some(base) if base == search.own => CONTINUE,
        _ => {
            search.found = address;
            END
        }
    }
}

/// An address in the object that called this one.
fn caller() -> Option<usize> {
    let own = base(caller as *const () as usize)?;
    let mut search = Search { own, found: 0 };
    // SAFETY: `visit` takes the search that is passed and does not unwind.
    unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    (search.found != 0).then_some(search.found)
}

impl CallerHdf5 {
    /// The HDF5 that called, if it shows its functions. Looked up once for each library.
    pub(crate) fn of_caller() -> Option<&'static Self> {
        static KNOWN: Mutex<Vec<(usize, Option<&'static CallerHdf5>)>> = Mutex::new(Vec::new());
        let address = caller()?;
        let base = base(address)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, host)) = known.iter().find(|(other, _)| *other == base) {
            return *host;
        }
        let host = Self::in_object(address).map(|host| &*Box::leak(Box::new(host)));
        known.push((base, host));
        host
    }

    fn in_object(address: usize) -> Option<Self> {
        let find = Object::holding(address).defined();
        let names = [c"H5E_ERR_CLS_g", c"H5E_PLINE_g", c"H5E_SETLOCAL_g", c"H5E_CANTFILTER_g"];
        // SAFETY: HDF5's headers give variables of these names, and what is found stays loaded.
        let classes = names.map(|name| unsafe { Identifier::new(name, &find) });
        let push = Some(find(c"H5Epush2")).filter(|address| !address.is_null());
        // SAFETY: the symbol is HDF5's function of that name, whose type the headers give.
        let push = push.map(|address| unsafe { std::mem::transmute::<*mut c_void, Push>(address) });
        let functions = Functions::of(find)?;
        forget_failures();
        Some(Self { functions, push, classes })
    }

    /// Puts a message on the error stack of the calling thread.
    pub(crate) fn push_error(&self, minor: Minor, message: &str) {
        let Some(push) = self.push else { return };
        let Ok(message) = CString::new(message.replace('\0', " ")) else { return };
        let [class, major, set_local, cant_filter] = self.classes.each_ref().map(Identifier::id);
        let minor = match minor {
            Minor::SetLocal => set_local,
            Minor::CantFilter => cant_filter,
        };
        let (Some(class), Some(major), Some(minor)) = (class, major, minor) else { return };
        let (place, function) = (c"knarr".as_ptr(), c"filter".as_ptr());
        // SAFETY: the message is a C string behind a format that takes one. Stack 0 is `H5E_DEFAULT`.
        unsafe { push(0, place, function, 0, class, major, minor, c"%s".as_ptr(), message.as_ptr()) };
    }

    /// Memory that HDF5 may free. Its own functions are right in every build; where it does not show them, `malloc` is
    /// what all versions use unless they were built to check their memory.
    ///
    /// # Errors
    /// `Unsupported` if there is no memory.
    pub(crate) fn allocate(host: Option<&Self>, length: usize) -> Result<*mut c_void> {
        let start = match host {
            // SAFETY: HDF5 takes any size and returns a buffer or null.
            Some(host) => unsafe { (host.functions.H5allocate_memory)(length, 0) },
            // SAFETY: as above.
            None => unsafe { libc::malloc(length) },
        };
        if start.is_null() {
            return Err(Error::unsupported(format!("{length} bytes of memory are not available")));
        }
        Ok(start)
    }

    /// Frees a buffer that HDF5 gave to the filter.
    pub(crate) fn release(host: Option<&Self>, start: *mut c_void) {
        match host {
            Some(host) => {
                // SAFETY: the buffer is HDF5's and is not used again.
                unsafe { (host.functions.H5free_memory)(start) };
            }
            // SAFETY: as above; without its functions HDF5's buffers come from `malloc`.
            None => unsafe { libc::free(start) },
        }
    }
}
