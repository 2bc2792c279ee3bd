//! `libdtf.so`: the names of DTF, the Data Transfer Framework, for C and for Fortran, without any effect. Programs that call
//! DTF are linked with it. Alone they use the file system, as PnetCDF does. Under `knarr run` the functions in
//! `libknarr_preload.so` (`crates/hooks/pnetcdf/src/calls/dtf.rs`) come first.

use std::ffi::{c_char, c_int};

macro_rules! nothing {
    ($($name:ident($($type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($(_: $type),*) $(-> $result)? {
                $(<$result>::default())?
            }
        )*
    };
}

nothing! {
    dtf_init(*const c_char, *const c_char) -> c_int;
    dtf_finalize() -> c_int;
    dtf_transfer(*const c_char, c_int) -> c_int;
    dtf_transfer_all_files() -> c_int;
    dtf_transfer_multiple(*const c_char, c_int);
    dtf_complete_multiple(*const c_char, c_int);
    dtf_time_start();
    dtf_time_end();
    dtf_transfer_all_files_();
    dtf_transfer_multiple_(*const c_char, *const c_int);
    dtf_complete_multiple_(*const c_char, *const c_int);
    dtf_time_start_();
    dtf_time_end_();
}

macro_rules! gives_zero {
    ($($name:ident($($type:ty),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($(_: $type,)* result: *mut c_int) {
                // SAFETY: Fortran programs pass a variable of theirs.
                if let Some(result) = unsafe { result.as_mut() } {
                    *result = 0;
                }
            }
        )*
    };
}

gives_zero! {
    dtf_init_(*const c_char, *const c_char);
    dtf_finalize_();
    dtf_transfer_(*const c_char, *const c_int);
}
