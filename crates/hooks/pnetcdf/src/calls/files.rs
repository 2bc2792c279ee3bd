//! Files: created, opened, closed; definitions begun and ended; independent mode; syncing; filling.

use std::ffi::{c_char, c_int, c_void};

use knarr_names::{opened_by_library, own};

use super::at_end::close_at_end;
use super::export;
use crate::begin_end;
use crate::codes::{EINDEFINE, EINVAL, FILL, NOERR, NOFILL, Offset};
use crate::file::{Captured, Mode};
use crate::files;
use crate::opened;
use crate::real::{Opening, real};
use crate::transcoded;

export!("ncmpi_create", (comm: usize, path: *const c_char, mode: c_int, info: usize, id: *mut c_int), real => {
    // SAFETY: the program's own arguments.
    unsafe {
        let create = real!(ncmpi_create(usize, *const c_char, c_int, usize, *mut c_int));
        own(|| begin_end::create(Opening { real: create, comm, mode, info, id }, path)).inspect(|_| close_at_end(*id))
    }
    .unwrap_or_else(|| opened_by_library(real))
});

export!("ncmpi_open", (comm: usize, path: *const c_char, mode: c_int, info: usize, id: *mut c_int), real => {
    // SAFETY: the program's own arguments.
    unsafe {
        let open = real!(ncmpi_open(usize, *const c_char, c_int, usize, *mut c_int));
        own(|| opened::open(Opening { real: open, comm, mode, info, id }, path)).inspect(|_| close_at_end(*id))
    }
    .unwrap_or_else(|| opened_by_library(real))
});

export!("ncmpi_delete", (path: *const c_char, info: usize), real => {
    // SAFETY: the program's own argument.
    own(|| unsafe { knarr_captured::await_named(path, false) });
    real()
});

/// Ends a file that is captured or shown, or calls `real`.
fn end(file: c_int, aborts: bool, real: &dyn Fn() -> c_int) -> c_int {
    own(|| begin_end::end(file, aborts).or_else(|| transcoded::end(file, aborts))).unwrap_or_else(real)
}

export!("ncmpi_close", (file: c_int), real => end(file, false, &real));
export!("ncmpi_abort", (file: c_int), real => end(file, true, &real));

/// Makes a collective call of PnetCDF about the header of a captured file. One rank writes that, and may fail alone: all have its
/// code, for it makes no other collective call then, for which they would wait.
fn of_all(file: c_int, real: &dyn Fn() -> c_int) -> c_int {
    let code = real();
    files::with(file, |captured| captured.worst(code)).unwrap_or(code)
}

/// Makes a collective call of PnetCDF, and notes the mode that a captured file is in then.
fn enter(file: c_int, mode: Mode, real: &dyn Fn() -> c_int) -> c_int {
    let code = of_all(file, real);
    if code == NOERR {
        files::with(file, |captured| captured.entered(mode));
    }
    code
}

/// Ends definitions.
fn end_definitions(file: c_int, real: &dyn Fn() -> c_int) -> c_int {
    enter(file, Mode::Collective, &|| {
        let code = real();
        files::with(file, |captured| captured.written_header(code)).unwrap_or(code)
    })
}

export!("ncmpi_enddef", (file: c_int), real => end_definitions(file, &real));
export!("ncmpi__enddef", (file: c_int, header: Offset, v_align: Offset, v_free: Offset, r_align: Offset),
    real => end_definitions(file, &real));
export!("ncmpi_redef", (file: c_int), real => redefine(file, &real));
export!("ncmpi_begin_indep_data", (file: c_int), real => enter(file, Mode::Independent, &real));

/// As [`enter`], and the ranks agree on the number of records. Collective.
fn enter_together(file: c_int, real: &dyn Fn() -> c_int) -> c_int {
    let code = enter(file, Mode::Collective, real);
    if code != NOERR {
        return code;
    }
    files::with(file, Captured::agree_on_records).unwrap_or(code)
}

/// As [`enter`]. Where the ranks have put independently, they agree on the number of records. Collective.
fn redefine(file: c_int, real: &dyn Fn() -> c_int) -> c_int {
    let was_independent = files::with(file, |file| file.mode == Mode::Independent).unwrap_or(false);
    files::with(file, |captured| captured.keep_header());
    let code = enter(file, Mode::Define, real);
    if code != NOERR || !was_independent {
        return code;
    }
    files::with(file, Captured::agree_on_records).unwrap_or(code)
}

export!("ncmpi_end_indep_data", (file: c_int), real => enter_together(file, &real));

/// Makes a call of PnetCDF, and a collective one of a captured file.
fn sync(file: c_int, real: &dyn Fn() -> c_int) -> c_int {
    let code = of_all(file, real);
    if code != NOERR {
        return code;
    }
    files::with(file, Captured::synced).unwrap_or(code)
}

export!("ncmpi_sync", (file: c_int), real => {
    // The header of a captured file is for the launcher alone. Were it sent to a disk, and one rank failed, Open MPI would have the
    // others wait for it for ever.
    let own = |captured: &mut Captured| captured.is_written().then(|| captured.synced());
    files::with(file, own).flatten().unwrap_or_else(|| sync(file, &real))
});
export!("ncmpi_flush", (file: c_int), real => sync(file, &real));
export!("ncmpi_sync_numrecs", (file: c_int), real => sync(file, &real));

export!("ncmpi_set_fill", (file: c_int, mode: c_int, old: *mut c_int), real => {
    // The header must not be filled.
    files::with(file, |captured| {
        if mode != FILL && mode != NOFILL {
            return EINVAL;
        }
        if captured.mode != Mode::Define {
            return crate::codes::ENOTINDEFINE;
        }
        // SAFETY: the program's own argument: null, or room for a number.
        if let Some(old) = unsafe { old.as_mut() } {
            *old = if captured.fills_all { FILL } else { NOFILL };
        }
        captured.fills_all = mode == FILL;
        captured.fills.clear();
        NOERR
    })
    .unwrap_or_else(real)
});

export!("ncmpi_def_var_fill", (file: c_int, variable: c_int, no_fill: c_int, value: *const c_void), real => {
    let fill = |captured: &mut Captured| {
        if no_fill != 0 {
            let code = real();
            if code == NOERR {
                captured.fills.insert(variable, false);
            }
            return code;
        }
        let mut nc_type = 0;
        // SAFETY: PnetCDF's functions with the program's arguments. A fill value is one value of the variable's type.
        let code = unsafe {
            let code = real!(ncmpi_inq_vartype(c_int, c_int, *mut c_int))(file, variable, &raw mut nc_type);
            if code != NOERR || value.is_null() {
                code
            } else {
                let put = real!(ncmpi_put_att(c_int, c_int, *const c_char, c_int, Offset, *const c_void));
                put(file, variable, c"_FillValue".as_ptr(), nc_type, 1, value)
            }
        };
        if code == NOERR {
            captured.fills.insert(variable, true);
        }
        code
    };
    files::with(file, fill).unwrap_or_else(real)
});

export!("ncmpi_fill_var_rec", (file: c_int, variable: c_int, record: Offset), real => {
    files::with(file, |captured| {
        if captured.mode == Mode::Define { EINDEFINE } else { captured.fill_record(variable, record) }
    })
    .unwrap_or_else(real)
});
