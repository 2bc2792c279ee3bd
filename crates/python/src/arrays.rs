//! Arrays in memory: advise, compress, decompress. The GIL is released while codecs run.

use knarr_core::array::{ArraySpec, ArrayView, DType, Endian, swap_bytes};
use knarr_core::chain::{Chain, ChainSpec};
use knarr_core::choose::Target;
use knarr_core::error::{Error, Result};
use knarr_core::frame;
use knarr_core::pipeline::plan_array;
use knarr_core::settings::{ChunkRule, Settings, VariableSettings};
use knarr_formats::repack::OutputFormat;
use knarr_native::FrameCodecs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raise;
use crate::request::Request;

/// Of frames.
static CODECS: FrameCodecs = FrameCodecs::new();

/// The choice for an array as JSON, for an output that `suffix` stands for; `fills` are bit patterns.
#[pyfunction]
pub(crate) fn advise_array(
    py: Python<'_>,
    bytes: &[u8],
    dtype: &str,
    shape: Vec<usize>,
    fills: Vec<u64>,
    suffix: &str,
    request: &str,
) -> PyResult<String> {
    let outcome = || -> Result<String> {
        let request = Request::parse(request)?;
        let settings = request.settings()?;
        let target = match OutputFormat::of_suffix(suffix)?.target(settings.portable)? {
            // An array is not in a netCDF file yet: who writes it says which filters there are.
            Target::Hdf5(_) => Target::Hdf5(settings.portable),
            zarr @ Target::Zarr(_) => zarr,
        };
        let spec = spec(dtype, shape, fills)?;
        let choice = choose(&request, &settings, &spec, bytes, target)?;
        serde_json::to_string(&choice).map_err(|error| Error::internal(error.to_string()))
    };
    py.detach(outcome).map_err(raise)
}

/// How a chain is written in HDF5 and Zarr for chunks of this type and shape, as JSON:
/// `{"hdf5": [{"id", "optional", "cd_values"}] | null, "zarr": [{"name", "configuration"}] | null}`.
#[pyfunction]
pub(crate) fn chain_forms(chain: &str, dtype: &str, shape: Vec<usize>) -> PyResult<String> {
    let outcome = || -> Result<String> {
        let chain: ChainSpec = chain.parse()?;
        let prepared = Chain::prepare(&knarr_native::codecs()?, &chain, &spec(dtype, shape, Vec::new())?)?;
        Ok(serde_json::json!({ "hdf5": prepared.hdf5_pipeline(), "zarr": prepared.zarr_codecs() }).to_string())
    };
    outcome().map_err(raise)
}

/// Compresses an array into a frame that names its chain, type and shape.
#[pyfunction]
pub(crate) fn compress<'py>(
    py: Python<'py>,
    bytes: &[u8],
    dtype: &str,
    shape: Vec<usize>,
    fills: Vec<u64>,
    request: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let outcome = || -> Result<Vec<u8>> {
        let request = Request::parse(request)?;
        let spec = spec(dtype, shape, fills)?;
        let mut out = Vec::new();
        request.packer()?.pack(&ArrayView::new(&spec, bytes)?, &mut out)?;
        Ok(out)
    };
    py.detach(outcome).map(|packed| PyBytes::new(py, &packed)).map_err(raise)
}

/// The array of a frame: its little-endian bytes, type and shape.
#[pyfunction]
pub(crate) fn decompress<'py>(py: Python<'py>, packed: &[u8]) -> PyResult<(Bound<'py, PyBytes>, String, Vec<usize>)> {
    let outcome = || -> Result<(Vec<u8>, String, Vec<usize>)> {
        let frame = frame::read(packed)?;
        let array = &frame.array;
        if !DType::NUMBERS.contains(&array.dtype) {
            return Err(Error::unsupported(format!("a frame of elements of type {}", array.dtype)));
        }
        let mut out = Vec::new();
        CODECS.decode(&frame, &mut out)?;
        // The HDF5 filter makes frames of both byte orders.
        if array.endian == Endian::Big {
            swap_bytes(&mut out, array.dtype.size());
        }
        Ok((out, array.dtype.to_string(), array.shape.clone()))
    };
    py.detach(outcome).map(|(bytes, dtype, shape)| (PyBytes::new(py, &bytes), dtype, shape)).map_err(raise)
}

fn choose(
    request: &Request,
    settings: &Settings,
    spec: &ArraySpec,
    bytes: &[u8],
    target: Target,
) -> Result<knarr_core::plan::Choice> {
    let mine = VariableSettings {
        quality: settings.quality,
        kept_lossless: None,
        chain: settings.chain.clone(),
        chunks: ChunkRule::Auto,
    };
    plan_array(&request.engine()?, spec, bytes, &mine, &settings.goal, target)
}

fn spec(dtype: &str, shape: Vec<usize>, fills: Vec<u64>) -> Result<ArraySpec> {
    Ok(ArraySpec { dtype: number_type(dtype)?, endian: Endian::Little, shape, fills })
}

/// Of an array as NumPy has it on this machine.
pub(crate) fn native_spec(dtype: &str, shape: &[u64]) -> Result<ArraySpec> {
    let shape = shape.iter().map(|&n| usize::try_from(n)).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| Error::unsupported("an array larger than memory"))?;
    let endian = if cfg!(target_endian = "big") { Endian::Big } else { Endian::Little };
    Ok(ArraySpec { endian, ..ArraySpec::new(number_type(dtype)?, shape) })
}

fn number_type(dtype: &str) -> Result<DType> {
    let known = DType::NUMBERS.into_iter().find(|known| known.to_string() == dtype);
    known.ok_or_else(|| Error::unsupported(format!("arrays of type '{dtype}' are not served")))
}
