//! Code that is loaded into other programs has to call the library of its caller: HDF5, or PnetCDF.
//!
//! A process may hold several of them, each private to a Python package or a plugin, and identifiers of one mean nothing to
//! another. An address in the calling code says which object it lies in, an executable or a library. The functions of the
//! right library are looked up from there.

mod cache;

pub use cache::Cache;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// An HDF5 identifier. Before HDF5 1.10 it had 32 bits; registers carry both alike.
pub type Hid = i64;

/// An executable or library in this process.
pub struct Object {
    base: usize,
    /// Null for the executable, and for what is no object.
    name: *const c_char,
}

impl Object {
    /// The object that holds `address`.
    pub fn holding(address: usize) -> Self {
        let (base, name) = object_at(address as *const c_void);
        Self { base, name }
    }

    /// Where it is loaded; 0 if the address was in no object.
    pub fn base(&self) -> usize {
        self.base
    }

    /// What `dlsym` takes. It is never given back: the object then stays loaded, and what is cached for it right.
    fn handle(&self) -> Option<*mut c_void> {
        if self.name.is_null() {
            return None;
        }
        // SAFETY: the name is NUL-terminated and belongs to the loader; NOLOAD opens nothing new.
        let handle = unsafe { libc::dlopen(self.name, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(handle)
    }

    /// Finds what calls of its code lead to, other than to this object. For the executable, and where a look-up leads back
    /// here, that is the next definition in the global order.
    pub fn linked(&self) -> impl Fn(&CStr) -> *mut c_void + use<> {
        let own = own_base();
        let handle = if self.base == own { None } else { self.handle() };
        move |name| {
            let found = handle.map_or(std::ptr::null_mut(), |handle| symbol(handle, name));
            if found.is_null() || object_at(found).0 == own { symbol(libc::RTLD_NEXT, name) } else { found }
        }
    }

    /// Finds what it defines itself; null for all else. Objects that it depends on may hold another HDF5.
    pub fn defined(&self) -> impl Fn(&CStr) -> *mut c_void + use<> {
        // SAFETY: null asks for the main program, which the loader does not know by its name.
        let main = || unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        let (base, handle) = (self.base, self.handle().unwrap_or_else(main));
        move |name| {
            let found = if handle.is_null() { handle } else { symbol(handle, name) };
            if found.is_null() || object_at(found).0 != base { std::ptr::null_mut() } else { found }
        }
    }
}

/// The first definition in the global order; null if there is none.
pub fn first(name: &CStr) -> *mut c_void {
    symbol(libc::RTLD_DEFAULT, name)
}

/// Forgets look-ups that failed: they must not show in the program's next `dlerror`.
pub fn forget_failures() {
    // SAFETY: `dlerror` has no preconditions.
    unsafe { libc::dlerror() };
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the handle is one of the loader's, or RTLD_NEXT or RTLD_DEFAULT; the name is NUL-terminated.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}

/// Where an identifier may be that HDF5 keeps in a variable: in the library, or in the first object of the program that
/// has a variable of this name. Linkers give an executable that names HDF5's variable a copy of it, which the library then
/// uses instead of its own.
pub struct Identifier([*const Hid; 2]);

impl Identifier {
    /// The variable called `name`, which `find` finds in the library.
    ///
    /// # Safety
    /// Variables of this name hold an identifier of HDF5, and `find` finds them in objects that stay loaded.
    pub unsafe fn new(name: &CStr, find: impl Fn(&CStr) -> *mut c_void) -> Self {
        Self([find(name).cast(), first(name).cast()])
    }

    /// Its value; `None` if HDF5 is not open, or shows no such variable. The variable that is not in use stays as
    /// HDF5 declares it, which is no identifier.
    pub fn id(&self) -> Option<Hid> {
        // SAFETY: null, or as was promised when this was made.
        self.0.iter().filter_map(|place| unsafe { place.as_ref() }).copied().find(|&id| id > 0)
    }
}

// SAFETY: addresses of variables that HDF5 sets while it opens, before a program has a file open.
unsafe impl Sync for Identifier {}
// SAFETY: as above; they belong to no thread.
unsafe impl Send for Identifier {}

/// Where the object around an address is loaded, and its name; zero and null if it is in none, and null for the
/// executable. `dladdr` would look through all symbols of the object for the nearest, which takes longer than
/// everything else that Knarr does in a program.
fn object_at(address: *const c_void) -> (usize, *const c_char) {
    let Search { range, name, .. } = found(address);
    (range.start, name)
}

/// The object around an address; an empty range if it is in none.
fn found(address: *const c_void) -> Search {
    let mut search = Search { address: address as usize, range: 0..0, name: std::ptr::null() };
    // SAFETY: `visit` takes the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search
}

struct Search {
    address: usize,
    /// All that is loaded of the object.
    range: Range<usize>,
    name: *const c_char,
}

/// Ends the walk at the object that holds the address.
unsafe extern "C" fn visit(object: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object, and the search that `object_at` passed, which nothing else uses meanwhile.
    let (object, search) = unsafe { (&*object, &mut *data.cast::<Search>()) };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    let bias = usize::try_from(object.dlpi_addr).unwrap_or(0);
    // SAFETY: the loader says how many segments there are.
    let segments = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let mut loaded = segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD).filter_map(|segment| {
        let start = bias.wrapping_add(usize::try_from(segment.p_vaddr).ok()?);
        Some(start..start.wrapping_add(usize::try_from(segment.p_memsz).ok()?))
    });
    let Some(first) = loaded.next() else { return 0 };
    let (mut end, mut is_within) = (first.end, first.contains(&search.address));
    for segment in loaded {
        is_within |= segment.contains(&search.address);
        end = end.max(segment.end);
    }
    if !is_within {
        return 0;
    }
    search.range = first.start..end;
    // SAFETY: the loader's names are null or C strings that live as long as the object.
    let is_named = unsafe { object.dlpi_name.as_ref() }.is_some_and(|first| *first != 0);
    search.name = if is_named { object.dlpi_name } else { std::ptr::null() };
    1
}

/// True if a library is loaded whose file name begins so.
pub fn has_loaded(name: &str) -> bool {
    let mut wanted = Wanted { name, is_found: false };
    // SAFETY: `is_wanted` takes what is looked for, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(is_wanted), (&raw mut wanted).cast()) };
    wanted.is_found
}

struct Wanted<'n> {
    name: &'n str,
    is_found: bool,
}

/// Ends the walk at an object of the wanted name.
unsafe extern "C" fn is_wanted(object: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object, and what `has_loaded` passed, which nothing else uses meanwhile.
    let (object, wanted) = unsafe { (&*object, &mut *data.cast::<Wanted<'_>>()) };
    if object.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are C strings that live as long as the object.
    let path = unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    wanted.is_found = name.starts_with(wanted.name.as_bytes());
    c_int::from(wanted.is_found)
}

fn own_base() -> usize {
    object_at(own_base as *const c_void).0
}

/// True for an address in this object: it has called a library itself, and that has called on.
pub fn is_own(address: usize) -> bool {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    OWN.get_or_init(|| found(own_base as *const c_void).range).contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_hold_their_own_code_and_find_what_they_define() {
        let own = Object::holding(own_base as *const () as usize);
        assert!(own.base() > 0);
        assert_eq!(own.base(), Object::holding(symbol as *const () as usize).base());
        let malloc = first(c"malloc");
        let library = Object::holding(malloc as usize);
        assert!(!malloc.is_null() && library.base() != own.base());
        assert_eq!(library.defined()(c"malloc"), malloc);
        assert!(own.defined()(c"malloc").is_null(), "another object defines it");
        assert!(!own.linked()(c"malloc").is_null());
        assert!(library.defined()(c"knarr_is_nowhere").is_null() && own.linked()(c"knarr_is_nowhere").is_null());
        forget_failures();
        assert_eq!(Object::holding(16).base(), 0);
        assert!(is_own(own_base as *const () as usize) && !is_own(malloc as usize) && !is_own(0));
    }

    #[test]
    fn libraries_are_known_by_the_beginning_of_their_names() {
        assert!(has_loaded("libc.so") && !has_loaded("ibc") && !has_loaded("libnowhere"));
    }

    #[test]
    fn a_variable_that_is_not_there_holds_no_identifier() {
        // SAFETY: there is no such variable.
        let variable = unsafe { Identifier::new(c"knarr_is_nowhere", |_| std::ptr::null_mut()) };
        assert_eq!(variable.id(), None);
    }
}
