//! Client data of Knarr's HDF5 filter.

use knarr_array::error::Result;
use knarr_codec::client_data::{ClientData, FilterOptions};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::request::Request;

/// The words for `compression_opts` that ask for the goal and the quality of `request`.
#[pyfunction]
pub(crate) fn filter_words(request: &str, missing: Option<f64>) -> PyResult<Vec<u32>> {
    let outcome = || -> Result<Vec<u32>> {
        let settings = Request::parse(request)?.settings()?;
        let options = FilterOptions { goal: settings.goal, quality: settings.quality, missing };
        ClientData { options, chunks: None }.words()
    };
    outcome().map_err(raise)
}
