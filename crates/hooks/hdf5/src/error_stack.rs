//! Knarr's own calls of HDF5: their failures are not printed, and leave nothing on the program's error stack.

use std::ffi::{c_int, c_uint};

use knarr_codec::codec::FilterSet;

use crate::host::CallerHdf5;
use knarr_capture::program as run;

/// `H5E_DEFAULT`: the error stack of this thread.
const DEFAULT: i64 = 0;

impl CallerHdf5 {
    /// Runs `work` without HDF5's automatic error messages, as `H5E_BEGIN_TRY` does. `None` if they cannot be stopped.
    pub(crate) fn quietly<T>(&self, work: impl FnOnce(&Self) -> T) -> Option<T> {
        let mut second: c_uint = 1;
        // SAFETY: `second` is a valid place for the result.
        unsafe { (self.errors_are_v2?)(DEFAULT, &raw mut second) };
        let (mut function, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
        let null = std::ptr::null_mut();
        let result = if second != 0 {
            let (get, set) = (self.get_handler_2?, self.set_handler_2?);
            // SAFETY: valid places for the result; what was got is set again below.
            if unsafe { get(DEFAULT, &raw mut function, &raw mut data) } < 0 {
                return None;
            }
            // SAFETY: a null handler prints nothing.
            unsafe { set(DEFAULT, null, null) };
            let result = work(self);
            // SAFETY: the program's own handler.
            unsafe { set(DEFAULT, function, data) };
            result
        } else {
            let (get, set) = (self.get_handler_1?, self.set_handler_1?);
            // SAFETY: as above, for programs written for HDF5 1.6.
            if unsafe { get(&raw mut function, &raw mut data) } < 0 {
                return None;
            }
            // SAFETY: as above.
            unsafe { set(null, null) };
            let result = work(self);
            // SAFETY: as above.
            unsafe { set(function, data) };
            result
        };
        if let Some(clear) = self.clear_errors {
            // SAFETY: the stack of this thread. The program's next call would clear it too.
            unsafe { clear(DEFAULT) };
        }
        Some(result)
    }

    /// Those of the filters which Knarr may choose that this HDF5 has. Asked once: it loads filters that are found as
    /// plugins.
    pub(crate) fn filters(&self) -> FilterSet {
        *self.filters.get_or_init(|| {
            let (Some(run), Some(available)) = (run::run(), self.filter_available) else { return FilterSet::default() };
            // SAFETY: any number may be asked about.
            let has = |&id: &u32| c_int::try_from(id).is_ok_and(|id| unsafe { available(id) } > 0);
            self.quietly(|_| run.rules().filters.ids().filter(has).collect()).unwrap_or_default()
        })
    }
}
