//! Classic netCDF: CDF-1, CDF-2 and CDF-5, read in place, and written.
//!
//! Values lie uncompressed and big-endian in the file, so a region is read by positioned reads straight into
//! the caller's buffer, from as many threads as there are callers.

mod header;
mod layout;
mod pieces;
mod write;

pub use header::{Dim, Header, NcType, Var, Version, parse_header};
pub use write::{check, write};

use crate::fills;
use header::Fault;
use knarr_array::array::{DType, swap_bytes};
use knarr_array::model::{Dimension, Group, Model, Variable};
use knarr_array::region::Region;
use knarr_array::{Error, Result};
use knarr_flow::store::{Source, Strings};
use knarr_flow::strided::{self, ReadAt, StridedLayout};
use knarr_input::format::Format;
use knarr_input::partial::Input;
use std::any::Any;
use std::path::{Path, PathBuf};

/// First read of a header; doubled until the header is complete.
const FIRST_READ: usize = 64 << 10;
/// Longest header that is read. The longest seen in the wild are a few MiB.
const LONGEST_HEADER: u64 = 256 << 20;

/// An open classic netCDF file.
#[derive(Debug)]
pub struct ClassicSource {
    path: PathBuf,
    file: Input,
    file_len: u64,
    format: &'static str,
    model: Model,
    places: Vec<StridedLayout>,
}

/// Classic netCDF.
pub(crate) const FORMAT: Format = Format {
    name: "netCDF-3 (CDF-1, CDF-2, CDF-5)",
    sniff: |probe| Ok(matches!(probe.head(), [b'C', b'D', b'F', 1 | 2 | 5, ..])),
    open: |probe, _, _| Ok(Box::new(ClassicSource::open(probe.path)?)),
    layout: Some(pieces::layout),
};

impl ClassicSource {
    /// Opens `path` and reads its header.
    ///
    /// # Errors
    /// `NotFound` or `Read` if the file cannot be read, `Corrupt` if its header makes no sense.
    pub fn open(path: &Path) -> Result<Self> {
        let read_error = |error: std::io::Error| Error::read(path, &error);
        let file = Input::open(path).map_err(read_error)?;
        let file_len = file.metadata().map_err(read_error)?.len();
        let place = |error: Error| error.at(path.display().to_string());
        let header = read_header(&file, file_len, path)?;
        let (records, places) = layout::layout(&header, file_len).map_err(place)?;
        let format = match header.version {
            Version::Cdf1 => "netCDF-3 (CDF-1)",
            Version::Cdf2 => "netCDF-3 (CDF-2)",
            Version::Cdf5 => "netCDF-3 (CDF-5)",
        };
        let model = model(header, records, &places);
        Ok(Self { path: path.to_owned(), file, file_len, format, model, places })
    }
}

/// Lengthens the file at `path`, which netCDF or PnetCDF has written, to what its header promises. They write nothing where
/// nobody has put anything, and read zeros behind the end. Of the last record something is there, or it would be none.
///
/// # Errors
/// As for [`ClassicSource::open`]; `Write`.
pub fn complete(path: &Path) -> Result<()> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = Input::open(path).map_err(read_error)?;
    let file_len = file.metadata().map_err(read_error)?.len();
    let header = read_header(&file, file_len, path)?;
    let (end, last_record) = end_of(&header, file_len).map_err(|error| error.at(path.display().to_string()))?;
    if end <= file_len || last_record.is_some_and(|start| file_len < start) {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().write(true).open(path);
    opened.and_then(|file| file.set_len(end)).map_err(|error| Error::write(path, &error))
}

/// True if the file at `path` is longer than its header says, so that not all of it would be read.
///
/// # Errors
/// As for [`ClassicSource::open`].
pub fn holds_more(path: &Path) -> Result<bool> {
    let file = Input::open(path).map_err(|error| Error::read(path, &error))?;
    let file_len = file.metadata().map_err(|error| Error::read(path, &error))?.len();
    let header = read_header(&file, file_len, path)?;
    let (end, _) = end_of(&header, file_len).map_err(|error| error.at(path.display().to_string()))?;
    // Of variables without values only the place is known, and without variables nothing is.
    let begin = header.vars.iter().map(|var| var.begin).max();
    Ok(begin.is_none_or(|begin| file_len > end.max(begin).saturating_add(PADDING)))
}

/// Bytes behind the last value, at most.
const PADDING: u64 = 3;

/// Where the last value ends, and where the last record begins.
fn end_of(header: &Header, file_len: u64) -> Result<(u64, Option<u64>)> {
    let (_, places) = layout::layout(header, file_len)?;
    let (mut end, mut last_record) = (0, None);
    for (var, StridedLayout { begin, shape, strides }) in header.vars.iter().zip(&places) {
        if shape.contains(&0) {
            continue;
        }
        let last = |shape: &[u64]| {
            let mut axes = shape.iter().zip(strides);
            axes.try_fold(*begin, |at, (n, step)| at.checked_add((n - 1).checked_mul(*step)?)).unwrap_or(u64::MAX)
        };
        end = end.max(last(shape).saturating_add(var.nc_type.dtype().size() as u64));
        if var.dims.first().is_some_and(|&dim| header.dims[dim].len == 0) {
            let start = last(&shape[..1]);
            last_record = Some(last_record.map_or(start, |first: u64| first.min(start)));
        }
    }
    Ok((end, last_record))
}

/// What a file with the header at `path` holds if it has so many records. There may be no values.
///
/// # Errors
/// As for [`ClassicSource::open`].
pub(crate) fn model_of_header(path: &Path, records: u64) -> Result<Model> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = Input::open(path).map_err(read_error)?;
    let file_len = file.metadata().map_err(read_error)?.len();
    let header = Header { records: Some(records), ..read_header(&file, file_len, path)? };
    let (records, places) = layout::layout(&header, file_len).map_err(|error| error.at(path.display().to_string()))?;
    Ok(model(header, records, &places))
}

/// The version of the classic file, or header, at `path`.
///
/// # Errors
/// As for [`ClassicSource::open`].
pub fn version_of(path: &Path) -> Result<Version> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = Input::open(path).map_err(read_error)?;
    let file_len = file.metadata().map_err(read_error)?.len();
    Ok(read_header(&file, file_len, path)?.version)
}

fn read_header(file: &Input, file_len: u64, path: &Path) -> Result<Header> {
    let limit = usize::try_from(file_len.min(LONGEST_HEADER)).unwrap_or(usize::MAX);
    let mut prefix = vec![0; FIRST_READ.min(limit)];
    let place = |error: Error| error.at(path.display().to_string());
    loop {
        file.read_exact_at(&mut prefix, 0).map_err(|error| Error::read(path, &error))?;
        match header::parse_prefix(&prefix) {
            Ok(header) => return Ok(header),
            Err(Fault::Bad(error)) => return Err(place(error)),
            Err(Fault::Short { need, .. }) if prefix.len() < limit && need <= (limit - prefix.len()) as u64 => {
                let wanted = prefix.len() + usize::try_from(need).unwrap_or(limit);
                prefix.resize(wanted.max(prefix.len().saturating_mul(2)).min(limit), 0);
            }
            Err(Fault::Short { .. }) if file_len > LONGEST_HEADER => {
                return Err(place(Error::unsupported(format!(
                    "the header is longer than {} MiB, or damaged",
                    LONGEST_HEADER >> 20
                ))));
            }
            Err(Fault::Short { .. }) => {
                // The message of the public parser says what was being read and what is missing.
                return header::parse_header(&prefix).map_err(place);
            }
        }
    }
}

fn model(header: Header, records: u64, places: &[StridedLayout]) -> Model {
    let dimensions: Vec<Dimension> = header
        .dims
        .iter()
        .map(|dim| Dimension {
            name: dim.name.clone(),
            len: if dim.len == 0 { records } else { dim.len },
            unlimited: dim.len == 0,
        })
        .collect();
    let variables = header
        .vars
        .into_iter()
        .zip(places)
        .map(|(var, place)| {
            let dtype = var.nc_type.dtype();
            let padding = fills::attribute_bits(dtype, &var.attributes, "_FillValue")
                .first()
                .copied()
                .unwrap_or_else(|| var.nc_type.default_fill());
            // Every value of a byte is data unless an attribute says otherwise (netCDF conventions).
            let format_fill = (dtype.size() > 1).then_some(padding);
            let fills = fills::collect(dtype, &var.attributes, format_fill);
            let is_unlimited = |&dim: &usize| dimensions[dim].unlimited;
            let max_shape =
                var.dims.iter().zip(&place.shape).map(|(dim, &n)| (!is_unlimited(dim)).then_some(n)).collect();
            // Big-endian is how the format stores numbers, not what they are: regions are handed out swapped.
            let mut variable = Variable {
                max_shape,
                dimensions: var.dims.iter().map(|&dim| Some(dimensions[dim].name.clone())).collect(),
                attributes: var.attributes,
                fills,
                padding,
                ..Variable::plain(format!("/{}", var.name), dtype, place.shape.clone())
            };
            variable.stored_bytes = Some(variable.raw_bytes());
            variable
        })
        .collect();
    let root = Group { path: "/".to_owned(), dimensions, attributes: header.attributes, ..Group::default() };
    Model { groups: vec![root], variables }
}

impl Source for ClassicSource {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        self.format
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let (info, place) = self.model.variable_with(variable, &self.places)?;
        strided::read_region(&self.file, self.file_len, place, info.dtype.size(), region, out)
            .map_err(|error| error.at_variable(info.name()).at(self.path.display().to_string()))?;
        swap_bytes(out, info.dtype.size());
        Ok(())
    }

    fn is_written(&self, _variable: usize, _region: &Region) -> bool {
        // The format does not record what was written.
        true
    }

    fn strings(&self, variable: usize) -> Option<Strings> {
        // Characters; the other types are numbers.
        let dtype = self.model.variables.get(variable)?.dtype;
        matches!(dtype, DType::Opaque(_)).then_some(Strings::Fixed)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
