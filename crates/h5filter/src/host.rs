//! The HDF5 library that called: found by the address that the call returns to.
//!
//! A process may hold several HDF5 libraries, each private to a Python package, and identifiers of one mean nothing to
//! another. So the first return address outside this object says which library called, and its functions are looked up
//! in that object alone.

use knarr_array::{Error, Result};
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
            fn of(object: &Object) -> Option<Self> {
                Some(Self {
                    $($name: {
                        let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()).ok()?;
                        let address = object.symbol(name)?;
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
pub(crate) struct Host {
    pub(crate) functions: Functions,
    push: Option<Push>,
    /// Error classes: the library, the pipeline, setting up, filtering.
    classes: [Variable; 4],
}

/// Where an identifier may be that HDF5 keeps in a variable; zeros if there is none. Linkers give an executable that
/// names the variable a copy of it, which the library then uses instead of its own.
type Variable = [usize; 2];

/// The identifier: the variable that is not in use stays as HDF5 declares it, which is no identifier.
fn identifier(variable: Variable) -> Option<Id> {
    // SAFETY: the addresses that are not zero are those of HDF5's variables, in objects that stay loaded.
    let read = |address: &usize| unsafe { (*address as *const Id).as_ref() }.copied();
    variable.iter().filter_map(read).find(|&id| id > 0)
}

/// A loaded shared object.
struct Object {
    base: usize,
    handle: *mut c_void,
}

impl Object {
    /// The object that holds `address`.
    fn of(address: usize) -> Option<Self> {
        let (base, name) = place(address)?;
        // SAFETY: the name is one that the loader gave; NOLOAD opens nothing new.
        let mut handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            // The main program is not known to the loader by its name.
            // SAFETY: null asks for the main program.
            handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        }
        (!handle.is_null()).then_some(Self { base, handle })
    }

    /// Address of a symbol that this object itself defines.
    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open and the name a C string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        // Objects that this one depends on are searched too, and may hold another HDF5.
        let (base, _) = place(address as usize)?;
        (base == self.base).then_some(address)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the handle came from `dlopen`. The library stays loaded: it is on the stack.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// Start and name of the object that holds `address`.
fn place(address: usize) -> Option<(usize, *const c_char)> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked for; `info` is a valid place for the answer.
    let found = unsafe { libc::dladdr(address as *const c_void, &raw mut info) };
    (found != 0 && !info.dli_fname.is_null()).then_some((info.dli_fbase as usize, info.dli_fname))
}

/// Start of the object that holds `address`, of which there are few: the places where HDF5 calls and those in between.
/// Asked once for each, because the loader looks through all symbols of an object.
fn base(address: usize) -> Option<usize> {
    static KNOWN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(base) = known.get(&address) {
        return Some(*base);
    }
    let (base, _) = place(address)?;
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

impl Host {
    /// The HDF5 that called, if it shows its functions. Looked up once for each library.
    pub(crate) fn of_caller() -> Option<&'static Self> {
        static KNOWN: Mutex<Vec<(usize, Option<&'static Host>)>> = Mutex::new(Vec::new());
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
        let object = Object::of(address)?;
        let class = |name: &CStr| {
            // SAFETY: the name is a C string.
            let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            [object.symbol(name).map_or(0, |address| address as usize), first as usize]
        };
        let classes = [c"H5E_ERR_CLS_g", c"H5E_PLINE_g", c"H5E_SETLOCAL_g", c"H5E_CANTFILTER_g"].map(class);
        let push = object.symbol(c"H5Epush2");
        // SAFETY: the symbol is HDF5's function of that name, whose type the headers give.
        let push = push.map(|address| unsafe { std::mem::transmute::<*mut c_void, Push>(address) });
        Some(Self { functions: Functions::of(&object)?, push, classes })
    }

    /// Puts a message on the error stack of the calling thread.
    pub(crate) fn push_error(&self, minor: Minor, message: &str) {
        let Some(push) = self.push else { return };
        let Ok(message) = CString::new(message.replace('\0', " ")) else { return };
        let [class, major, set_local, cant_filter] = self.classes.map(identifier);
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
