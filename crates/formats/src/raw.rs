//! Raw files: the bytes of one variable and nothing else. What they mean is said by whoever opens them.

use std::any::Any;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use knarr_array::array::{DType, Endian, swap_bytes};
use knarr_array::model::{Dimension, Group, Model, Variable};
use knarr_array::region::{Region, chunk_count};
use knarr_array::{Error, Result};
use knarr_flow::bands::Bands;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::settings::{ChunkRule, chunk_shape};
use knarr_flow::store::Source;
use knarr_input::partial::Input;
use knarr_input::raw_layout::EXAMPLE;

use crate::plain::{self, Clocks};
use knarr_flow::strided::{self, StridedLayout};

pub use knarr_input::RawLayout;

/// An open raw file.
#[derive(Debug)]
pub struct RawSource {
    path: PathBuf,
    file: Input,
    file_len: u64,
    order: Endian,
    place: StridedLayout,
    model: Model,
}

impl RawSource {
    /// Opens `path`, whose bytes mean what `layout` says. A variable without a name there has that of the file that was
    /// meant, `called`.
    ///
    /// # Errors
    /// `NotFound` or `Read` if it cannot be read, `Corrupt` if it has another size.
    pub fn open(path: &Path, called: &Path, layout: &RawLayout) -> Result<Self> {
        let place = |error: Error| error.at(path.display().to_string());
        let read_error = |error: std::io::Error| Error::read(path, &error);
        let file = Input::open(path).map_err(read_error)?;
        let file_len = file.metadata().map_err(read_error)?.len();
        let size = layout.dtype.size() as u64;
        let wanted = bytes_of(layout.dtype, &layout.shape, layout.offset)
            .ok_or_else(|| place(Error::usage("the shape is larger than any file").hint(EXAMPLE)))?;
        if wanted.checked_add(layout.offset) != Some(file_len) {
            let found = file_len.saturating_sub(layout.offset);
            return Err(place(
                Error::corrupt(format!(
                    "'{layout}' means {wanted} bytes, the file has {found}{}",
                    if layout.offset > 0 { format!(" from byte {} on", layout.offset) } else { String::new() }
                ))
                .hint(format!(
                    "correct shape or type, if the file is whole: {found} bytes are {} elements of {} and {} bytes over",
                    found / size,
                    layout.dtype,
                    found % size
                )),
            ));
        }
        let name = layout.name.clone().unwrap_or_else(|| name_of(called));
        Ok(Self {
            path: path.to_owned(),
            file,
            file_len,
            order: layout.order,
            place: StridedLayout::dense(layout.offset, &layout.shape, layout.dtype.size()),
            model: model(name, layout.dtype, &layout.shape),
        })
    }
}

impl Source for RawSource {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn format(&self) -> &str {
        "raw"
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let info = self.model.variable(variable)?;
        let size = info.dtype.size();
        strided::read_region(&self.file, self.file_len, &self.place, size, region, out)
            .map_err(|error| error.at_variable(info.name()).at(self.path.display().to_string()))?;
        // Byte order is how the file stores numbers, not what they are.
        if self.order == Endian::Big {
            swap_bytes(out, size);
        }
        Ok(())
    }

    fn is_written(&self, _variable: usize, _region: &Region) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Bytes of an array that begins at `offset`; `None` if no file is so large. An extent of 0 does not hide the others.
pub(crate) fn bytes_of(dtype: DType, shape: &[u64], offset: u64) -> Option<u64> {
    let most = shape.iter().try_fold(dtype.size() as u64, |product, n| product.checked_mul((*n).max(1)))?;
    i64::try_from(most.checked_add(offset)?).ok()?;
    Some(shape.iter().product::<u64>() * dtype.size() as u64)
}

/// Name of the variable of a file that has none for it.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().map_or("data".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// One little-endian variable without gaps, with dimensions named as xarray names what has no names.
pub(crate) fn model(name: String, dtype: DType, shape: &[u64]) -> Model {
    let mut variable = Variable::plain(format!("/{name}"), dtype, shape.to_vec());
    variable.stored_bytes = Some(variable.raw_bytes());
    let dimensions: Vec<Dimension> = (0..)
        .zip(shape)
        .map(|(axis, len)| Dimension { name: format!("dim_{axis}"), len: *len, unlimited: false })
        .collect();
    variable.dimensions = dimensions.iter().map(|dimension| Some(dimension.name.clone())).collect();
    let root = Group { path: "/".to_owned(), dimensions, ..Group::default() };
    Model { groups: vec![root], variables: vec![variable] }
}

/// The one variable of `source`.
///
/// # Errors
/// `Unsupported` if there is not exactly one, or it holds no numbers.
pub fn only(source: &dyn Source) -> Result<&Variable> {
    let [variable] = source.model().variables.as_slice() else {
        let names: Vec<&str> = source.model().variables.iter().map(Variable::name).collect();
        return Err(Error::unsupported(format!("a raw file holds one variable, not {}", names.len())).hint(format!(
            "choose it {}: {}",
            plain::chosen_by(source),
            names.join(", ")
        )));
    };
    if matches!(variable.dtype, DType::Opaque(_)) {
        return Err(Error::unsupported("a raw file holds numbers, not strings or compounds")
            .hint("write netCDF-4 or HDF5 instead")
            .at_variable(variable.name()));
    }
    Ok(variable)
}

/// Writes the one variable of `source` to the empty file `file`, which will be called `output`: little-endian, row-major, in pieces by several
/// threads.
///
/// # Errors
/// As for [`only`]; what reading and writing report.
pub fn write(
    engine: &Engine,
    source: &dyn Source,
    (file, output): (&File, &Path),
    clocks: &Clocks,
    progress: &dyn Progress,
) -> Result<()> {
    let variable = only(source)?;
    let write_error = |error: std::io::Error| Error::write(output, &error);
    let total = variable.raw_bytes();
    progress.begin("writing", total);
    file.set_len(total).map_err(write_error)?;
    if variable.is_empty() {
        return Ok(());
    }
    // Pieces of whole rows of the last axes: each is one run of the file.
    let piece = chunk_shape(&ChunkRule::Auto, &Variable::plain("/", variable.dtype, variable.shape.clone()))?;
    let pieces = usize::try_from(chunk_count(&variable.shape, &piece))
        .map_err(|_| Error::unsupported("the variable is too large for this machine").at_variable(variable.name()))?;
    let size = variable.dtype.size();
    let bands = Bands::new(engine, source, 0, &piece, engine.max_mem / 2)?;
    engine.parallel(pieces, |number| {
        let Region { start, .. } = bands.region(number as u64);
        let mut bytes = Vec::new();
        clocks.read.time(|| bands.read(number as u64, &mut bytes))?;
        if variable.endian == Endian::Big {
            swap_bytes(&mut bytes, size);
        }
        let first = variable.shape.iter().zip(&start).fold(0, |sum, (n, i)| sum * n + i);
        let place = first * size as u64;
        clocks.write.time(|| file.write_all_at(&bytes, place)).map_err(write_error)?;
        progress.advance(bytes.len() as u64);
        Ok(())
    })?;
    Ok(())
}
