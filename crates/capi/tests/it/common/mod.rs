//! The C functions as a test calls them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests report by panicking")]

use knarr::abi::*;
use knarr::knarr_context;
use knarr::types::{knarr_hints, knarr_info, knarr_status, knarr_validation};
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

/// Elements of arrays.
pub(crate) trait Element: Copy + PartialEq + std::fmt::Debug {
    const DTYPE: i32;
}

macro_rules! elements {
    ($($rust:ty = $number:literal),*) => { $(impl Element for $rust { const DTYPE: i32 = $number; })* };
}
elements!(i8 = 1, i16 = 2, i32 = 3, i64 = 4, u8 = 5, u16 = 6, u32 = 7, u64 = 8, f32 = 10, f64 = 11);

pub(crate) fn hints(text: &str) -> knarr_hints {
    let mut hints = std::mem::MaybeUninit::<knarr_hints>::uninit();
    let text = CString::new(text).unwrap();
    // SAFETY: there is room for the hints, which are initialised before they are read.
    unsafe {
        assert_eq!(knarr_hints_init(hints.as_mut_ptr(), size_of::<knarr_hints>()), knarr_status::KNARR_OK);
        let done = knarr_hints_set(hints.as_mut_ptr(), text.as_ptr());
        assert_eq!(done, knarr_status::KNARR_OK, "{}", last_error());
        hints.assume_init()
    }
}

pub(crate) fn last_error() -> String {
    // SAFETY: NUL-terminated, and copied before another call.
    unsafe { CStr::from_ptr(knarr_last_error()) }.to_str().unwrap().to_owned()
}

/// A status with its message.
pub(crate) type Outcome<T> = Result<T, (knarr_status, String)>;

pub(crate) fn outcome<T>(status: knarr_status, value: T) -> Outcome<T> {
    if status == knarr_status::KNARR_OK { Ok(value) } else { Err((status, last_error())) }
}

/// A context that ends with the test.
pub(crate) struct Context(pub(crate) *mut knarr_context);

// SAFETY: the interface promises that threads may share a context.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `try_new` and freed once.
        unsafe { knarr_context_free(self.0) }
    }
}

pub(crate) fn info() -> knarr_info {
    // SAFETY: plain data, for which zero bits are a value.
    knarr_info { size: size_of::<knarr_info>(), ..unsafe { std::mem::zeroed() } }
}

impl Context {
    pub(crate) fn new(text: &str) -> Self {
        Self::try_new(text).unwrap_or_else(|(status, why)| panic!("{text}: {status:?}: {why}"))
    }

    pub(crate) fn try_new(text: &str) -> Outcome<Self> {
        let mut context = null_mut();
        // SAFETY: hints are initialised, the place for the context is valid.
        let status = unsafe { knarr_context_create(&hints(text), &raw mut context) };
        outcome(status, Self(context))
    }

    pub(crate) fn compress<T: Element>(&self, values: &[T], shape: &[usize]) -> Outcome<Vec<u8>> {
        assert_eq!(values.len(), shape.iter().product::<usize>());
        let rank = i32::try_from(shape.len()).unwrap();
        let (mut bound, mut length) = (0, 0);
        // SAFETY: the shape has `rank` extents.
        let status = unsafe { knarr_compress_bound(T::DTYPE, rank, shape.as_ptr(), &raw mut bound) };
        outcome(status, ())?;
        let mut frame = vec![0u8; bound];
        // SAFETY: array, shape and frame are as long as is said.
        let status = unsafe {
            let target = frame.as_mut_ptr().cast();
            knarr_compress(
                self.0,
                values.as_ptr().cast(),
                T::DTYPE,
                rank,
                shape.as_ptr(),
                target,
                bound,
                &raw mut length,
            )
        };
        assert!(status != knarr_status::KNARR_OK || length <= bound, "{length} bytes where {bound} are the bound");
        frame.truncate(length);
        outcome(status, frame)
    }

    pub(crate) fn decompress<T: Element>(&self, frame: &[u8], count: usize) -> Outcome<Vec<T>> {
        let mut values = Vec::<T>::with_capacity(count);
        let mut written = 0;
        // SAFETY: frame and values are as long as is said.
        let status = unsafe {
            let (target, room) = (values.as_mut_ptr().cast(), count * size_of::<T>());
            knarr_decompress(self.0, frame.as_ptr().cast(), frame.len(), target, room, &raw mut written)
        };
        outcome(status, ())?;
        assert_eq!(written, count * size_of::<T>());
        // SAFETY: so many elements were written.
        unsafe { values.set_len(count) };
        Ok(values)
    }

    pub(crate) fn inspect(&self, frame: &[u8]) -> Outcome<knarr_info> {
        let mut info = info();
        // SAFETY: the frame is as long as is said.
        let status = unsafe { knarr_inspect(self.0, frame.as_ptr().cast(), frame.len(), &raw mut info) };
        outcome(status, info)
    }

    pub(crate) fn chain(&self, frame: &[u8]) -> String {
        let info = self.inspect(frame).unwrap();
        // SAFETY: NUL-terminated.
        unsafe { CStr::from_ptr(info.chain.as_ptr()) }.to_str().unwrap().to_owned()
    }

    pub(crate) fn validate<T: Element>(
        &self,
        frame: &[u8],
        values: &[T],
        shape: &[usize],
    ) -> Outcome<(knarr_hints, knarr_validation)> {
        let mut observed = hints("");
        // SAFETY: plain data, for which zero bits are a value.
        let mut found = knarr_validation { size: size_of::<knarr_validation>(), ..unsafe { std::mem::zeroed() } };
        let rank = i32::try_from(shape.len()).unwrap();
        // SAFETY: frame, array and shape are as long as is said.
        let status = unsafe {
            knarr_validate(
                self.0,
                frame.as_ptr().cast(),
                frame.len(),
                values.as_ptr().cast(),
                T::DTYPE,
                rank,
                shape.as_ptr(),
                &raw mut observed,
                &raw mut found,
            )
        };
        outcome(status, (observed, found))
    }

    pub(crate) fn explain<T: Element>(&self, values: &[T], shape: &[usize]) -> String {
        let rank = i32::try_from(shape.len()).unwrap();
        let mut length = 0;
        let mut text = vec![0u8; 1 << 16];
        // SAFETY: array, shape and text are as long as is said.
        let status = unsafe {
            let (source, target) = (values.as_ptr().cast(), text.as_mut_ptr().cast());
            knarr_explain(self.0, source, T::DTYPE, rank, shape.as_ptr(), target, text.len(), &raw mut length)
        };
        assert_eq!(status, knarr_status::KNARR_OK, "{}", last_error());
        text.truncate(length);
        String::from_utf8(text).unwrap()
    }

    /// Compresses, decompresses, and demands that all hints hold. Returns the frame and the values that came back.
    pub(crate) fn round_trip<T: Element>(&self, values: &[T], shape: &[usize]) -> (Vec<u8>, Vec<T>) {
        let frame = self.compress(values, shape).unwrap_or_else(|(status, why)| panic!("{status:?}: {why}"));
        let back = self.decompress(&frame, values.len()).unwrap();
        let (_, found) = self.validate(&frame, values, shape).unwrap();
        // SAFETY: NUL-terminated.
        let why = unsafe { CStr::from_ptr(found.miss.as_ptr()) };
        assert_eq!((found.holds, found.first_miss), (1, -1), "{why:?}");
        (frame, back)
    }
}

/// The bits of values, which are to be compared where NaN is among them.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A smooth field with a little noise.
pub(crate) fn field(count: usize) -> Vec<f32> {
    let mut state = 1u32;
    let noise = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from((state >> 16) as u16) / 65536.0
    };
    let noise: Vec<f32> = (0..count).map(noise).collect();
    noise.iter().zip(0u32..).map(|(noise, i)| 280.0 + 20.0 * (i as f32 * 0.01).sin() + 0.1 * noise).collect()
}

/// What `null` is for every pointer.
pub(crate) fn nothing<T>() -> *const T {
    null()
}
