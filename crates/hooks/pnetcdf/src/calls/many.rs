//! Several variables in one call: {mput, mget} × {var, var1, vara, vars, varm} × {twelve types, flexible} × {independent,
//! collective}.

use std::ffi::{c_int, c_void};

use super::{each_type, export};
use crate::codes::{NOERR, Offset};
use crate::file::{Captured, How};
use crate::files;
use crate::values::access::{Access, Kind, Memory, Shape};
use crate::values::datatypes::Datatypes;
use crate::values::element::Element;

type Numbers = *const *const Offset;

/// What all variables have in common, with a pointer for each of them.
#[derive(Clone, Copy)]
struct Many {
    count: c_int,
    variables: *const c_int,
    buffers: *const *mut c_void,
    kinds: Kinds,
    starts: Numbers,
    counts: Numbers,
    strides: Numbers,
    imaps: Numbers,
    /// One element each: there are starts only.
    single: bool,
}

#[derive(Clone, Copy)]
enum Kinds {
    Typed(Element),
    Flexible { counts: *const Offset, datatypes: *const c_void },
}

impl Many {
    /// The access to the variable at a place.
    ///
    /// # Safety
    /// The pointers are null or lead to as many things as the function says that the program called.
    unsafe fn access(&self, captured: &Captured, at: usize) -> Access {
        let of = |numbers: Numbers| {
            // SAFETY: the caller's promise.
            if numbers.is_null() { std::ptr::null() } else { unsafe { *numbers.add(at) } }
        };
        let shape = if self.starts.is_null() {
            Shape::Whole
        } else if self.single {
            Shape::One(of(self.starts))
        } else {
            Shape::Part {
                start: of(self.starts),
                count: of(self.counts),
                stride: of(self.strides),
                imap: of(self.imaps),
            }
        };
        let kind = match self.kinds {
            Kinds::Typed(element) => Kind::Typed(element),
            // SAFETY: the caller's promise.
            Kinds::Flexible { counts, datatypes } => unsafe {
                Kind::Flexible { count: *counts.add(at), datatype: captured.common.ranks.datatype_at(datatypes, at) }
            },
        };
        // SAFETY: the caller's promise.
        unsafe {
            Access { variable: *self.variables.add(at), shape, memory: Memory { buffer: *self.buffers.add(at), kind } }
        }
    }

    /// Puts or gets all of them.
    ///
    /// # Safety
    /// As for [`Many::access`].
    unsafe fn run(&self, captured: &mut Captured, puts: bool, collective: bool) -> c_int {
        let begun = captured.begin_many(collective, puts);
        if begun != NOERR {
            return begun;
        }
        let how = How::Among { collective };
        let mut first = NOERR;
        for at in 0..usize::try_from(self.count).unwrap_or(0) {
            // SAFETY: the caller's promise.
            let code = unsafe {
                let access = self.access(captured, at);
                if puts { captured.put(&access, how) } else { captured.get(&access, how) }
            };
            first = if first == NOERR { code } else { first };
        }
        let agreed = if puts && collective { captured.agree_on_records() } else { NOERR };
        if first == NOERR { agreed } else { first }
    }
}

/// Puts into or gets from a captured file, or calls `real`.
///
/// # Safety
/// As for [`Many::access`].
unsafe fn run(file: c_int, many: &Many, puts: bool, collective: bool, real: &dyn Fn() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    files::with(file, |captured| unsafe { many.run(captured, puts, collective) }).unwrap_or_else(real)
}

macro_rules! each_many {
    ($mac:ident $(, $more:tt)*) => {
        $mac!("var", (), (nothing, nothing, nothing, nothing), false $(, $more)*);
        $mac!("var1", (starts: Numbers), (starts, nothing, nothing, nothing), true $(, $more)*);
        $mac!("vara", (starts: Numbers, counts: Numbers), (starts, counts, nothing, nothing), false $(, $more)*);
        $mac!("vars", (starts: Numbers, counts: Numbers, strides: Numbers), (starts, counts, strides, nothing), false
            $(, $more)*);
        $mac!("varm", (starts: Numbers, counts: Numbers, strides: Numbers, imaps: Numbers),
            (starts, counts, strides, imaps), false $(, $more)*);
    };
}

/// What a family has no argument for.
#[expect(non_upper_case_globals, reason = "stands where others have an argument")]
const nothing: Numbers = std::ptr::null();

macro_rules! typed {
    ($family:expr, $arguments:tt, $shape:tt, $single:expr, $suffix:expr, $element:ident) => {
        typed!(@ "ncmpi_mput_", $family, $arguments, $shape, $single, $suffix, "", $element, true, false);
        typed!(@ "ncmpi_mput_", $family, $arguments, $shape, $single, $suffix, "_all", $element, true, true);
        typed!(@ "ncmpi_mget_", $family, $arguments, $shape, $single, $suffix, "", $element, false, false);
        typed!(@ "ncmpi_mget_", $family, $arguments, $shape, $single, $suffix, "_all", $element, false, true);
    };
    (@ $verb:expr, $family:expr, ($($argument:ident: $type:ty),*), ($starts:ident, $counts:ident, $strides:ident,
        $imaps:ident), $single:expr, $suffix:expr, $all:expr, $element:ident, $puts:expr, $collective:expr) => {
        export!(concat!($verb, $family, $suffix, $all),
            (file: c_int, count: c_int, variables: *const c_int, $($argument: $type,)* buffers: *const *mut c_void),
            real => {
                let many = Many { count, variables, buffers, kinds: Kinds::Typed(Element::$element), starts: $starts,
                    counts: $counts, strides: $strides, imaps: $imaps, single: $single };
                // SAFETY: the program's own arguments.
                unsafe { run(file, &many, $puts, $collective, &real) }
            });
    };
}

macro_rules! of_type {
    ($suffix:expr, $element:ident) => {
        each_many!(typed, $suffix, $element);
    };
}

each_type!(of_type);

macro_rules! flexible {
    ($family:expr, $arguments:tt, $shape:tt, $single:expr) => {
        flexible!(@ "ncmpi_mput_", $family, $arguments, $shape, $single, "", true, false);
        flexible!(@ "ncmpi_mput_", $family, $arguments, $shape, $single, "_all", true, true);
        flexible!(@ "ncmpi_mget_", $family, $arguments, $shape, $single, "", false, false);
        flexible!(@ "ncmpi_mget_", $family, $arguments, $shape, $single, "_all", false, true);
    };
    (@ $verb:expr, $family:expr, ($($argument:ident: $type:ty),*), ($starts:ident, $counts:ident, $strides:ident,
        $imaps:ident), $single:expr, $all:expr, $puts:expr, $collective:expr) => {
        export!(concat!($verb, $family, $all),
            (file: c_int, count: c_int, variables: *const c_int, $($argument: $type,)* buffers: *const *mut c_void,
                sizes: *const Offset, datatypes: *const c_void),
            real => {
                let kinds = Kinds::Flexible { counts: sizes, datatypes };
                let many = Many { count, variables, buffers, kinds, starts: $starts, counts: $counts,
                    strides: $strides, imaps: $imaps, single: $single };
                // SAFETY: the program's own arguments.
                unsafe { run(file, &many, $puts, $collective, &real) }
            });
    };
}

each_many!(flexible);
