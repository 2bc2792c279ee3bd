//! What the program's own library says of the variables of a file.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use crate::codes::Offset;
use crate::codes::{FORMAT_CDF5, NOERR};
use crate::real::real;
use crate::values::element::Element;

/// A variable.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) element: Element,
    /// Along the unlimited dimension it says nothing.
    pub(crate) shape: Vec<u64>,
    /// Its first dimension is the unlimited one.
    pub(crate) is_record: bool,
    /// The fill value.
    pub(crate) fill: Vec<u8>,
    /// `ncmpi_fill_var_rec` may be called for it.
    pub(crate) may_fill: bool,
}

impl Variable {
    /// Its shape if there are so many records.
    pub(crate) fn shape_now(&self, records: u64) -> Vec<u64> {
        let mut shape = self.shape.clone();
        if let (true, Some(first)) = (self.is_record, shape.first_mut()) {
            *first = records;
        }
        shape
    }
}

/// All variables of a file, and what else is to be known of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables {
    pub(crate) all: Vec<Arc<Variable>>,
    /// Number of the unlimited dimension, or -1.
    pub(crate) unlimited: c_int,
    /// CDF-5. In older formats bytes have no sign that would be checked.
    pub(crate) is_cdf5: bool,
}

impl Variables {
    /// Asks the library.
    ///
    /// # Errors
    /// The code that it returns.
    pub(crate) fn of(file: c_int) -> Result<Self, c_int> {
        let (mut count, mut unlimited, mut format) = (0, -1, 0);
        // SAFETY: PnetCDF's functions, with places for what they return.
        unsafe {
            check(real!(ncmpi_inq_nvars(c_int, *mut c_int))(file, &raw mut count))?;
            check(real!(ncmpi_inq_unlimdim(c_int, *mut c_int))(file, &raw mut unlimited))?;
            check(real!(ncmpi_inq_format(c_int, *mut c_int))(file, &raw mut format))?;
        }
        let all = (0..count).map(|number| variable(file, number, unlimited).map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Self { all, unlimited, is_cdf5: format == FORMAT_CDF5 })
    }
}

fn variable(file: c_int, number: c_int, unlimited: c_int) -> Result<Variable, c_int> {
    let (mut nc_type, mut axes) = (0, 0);
    // SAFETY: PnetCDF's functions, with places for what they return; null for what is not wanted.
    unsafe {
        check(real!(ncmpi_inq_vartype(c_int, c_int, *mut c_int))(file, number, &raw mut nc_type))?;
        check(real!(ncmpi_inq_varndims(c_int, c_int, *mut c_int))(file, number, &raw mut axes))?;
    }
    let mut dimensions = vec![0; usize::try_from(axes).unwrap_or(0)];
    // SAFETY: as above; there is a place for each dimension.
    unsafe {
        check(real!(ncmpi_inq_vardimid(c_int, c_int, *mut c_int))(file, number, dimensions.as_mut_ptr()))?;
    }
    let length = |&dimension: &c_int| {
        let mut length: Offset = 0;
        // SAFETY: as above.
        let code = unsafe { real!(ncmpi_inq_dimlen(c_int, c_int, *mut Offset))(file, dimension, &raw mut length) };
        check(code).map(|()| u64::try_from(length).unwrap_or(0))
    };
    let shape = dimensions.iter().map(length).collect::<Result<Vec<u64>, c_int>>()?;
    let element = Element::of_file(nc_type).ok_or(crate::codes::EINVAL)?;
    let (mut no_fill, mut fill) = (1, [0u8; 8]);
    // SAFETY: as above; the fill value takes 8 bytes at most.
    unsafe {
        let inquire = real!(ncmpi_inq_var_fill(c_int, c_int, *mut c_int, *mut c_void));
        check(inquire(file, number, &raw mut no_fill, fill.as_mut_ptr().cast()))?;
    }
    let is_record = unlimited >= 0 && dimensions.first() == Some(&unlimited);
    let fill = fill.get(..element.size()).unwrap_or_default().to_vec();
    Ok(Variable { element, shape, is_record, fill, may_fill: no_fill == 0 })
}

/// The name of a variable, for messages.
pub(crate) fn name(file: c_int, number: c_int) -> String {
    let mut name = [0u8; 1024];
    // SAFETY: names take 256 bytes at most.
    let code = unsafe {
        real!(ncmpi_inq_varname(c_int, c_int, *mut c_char))(file, number, name.as_mut_ptr().cast::<c_char>())
    };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    let known = (code == NOERR).then(|| String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned());
    known.unwrap_or_else(|| format!("number {number}"))
}

fn check(code: c_int) -> Result<(), c_int> {
    if code == NOERR { Ok(()) } else { Err(code) }
}
