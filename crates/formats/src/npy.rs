//! NumPy's `.npy` files: one array behind a header.
//!
//! An array in Fortran order is shown as one in chunks: each is a run of the file, long along the first axes, with its own
//! elements in Fortran order. So values are read, and chunks of outputs made, in the order in which they lie there.

use std::any::Any;
use std::path::{Path, PathBuf};

use knarr_array::array::{Endian, swap_bytes};
use knarr_array::model::{Attribute, AttributeValue, Model, StorageLayout, Variable};
use knarr_array::npy::{self, Header};
use knarr_array::region::{Region, row_major};
use knarr_array::{Error, Result};
use knarr_flow::settings::{ChunkRule, chunk_shape};
use knarr_flow::store::Source;
use knarr_flow::strided::{self, ReadAt, StridedLayout};

use crate::raw;
use knarr_input::format::Format;
use knarr_input::partial::Input;

/// An open file of NumPy.
#[derive(Debug)]
struct NpySource {
    path: PathBuf,
    file: Input,
    file_len: u64,
    order: Endian,
    /// True if the axes lie in the file in reverse.
    fortran_order: bool,
    /// Where elements lie, with the axes as they lie in the file.
    place: StridedLayout,
    model: Model,
}

/// Files of NumPy.
pub(crate) const FORMAT: Format = Format {
    name: "NumPy (.npy)",
    sniff: |probe| Ok(probe.head().starts_with(npy::MAGIC)),
    open: |probe, _, _| Ok(Box::new(NpySource::open(probe.path, probe.called)?)),
    layout: None,
};

impl NpySource {
    /// Opens `path`. The variable has the name of the file that was meant, `called`, without its suffix.
    ///
    /// # Errors
    /// `NotFound` or `Read` if it cannot be read, `Corrupt` if its header makes no sense or it has another size,
    /// `Unsupported` for elements that are no numbers or truth values, and for several arrays in one file.
    fn open(path: &Path, called: &Path) -> Result<Self> {
        Self::read(path, called).map_err(|error| error.hint_damage("file").at(path.display().to_string()))
    }

    fn read(path: &Path, called: &Path) -> Result<Self> {
        let read_error = |error: std::io::Error| Error::read(path, &error);
        let file = Input::open(path).map_err(read_error)?;
        let file_len = file.metadata().map_err(read_error)?.len();
        let first = |len: u64| {
            let mut bytes = vec![0; usize::try_from(len.min(file_len)).unwrap_or(usize::MAX)];
            file.read_exact_at(&mut bytes, 0).map(|()| bytes).map_err(read_error)
        };
        let begin = npy::header_len(&first(npy::PREFIX as u64)?)?;
        if begin > file_len {
            return Err(Error::corrupt(format!("the header has {begin} bytes, the file {file_len}: it is truncated")));
        }
        let Header { dtype, is_bool, endian, fortran_order, shape } = Header::parse(&first(begin)?)?;
        let bytes = raw::bytes_of(dtype, &shape, begin)
            .ok_or_else(|| Error::corrupt(format!("the shape {shape:?} is larger than any file")))?;
        check_len(bytes, file_len - begin)?;
        let mut model = raw::model(raw::name_of(called), dtype, &shape);
        let fortran_order = fortran_order && shape.iter().filter(|&&extent| extent > 1).count() > 1;
        for variable in &mut model.variables {
            if fortran_order {
                variable.layout = StorageLayout::Chunked(runs(variable)?);
            }
            if is_bool {
                // How xarray marks truth values in netCDF.
                let value = AttributeValue::Text("bool".to_owned());
                variable.attributes.push(Attribute { name: "dtype".to_owned(), value });
            }
        }
        let stored_shape = if fortran_order { reversed(&shape) } else { shape };
        let place = StridedLayout::dense(begin, &stored_shape, dtype.size());
        Ok(Self { path: path.to_owned(), file, file_len, order: endian, fortran_order, place, model })
    }

    fn read_elements(&self, info: &Variable, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let size = info.dtype.size();
        if self.fortran_order {
            region.check_inside(&info.shape)?;
            let stored = Region { start: reversed(&region.start), count: reversed(&region.count) };
            let mut elements = Vec::new();
            strided::read_region(&self.file, self.file_len, &self.place, size, &stored, &mut elements)?;
            let too_large = |_| Error::unsupported("the region is too large for memory");
            let count = region.count.iter().map(|&n| usize::try_from(n)).collect::<std::result::Result<Vec<_>, _>>();
            let order: Vec<usize> = (0..info.shape.len()).rev().collect();
            row_major(&elements, &order, &count.map_err(too_large)?, size, out);
        } else {
            strided::read_region(&self.file, self.file_len, &self.place, size, region, out)?;
        }
        // Byte order is how the file stores numbers, not what they are.
        if self.order == Endian::Big {
            swap_bytes(out, size);
        }
        Ok(())
    }
}

/// Compares the bytes that the shape means with those behind the header.
fn check_len(wanted: u64, found: u64) -> Result<()> {
    if found < wanted {
        return Err(Error::corrupt(format!(
            "the array has {wanted} bytes, the file {found} behind its header: {} bytes are missing",
            wanted - found
        ))
        .hint("the file is truncated: fetch it again or restore it from a copy"));
    }
    if found > wanted {
        return Err(Error::unsupported(format!("{} bytes follow the array", found - wanted))
            .hint("if they are more arrays, save each in a file of its own"));
    }
    Ok(())
}

/// Shape of runs of the file of about the size of chunks: whole first axes, and a part of the next.
fn runs(variable: &Variable) -> Result<Vec<u64>> {
    let stored = Variable::plain(variable.path.clone(), variable.dtype, reversed(&variable.shape));
    Ok(reversed(&chunk_shape(&ChunkRule::Auto, &stored)?))
}

fn reversed(axes: &[u64]) -> Vec<u64> {
    axes.iter().rev().copied().collect()
}

impl Source for NpySource {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        "NumPy"
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let info = self.model.variable(variable)?;
        self.read_elements(info, region, out)
            .map_err(|error| error.at_variable(info.name()).at(self.path.display().to_string()))
    }

    fn is_written(&self, _variable: usize, _region: &Region) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
