//! Arrays in memory: advise, compress, decompress. The GIL is released while codecs run.

use knarr_array::array::{ArraySpec, ArrayView, DType, Endian, swap_bytes};
use knarr_array::error::{Error, Result};
use knarr_choose::choose::candidates;
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::frame;
use knarr_flow::pipeline::plan_array;
use knarr_flow::settings::{ChunkRule, VariableSettings};
use knarr_formats::output;
use knarr_native::FrameCodecs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raise;
use crate::request::Request;

/// Of frames.
static CODECS: FrameCodecs = FrameCodecs::new();

/// The choice for an array as JSON, for an output that `suffix` stands for; `fills` are bit patterns. `among` are the
/// chains to choose from, if not all that such an output can hold.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "each is one of the call in Python")]
#[pyo3(signature = (bytes, dtype, shape, fills, suffix, request, among=None))]
pub(crate) fn advise_array(
    py: Python<'_>,
    bytes: &[u8],
    dtype: &str,
    shape: Vec<usize>,
    fills: Vec<u64>,
    suffix: &str,
    request: &str,
    among: Option<Vec<String>>,
) -> PyResult<String> {
    let outcome = || -> Result<String> {
        let request = Request::parse(request)?;
        let settings = request.settings()?;
        let target = output::of_suffix(suffix)?.limits(settings.portable)?;
        let spec = spec(dtype, shape, fills)?;
        let among: Option<Vec<ChainSpec>> =
            among.map(|chains| chains.iter().map(|chain| chain.parse()).collect::<Result<_>>()).transpose()?;
        let mine = VariableSettings {
            quality: settings.quality,
            kept_lossless: None,
            chain: settings.chain.clone(),
            chunks: ChunkRule::Auto,
        };
        let engine = request.engine()?;
        let choice = plan_array(&engine, &spec, bytes, &mine, &settings.goal, target, among.as_deref())?;
        serde_json::to_string(&choice).map_err(|error| Error::internal(error.to_string()))
    };
    py.detach(outcome).map_err(raise)
}

/// The chains that may be chosen for chunks of this type and shape in an output that `suffix` stands for, and how each
/// is written there, as JSON:
/// `{chain: {"hdf5": [{"id", "optional", "cd_values"}] | null, "zarr": [{"name", "configuration"}] | null}}`.
#[pyfunction]
pub(crate) fn chain_forms(dtype: &str, shape: Vec<usize>, suffix: &str, request: &str) -> PyResult<String> {
    let outcome = || -> Result<String> {
        let target = output::of_suffix(suffix)?.limits(Request::parse(request)?.settings()?.portable)?;
        let (codecs, spec) = (knarr_native::codecs()?, spec(dtype, shape, Vec::new())?);
        let mut forms = serde_json::Map::new();
        for chain in candidates(&codecs, &spec, target, None) {
            let prepared = Chain::prepare(&codecs, &chain, &spec)?;
            let form = serde_json::json!({ "hdf5": prepared.hdf5_pipeline(), "zarr": prepared.zarr_codecs() });
            forms.insert(chain.to_string(), form);
        }
        Ok(serde_json::Value::Object(forms).to_string())
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
