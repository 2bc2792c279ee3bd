//! Which format a path holds.

use std::path::Path;

use knarr_array::model::Model;
use knarr_array::{Error, Result};
use knarr_codec::codec::CodecList;
use knarr_flow::store::{Source, Values};
use knarr_flow::urls::url_of;
use knarr_handover::AssembledPuts;

use crate::raw::RawSource;
use crate::unchanged::Watched;
use crate::{classic, csv, npy, remote, zarr};
use knarr_hdf5 as hdf5;
use knarr_input::format::{FindLayout, Format, Inputs, Probe};
use knarr_input::header::ExternalValues;

/// The formats whose files say themselves what they are, in the order in which they are tried.
const FORMATS: &[Format] = &[hdf5::FORMAT, classic::FORMAT, zarr::FORMAT, zarr::ZIPPED, npy::FORMAT];

/// Text does not say what it is: it is tried last, and what the user says about the bytes counts more than a suffix.
const TABLE: Format = csv::FORMAT;

/// The HDF5 or netCDF-4 file at `path`, without HDF5's lock.
///
/// # Errors
/// As for [`open`].
pub fn open_hdf5_unlocked(path: &Path, codecs: &CodecList) -> Result<hdf5::Hdf5Source> {
    hdf5::Hdf5Source::open_unlocked(path, hdf5::resolver(codecs))
}

/// The HDF5 or netCDF-4 file that a program has handed over: a header, and the puts of all ranks. The rest is as
/// for [`hdf5::Hdf5Source::handed_over`].
///
/// # Errors
/// As for [`open`].
pub fn open_handed_over(
    header: &Path,
    puts: (AssembledPuts, &[Option<u64>]),
    target: &Path,
    state: hdf5::Handed,
    codecs: &CodecList,
) -> Result<Box<dyn Source>> {
    Ok(Box::new(hdf5::Hdf5Source::handed_over(header, puts, target, state, hdf5::resolver(codecs))?))
}

/// What a header describes whose values lie elsewhere, and which of the variables puts mean by a number. `addresses` are those
/// of the datasets by their numbers; a classic header has none. Nothing is said of a dataset that was removed.
///
/// # Errors
/// As for [`open`].
pub fn described(
    header: &Path,
    addresses: Option<&[Option<u64>]>,
    codecs: &CodecList,
) -> Result<(Model, Vec<Option<usize>>)> {
    if let Some(addresses) = addresses {
        return hdf5::Hdf5Source::described(header, addresses, hdf5::resolver(codecs));
    }
    let model = classic::model_of_header(header, 0)?;
    let numbers = (0..model.variables.len()).map(Some).collect();
    Ok((model, numbers))
}

/// A header: an HDF5 or netCDF-4 file, or a Zarr store, whose variables `external` have their values in `values`, by their places
/// in that list. In messages it is called `name`.
///
/// # Errors
/// As for [`open`]; `Internal` if the header lacks one of the variables.
pub fn open_header(
    header: &Path,
    name: &Path,
    (external, values): (&[ExternalValues], Box<dyn Values>),
    codecs: &CodecList,
) -> Result<Box<dyn Source>> {
    if header.is_dir() {
        return Ok(Box::new(zarr::ZarrSource::header(header, name, (external, values), codecs)?));
    }
    Ok(Box::new(hdf5::Hdf5Source::header(header, name, (external, values), hdf5::resolver(codecs))?))
}

/// Opens `path`, whatever format it has. Chunks are decoded with `codecs` where the format allows it.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read; `Corrupt` if it is of no format that is read; otherwise the
/// errors of the format.
pub fn open(path: &Path, codecs: &CodecList) -> Result<Box<dyn Source>> {
    open_with(path, codecs, &Inputs::default())
}

/// As [`open`]. With [`Inputs::raw`], files of no format that describes itself are raw files of that layout.
///
/// # Errors
/// As for [`open`].
pub fn open_with(path: &Path, codecs: &CodecList, inputs: &Inputs) -> Result<Box<dyn Source>> {
    if let Some(url) = url_of(path) {
        let open_file = |copy: &Path, called: &Path| open_here(copy, called, codecs, inputs);
        return remote::open((path, url), codecs, inputs.stores.as_deref(), open_file);
    }
    open_here(path, path, codecs, inputs)
}

/// Opens the file or directory at `path`, which is called `called` where it comes from.
fn open_here(path: &Path, called: &Path, codecs: &CodecList, inputs: &Inputs) -> Result<Box<dyn Source>> {
    let mut probe = Probe::new(path)?;
    probe.called = called;
    let table = inputs.raw.is_none().then_some(&TABLE);
    for format in FORMATS.iter().chain(table) {
        if (format.sniff)(&probe)? {
            return (format.open)(&probe, codecs, inputs);
        }
    }
    if let (Some(layout), Some(_)) = (&inputs.raw, probe.length()) {
        return Ok(Box::new(RawSource::open(path, called, layout)?));
    }
    let names: Vec<&str> = FORMATS.iter().chain([&TABLE]).map(|format| format.name).collect();
    Err(Error::corrupt(format!("of no known format: {}", probe.describe()))
        .hint(format!(
            "these are read: {}; if it holds nothing but numbers, say which: --raw shape=180x360,type=float32",
            names.join("; ")
        ))
        .at(path.display().to_string()))
}

/// Name of the format of `path`, if its bytes say which it is: then nothing need be told of them.
///
/// # Errors
/// `NotFound` or `Read` if it cannot be read.
pub fn self_described(path: &Path) -> Result<Option<&'static str>> {
    let probe = Probe::new(path)?;
    for format in FORMATS {
        if (format.sniff)(&probe)? {
            return Ok(Some(format.name));
        }
    }
    Ok(None)
}

/// As [`open_with`], for who writes what it reads: [`Source::unchanged`] tells whether somebody wrote to it meanwhile.
///
/// # Errors
/// As for [`open`]; `Read` if it was replaced meanwhile.
pub fn open_watched(path: &Path, codecs: &CodecList, inputs: &Inputs) -> Result<Box<dyn Source>> {
    Watched::open(path, || open_with(path, codecs, inputs))
}

/// What finds where values lie in the bytes of a file, if that is known of its format.
pub(crate) fn find_layout(probe: &Probe<'_>) -> Result<Option<FindLayout>> {
    for format in FORMATS {
        if format.layout.is_some() && (format.sniff)(probe)? {
            return Ok(format.layout);
        }
    }
    Ok(None)
}
