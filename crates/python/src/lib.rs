//! The native half of the Python package: text and bytes in, text and bytes out. The Python half gives them shape.

mod arrays;
mod checkpoint;
mod computed;
mod errors;
mod files;
mod filter;
mod later;
mod output;
mod part;
mod ranks;
mod relay;
mod request;
mod session;
mod write;

use pyo3::prelude::*;

/// `knarr._knarr`
#[pymodule]
fn _knarr(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("KnarrError", module.py().get_type::<errors::KnarrError>())?;
    module.add_function(wrap_pyfunction!(files::advise_file, module)?)?;
    module.add_function(wrap_pyfunction!(files::repack, module)?)?;
    module.add_function(wrap_pyfunction!(files::content_hash, module)?)?;
    module.add_function(wrap_pyfunction!(files::verify, module)?)?;
    module.add_function(wrap_pyfunction!(write::output_kind, module)?)?;
    module.add_function(wrap_pyfunction!(write::write, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::advise_array, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::chain_forms, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::compress, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::decompress, module)?)?;
    module.add_function(wrap_pyfunction!(filter::filter_words, module)?)?;
    module.add_function(wrap_pyfunction!(ranks::check_ranks, module)?)?;
    module.add_class::<checkpoint::CheckpointSession>()?;
    module.add_class::<checkpoint::CheckpointRestart>()?;
    module.add_class::<output::OutputSession>()?;
    module.add_class::<part::StoredZarr>()?;
    Ok(())
}
