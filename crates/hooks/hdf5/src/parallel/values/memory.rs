//! Where the program has the elements in its memory.

use std::ffi::{c_int, c_void};

use super::selection::one_run;
use crate::host::{CallerHdf5, Herr, Hid};

/// Bytes that are gathered at once.
const PIECE: usize = 1 << 20;

/// The elements of a transfer in memory.
pub(in crate::parallel) struct Memory<'h> {
    host: &'h CallerHdf5,
    /// Of the buffer's shape; `None` if the elements are all of it.
    space: Option<Hid>,
    datatype: Hid,
    /// Bytes of an element.
    pub(in crate::parallel) size: usize,
    /// Number of elements.
    count: usize,
}

impl<'h> Memory<'h> {
    pub(in crate::parallel) fn new(
        host: &'h CallerHdf5,
        space: Option<Hid>,
        datatype: Hid,
        size: usize,
        count: usize,
    ) -> Self {
        Self { host, space, datatype, size, count }
    }

    /// Where the elements begin in the buffer, if they lie there one behind the other. In bytes.
    fn run(&self) -> Option<usize> {
        match self.space {
            None => Some(0),
            Some(space) => usize::try_from(one_run(self.host, space)?).ok()?.checked_mul(self.size),
        }
    }

    /// The room for the elements in the buffer, if they lie there one behind the other.
    ///
    /// # Safety
    /// The buffer has room for what is selected in it, and nobody else uses it as long as the result is used.
    pub(in crate::parallel) unsafe fn room<'b>(&self, buffer: *mut c_void) -> Option<&'b mut [u8]> {
        let skipped = self.run()?;
        // SAFETY: the caller's promise.
        Some(unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>().add(skipped), self.count * self.size) })
    }

    /// Gives all elements to `take`, in pieces of whole elements. `None` if HDF5 does not gather them.
    ///
    /// # Safety
    /// The buffer holds what is selected in it.
    pub(in crate::parallel) unsafe fn each(&self, buffer: *const c_void, take: &mut dyn FnMut(&[u8])) -> Option<()> {
        if let Some(skipped) = self.run() {
            // SAFETY: the caller's promise.
            let all = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>().add(skipped), self.count * self.size) };
            take(all);
            return Some(());
        }
        let mut piece = vec![0u8; (PIECE / self.size).clamp(1, self.count) * self.size];
        let mut take = take;
        let context = (&raw mut take).cast::<c_void>();
        let (gather, space) = (self.host.gather?, self.space?);
        // SAFETY: the caller's promise; there is room for the bytes that are said; the closure outlives the call.
        let done = unsafe {
            gather(space, buffer, self.datatype, piece.len(), piece.as_mut_ptr().cast(), Some(taken), context)
        };
        (done >= 0).then_some(())
    }

    /// Puts all elements into the buffer. `None` if HDF5 does not scatter them.
    ///
    /// # Safety
    /// The buffer has room for what is selected in it.
    pub(in crate::parallel) unsafe fn fill(&self, buffer: *mut c_void, values: &[u8]) -> Option<()> {
        // SAFETY: the caller's promise.
        if let Some(all) = unsafe { self.room(buffer) } {
            // A result of another length is none of these elements.
            (all.len() == values.len()).then(|| all.copy_from_slice(values))?;
            return Some(());
        }
        let mut given = values;
        let (scatter, space) = (self.host.scatter?, self.space?);
        // SAFETY: the caller's promise; the values outlive the call.
        let done = unsafe { scatter(Some(give), (&raw mut given).cast(), self.datatype, space, buffer) };
        (done >= 0).then_some(())
    }
}

/// # Safety
/// `context` is the closure of [`Memory::each`]; the rest is as `H5Dgather` says.
unsafe extern "C" fn taken(bytes: *const c_void, len: usize, context: *mut c_void) -> Herr {
    // SAFETY: the caller's promise.
    let (take, bytes) =
        unsafe { (&mut *context.cast::<&mut dyn FnMut(&[u8])>(), std::slice::from_raw_parts(bytes.cast::<u8>(), len)) };
    take(bytes);
    0
}

/// # Safety
/// `context` is what is left of the values of [`Memory::fill`]; the rest is as `H5Dscatter` says.
unsafe extern "C" fn give(bytes: *mut *const c_void, len: *mut usize, context: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let given = &mut *context.cast::<&[u8]>();
        *bytes = given.as_ptr().cast();
        *len = given.len();
        *given = &[];
    }
    0
}
