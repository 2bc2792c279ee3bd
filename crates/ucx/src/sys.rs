//! The calls of UCX, as its headers `ucp.h` and `ucp_def.h` declare them, and what owns their handles.
//!
//! Structures end with the last field that is used: UCX reads only fields whose bit is in the mask. What UCX reads and writes
//! while an operation is under way are buffers of the [`Worker`], which nobody sees until the operation has ended.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicI8, Ordering};
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// `ucs_status_t`, an enum packed to one byte.
type Status = i8;
const OK: Status = 0;
const IN_PROGRESS: Status = 1;
const BUSY: Status = -15;
/// The oldest API that has all calls: what is declared here is as it was then.
const API: (c_uint, c_uint) = (1, 10);
/// How long the end of a worker may take.
const CLOSING: Duration = Duration::from_millis(100);
/// Without opening a library that nobody has opened.
const RTLD_NOLOAD: c_int = 4;

#[repr(C)]
struct ContextParams {
    mask: u64,
    features: u64,
    request_size: usize,
    request_init: *const c_void,
    request_cleanup: *const c_void,
    tag_sender_mask: u64,
    workers_shared: c_int,
}

#[repr(C)]
struct WorkerParams {
    mask: u64,
    thread_mode: c_int,
    cpus: [u64; 16],
    events: c_uint,
    user_data: *const c_void,
    event_fd: c_int,
    flags: u64,
}

type OnError = extern "C" fn(*const AtomicI8, *mut c_void, Status);

#[repr(C)]
struct EndpointParams {
    mask: u64,
    address: *const c_void,
    error_mode: c_int,
    on_error: OnError,
    on_error_argument: *const AtomicI8,
}

#[repr(C)]
struct RequestParams {
    mask: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Received {
    tag: u64,
    length: usize,
}

/// Declares the functions that are called, and how they are found.
macro_rules! calls {
    ($($name:ident: $symbol:literal = fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Calls { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Calls {
            fn of(library: &Library) -> Result<Self, libloading::Error> {
                // SAFETY: the types are those of the functions in ucp.h.
                Ok(unsafe { Self { $($name: *library.get(concat!($symbol, "\0").as_bytes())?,)* } })
            }
        }
    };
}

calls! {
    get_version: "ucp_get_version" = fn(*mut c_uint, *mut c_uint, *mut c_uint);
    config_read: "ucp_config_read" = fn(*const c_char, *const c_char, *mut *mut c_void) -> Status;
    config_release: "ucp_config_release" = fn(*mut c_void);
    init: "ucp_init_version"
        = fn(c_uint, c_uint, *const ContextParams, *const c_void, *mut *mut c_void) -> Status;
    worker_create: "ucp_worker_create" = fn(*mut c_void, *const WorkerParams, *mut *mut c_void) -> Status;
    worker_destroy: "ucp_worker_destroy" = fn(*mut c_void);
    worker_address: "ucp_worker_get_address" = fn(*mut c_void, *mut *mut c_void, *mut usize) -> Status;
    worker_release_address: "ucp_worker_release_address" = fn(*mut c_void, *mut c_void);
    worker_fd: "ucp_worker_get_efd" = fn(*mut c_void, *mut c_int) -> Status;
    worker_arm: "ucp_worker_arm" = fn(*mut c_void) -> Status;
    worker_progress: "ucp_worker_progress" = fn(*mut c_void) -> c_uint;
    endpoint_create: "ucp_ep_create" = fn(*mut c_void, *const EndpointParams, *mut *mut c_void) -> Status;
    endpoint_close: "ucp_ep_close_nbx" = fn(*mut c_void, *const RequestParams) -> isize;
    send: "ucp_tag_send_nbx" = fn(*mut c_void, *const c_void, usize, u64, *const RequestParams) -> isize;
    receive: "ucp_tag_recv_nbx" = fn(*mut c_void, *mut c_void, usize, u64, u64, *const RequestParams) -> isize;
    receive_test: "ucp_tag_recv_request_test" = fn(*mut c_void, *mut Received) -> Status;
    request_status: "ucp_request_check_status" = fn(*mut c_void) -> Status;
    request_cancel: "ucp_request_cancel" = fn(*mut c_void, *mut c_void);
    request_free: "ucp_request_free" = fn(*mut c_void);
    status_text: "ucs_status_string" = fn(Status) -> *const c_char;
}

impl Calls {
    fn error(&self, what: &str, status: Status) -> String {
        // SAFETY: it returns text that lives as long as the library.
        let text = unsafe { CStr::from_ptr((self.status_text)(status)) };
        format!("{what}: {}", text.to_string_lossy())
    }

    fn check(&self, what: &str, status: Status) -> Result<(), String> {
        if status == OK { Ok(()) } else { Err(self.error(what, status)) }
    }

    fn checked(&self, status: Status) -> io::Result<()> {
        self.check("UCX", status).map_err(io::Error::other)
    }
}

/// UCX with what it found on this machine. Workers of several threads may share it.
pub(crate) struct Context {
    calls: Calls,
    handle: NonNull<c_void>,
    version: String,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "UCX {}", self.version)
    }
}

// SAFETY: it is made with `mt_workers_shared`, which lets threads use one context, and is never destroyed.
unsafe impl Send for Context {}
// SAFETY: as for `Send`.
unsafe impl Sync for Context {}

impl Context {
    /// Loads the library, and lets it look for devices.
    pub(crate) fn new() -> Result<Self, String> {
        let open = |name: &str, flags: c_int| {
            // SAFETY: opening runs constructors of UCX, which read variables of the environment and find out about processors.
            // What they change of the process is undone by `quiet`.
            unsafe { Library::open(Some(name), flags | RTLD_LOCAL) }.map_err(|error| error.to_string())
        };
        let is_used = open("libucs.so.0", RTLD_NOW | RTLD_NOLOAD).is_ok();
        let library = open("libucp.so.0", RTLD_NOW)?;
        let calls = Calls::of(&library).map_err(|error| error.to_string())?;
        // A program that uses UCX itself has its own wishes.
        if !is_used {
            quiet(&open("libucs.so.0", RTLD_NOW)?);
        }
        std::mem::forget(library);

        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: the pointers lead to numbers.
        unsafe { (calls.get_version)(&raw mut major, &raw mut minor, &raw mut release) };
        let version = format!("{major}.{minor}.{release}");
        if (major, minor) < API || major != API.0 {
            return Err(format!("UCX {version} is none of the versions from {}.{} on", API.0, API.1));
        }
        let mut config = ptr::null_mut();
        // SAFETY: without a prefix and a file it reads variables of the environment.
        let read = unsafe { (calls.config_read)(ptr::null(), ptr::null(), &raw mut config) };
        calls.check("its configuration", read)?;
        let params = ContextParams {
            // Features, and that workers of several threads share it.
            mask: 1 | 1 << 5,
            // Messages with tags, and being woken up.
            features: 1 | 1 << 4,
            request_size: 0,
            request_init: ptr::null(),
            request_cleanup: ptr::null(),
            tag_sender_mask: 0,
            workers_shared: 1,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the structures live while it runs, and it does not keep them.
        let status = unsafe { (calls.init)(API.0, API.1, &raw const params, config, &raw mut handle) };
        // SAFETY: `config_read` has made it.
        unsafe { (calls.config_release)(config) };
        calls.check("it finds nothing to communicate by", status)?;
        let handle = NonNull::new(handle).ok_or("it gives no context")?;
        Ok(Self { calls, handle, version })
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }
}

/// Takes back what loading UCX does to a process that has not asked for it: handlers of signals such as SIGSEGV, and
/// messages on its standard output.
fn quiet(ucs: &Library) {
    type Disable = unsafe extern "C" fn();
    type Set = unsafe extern "C" fn(*const c_char, *const c_char) -> Status;
    // SAFETY: the types are those of libucs; both only change settings. A version without them has nothing to change.
    unsafe {
        if let Ok(disable) = ucs.get::<Disable>(b"ucs_debug_disable_signals\0") {
            disable();
        }
        if std::env::var_os("UCX_LOG_LEVEL").is_none()
            && let Ok(set) = ucs.get::<Set>(b"ucs_global_opts_set_value\0")
        {
            set(c"LOG_LEVEL".as_ptr(), c"fatal".as_ptr());
        }
    }
}

/// A buffer that UCX may be reading or writing.
struct Buffer {
    bytes: NonNull<u8>,
    length: usize,
    /// Of the operation that is under way.
    request: Option<NonNull<c_void>>,
}

impl Buffer {
    fn new(length: usize) -> Self {
        let bytes = Box::leak(vec![0; length].into_boxed_slice());
        Self { bytes: NonNull::from(bytes).cast(), length, request: None }
    }
}

/// One side of a connection. One thread uses it at a time.
pub(crate) struct Worker {
    context: &'static Context,
    handle: NonNull<c_void>,
    endpoint: Option<NonNull<c_void>>,
    /// What the endpoint has failed with.
    failed: Arc<AtomicI8>,
    buffers: Vec<Buffer>,
}

// SAFETY: it is made with the mode SERIALIZED, which lets threads take turns; nothing here is shared with another one.
unsafe impl Send for Worker {}

extern "C" fn on_error(failed: *const AtomicI8, _: *mut c_void, status: Status) {
    // SAFETY: the worker keeps it, and closes the endpoint before it lets go.
    unsafe { &*failed }.store(status, Ordering::Relaxed);
}

impl Worker {
    /// With so many buffers of a length.
    pub(crate) fn new(context: &'static Context, buffers: usize, length: usize) -> io::Result<Self> {
        let params = WorkerParams {
            // Threads, and flags.
            mask: 1 | 1 << 5,
            // SERIALIZED.
            thread_mode: 1,
            cpus: [0; 16],
            events: 0,
            user_data: ptr::null(),
            event_fd: 0,
            // No warning of operations that had not ended.
            flags: 1,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the context is never destroyed; the structure lives while it runs.
        let status =
            unsafe { (context.calls.worker_create)(context.handle.as_ptr(), &raw const params, &raw mut handle) };
        context.calls.checked(status)?;
        let handle = NonNull::new(handle).ok_or_else(|| io::Error::other("UCX gives no worker"))?;
        let buffers = (0..buffers).map(|_| Buffer::new(length)).collect();
        Ok(Self { context, handle, endpoint: None, failed: Arc::default(), buffers })
    }

    fn calls(&self) -> &'static Calls {
        &self.context.calls
    }

    /// By which others reach it.
    pub(crate) fn address(&self) -> io::Result<Vec<u8>> {
        let (mut address, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the worker lives, and the pointers lead to places for the results.
        let status = unsafe { (self.calls().worker_address)(self.handle.as_ptr(), &raw mut address, &raw mut length) };
        self.calls().checked(status)?;
        // SAFETY: these are the bytes of the address, until it is released.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length) }.to_vec();
        // SAFETY: it came from this worker, and is not used again.
        unsafe { (self.calls().worker_release_address)(self.handle.as_ptr(), address) };
        Ok(bytes)
    }

    /// Connects to another one, whose address must come from a process that is trusted: UCX believes what it says.
    pub(crate) fn connect(&mut self, address: &[u8]) -> io::Result<()> {
        if self.endpoint.is_some() {
            return Err(io::Error::other("it is connected already"));
        }
        let params = EndpointParams {
            // Address, how errors are handled, and who handles them.
            mask: 1 | 1 << 1 | 1 << 2,
            address: address.as_ptr().cast(),
            // That the other side is gone is no reason to abort.
            error_mode: 1,
            on_error,
            on_error_argument: Arc::as_ptr(&self.failed),
        };
        let mut endpoint = ptr::null_mut();
        // SAFETY: the worker lives; the address is read while it runs.
        let status =
            unsafe { (self.calls().endpoint_create)(self.handle.as_ptr(), &raw const params, &raw mut endpoint) };
        self.calls().checked(status)?;
        self.endpoint = NonNull::new(endpoint);
        Ok(())
    }

    /// The bytes of a buffer with which nothing is under way.
    pub(crate) fn bytes(&mut self, buffer: usize) -> io::Result<&mut [u8]> {
        let is_idle = |buffer: &&Buffer| buffer.request.is_none();
        let in_use = || io::Error::other("a buffer is in use");
        let Buffer { bytes, length, .. } = self.buffers.get(buffer).filter(is_idle).ok_or_else(in_use)?;
        // SAFETY: UCX is done with it, and `self` is borrowed as long as the bytes are.
        Ok(unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr(), *length) })
    }

    /// Begins to send the first bytes of a buffer.
    pub(crate) fn send(&mut self, buffer: usize, length: usize, tag: u64) -> io::Result<()> {
        let endpoint = self.endpoint.ok_or(io::ErrorKind::NotConnected)?;
        let bytes =
            self.bytes(buffer)?.get(..length).ok_or_else(|| io::Error::other("more bytes than it has"))?.as_ptr();
        let params = RequestParams { mask: 0, flags: 0 };
        // SAFETY: the buffer stays as it is until the operation has ended: `bytes` does not give it out.
        let begun = unsafe { (self.calls().send)(endpoint.as_ptr(), bytes.cast(), length, tag, &raw const params) };
        self.begun(buffer, begun)
    }

    /// Begins to receive one message with a tag into a buffer.
    pub(crate) fn receive(&mut self, buffer: usize, tag: u64) -> io::Result<()> {
        let bytes = self.bytes(buffer)?;
        let (bytes, length) = (bytes.as_mut_ptr(), bytes.len());
        // It never ends at once: the length is asked of the request.
        let params = RequestParams { mask: 1 << 16, flags: 0 };
        let worker = self.handle.as_ptr();
        // SAFETY: the buffer is UCX's until the operation has ended: `bytes` does not give it out.
        let begun = unsafe { (self.calls().receive)(worker, bytes.cast(), length, tag, u64::MAX, &raw const params) };
        self.begun(buffer, begun)
    }

    /// `UCS_PTR_IS_ERR` and its kin: no request, the number of an error, or a request.
    fn begun(&mut self, buffer: usize, begun: isize) -> io::Result<()> {
        match Status::try_from(begun) {
            Ok(status) => self.calls().checked(status),
            Err(_) => {
                if let Some(buffer) = self.buffers.get_mut(buffer) {
                    buffer.request = NonNull::new(ptr::with_exposed_provenance_mut(begun.cast_unsigned()));
                }
                Ok(())
            }
        }
    }

    /// True if nothing is under way with a buffer, or no longer.
    pub(crate) fn is_sent(&mut self, buffer: usize) -> io::Result<bool> {
        let Some(request) = self.buffers.get(buffer).and_then(|buffer| buffer.request) else { return Ok(true) };
        // SAFETY: the request was not freed.
        let status = unsafe { (self.calls().request_status)(request.as_ptr()) };
        self.ended(buffer, status)
    }

    /// The length of the message that a buffer has received, once it has.
    pub(crate) fn received(&mut self, buffer: usize) -> io::Result<Option<usize>> {
        let Some(request) = self.buffers.get(buffer).and_then(|buffer| buffer.request) else {
            return Err(io::Error::other("nothing is received into a buffer"));
        };
        let mut received = Received::default();
        // SAFETY: the request was not freed, and the structure is that of ucp.h.
        let status = unsafe { (self.calls().receive_test)(request.as_ptr(), &raw mut received) };
        Ok(self.ended(buffer, status)?.then_some(received.length))
    }

    fn ended(&mut self, buffer: usize, status: Status) -> io::Result<bool> {
        if status == IN_PROGRESS {
            return Ok(false);
        }
        if let Some(request) = self.buffers.get_mut(buffer).and_then(|buffer| buffer.request.take()) {
            // SAFETY: it has ended, and nobody knows it any more.
            unsafe { (self.calls().request_free)(request.as_ptr()) };
        }
        self.calls().checked(status).map(|()| true)
    }

    /// Lets UCX do what there is to do. False if there was nothing.
    ///
    /// # Errors
    /// What the endpoint has failed with.
    pub(crate) fn progress(&self) -> io::Result<bool> {
        // SAFETY: the worker lives, and this thread is the only one that uses it.
        let did = unsafe { (self.calls().worker_progress)(self.handle.as_ptr()) };
        self.calls().checked(self.failed.load(Ordering::Relaxed))?;
        Ok(did != 0)
    }

    /// From now on the file of [`Worker::wakes`] tells that there is something to do. False if there is something already.
    pub(crate) fn arm(&self) -> io::Result<bool> {
        // SAFETY: as for `progress`.
        match unsafe { (self.calls().worker_arm)(self.handle.as_ptr()) } {
            BUSY => Ok(false),
            status => self.calls().checked(status).map(|()| true),
        }
    }

    /// Can be read when there is something to do.
    pub(crate) fn wakes(&self) -> io::Result<BorrowedFd<'_>> {
        let mut file = -1;
        // SAFETY: the worker lives, and the pointer leads to a number.
        let status = unsafe { (self.calls().worker_fd)(self.handle.as_ptr(), &raw mut file) };
        self.calls().checked(status)?;
        // SAFETY: the worker keeps it open as long as it lives.
        Ok(unsafe { BorrowedFd::borrow_raw(file) })
    }

    /// Ends what is under way. True if nothing is any more.
    fn close(&mut self) -> bool {
        let (calls, worker) = (self.calls(), self.handle.as_ptr());
        let requests = self.buffers.iter_mut().filter_map(|buffer| buffer.request.take());
        let mut open: Vec<NonNull<c_void>> = requests.collect();
        for request in &open {
            // SAFETY: it was not freed. Only what is received is cancelled; what is sent ends with the endpoint.
            unsafe { (calls.request_cancel)(worker, request.as_ptr()) };
        }
        if let Some(endpoint) = self.endpoint.take() {
            // Flags: by force, without the other side.
            let params = RequestParams { mask: 1 << 4, flags: 1 };
            // SAFETY: the endpoint was made by this worker, and is not used again.
            let closing = unsafe { (calls.endpoint_close)(endpoint.as_ptr(), &raw const params) };
            if Status::try_from(closing).is_err() {
                open.extend(NonNull::new(ptr::with_exposed_provenance_mut(closing.cast_unsigned())));
            }
        }
        let end = Instant::now() + CLOSING;
        loop {
            // SAFETY: requests are freed once they have ended, and are not used again; `progress` is called by one thread.
            open.retain(|request| unsafe {
                let goes_on = (calls.request_status)(request.as_ptr()) == IN_PROGRESS;
                if !goes_on {
                    (calls.request_free)(request.as_ptr());
                }
                goes_on
            });
            if open.is_empty() || Instant::now() > end {
                return open.is_empty();
            }
            // SAFETY: as for `progress`.
            unsafe { (calls.worker_progress)(worker) };
        }
    }

    /// Leaves it to the system: in a process that was forked, nothing of it may be touched.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let is_closed = self.close();
        // SAFETY: nobody uses it any more.
        unsafe { (self.calls().worker_destroy)(self.handle.as_ptr()) };
        // What a device may yet read or write stays.
        for buffer in self.buffers.drain(..).filter(|_| is_closed) {
            let bytes = ptr::slice_from_raw_parts_mut(buffer.bytes.as_ptr(), buffer.length);
            // SAFETY: it came from a box of this length, and nothing is under way with it.
            drop(unsafe { Box::from_raw(bytes) });
        }
    }
}
