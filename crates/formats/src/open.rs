//! Which format a path holds: one line a format.

use crate::header::Apart;
use crate::partial::Input;
use crate::raw::{RawLayout, RawSource};
use crate::unchanged::Watched;
use crate::{classic, csv, hdf5, npy, remote, zarr};
use knarr_array::{Error, ErrorKind, Result};
use knarr_checkpoint::layout::FileLayout;
use knarr_codec::chain::Chain;
use knarr_codec::codec::CodecList;
use knarr_flow::network::{Network, url_of};
use knarr_flow::store::{Source, Values};
use knarr_flow::strided::ReadAt;
use knarr_handover::Gathered;
use knarr_zip::{ZipObjects, is_zip};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// What is said about inputs besides their names.
#[derive(Clone)]
pub struct Inputs {
    /// What the bytes of files mean that are of no format that describes itself.
    pub raw: Option<RawLayout>,
    /// Bytes that an input of a format without random access may take in memory.
    pub max_mem: u64,
    /// Opens inputs that lie elsewhere; `None` if there are none.
    pub network: Option<Arc<dyn Network>>,
}

impl Default for Inputs {
    fn default() -> Self {
        Self { raw: None, max_mem: 512 << 20, network: None }
    }
}

/// A format that can be read.
struct Format {
    /// Name for people.
    name: &'static str,
    sniff: fn(&Probe<'_>) -> Result<bool>,
    open: fn(&Probe<'_>, &CodecList, &Inputs) -> Result<Box<dyn Source>>,
    /// Finds where values lie in the bytes of a file, and how people call the format of such a file.
    layout: Option<(&'static str, FindLayout)>,
}

/// Finds where values lie in the bytes of a file.
pub(crate) type FindLayout = fn(&Path) -> Result<FileLayout>;

/// The formats whose files say themselves what they are, in the order in which they are tried.
const FORMATS: &[Format] = &[
    Format { name: "HDF5 and netCDF-4", sniff: is_hdf5, open: open_hdf5, layout: Some(("HDF5", hdf5::layout)) },
    Format {
        name: "netCDF-3 (CDF-1, CDF-2, CDF-5)",
        sniff: is_classic,
        open: open_classic,
        layout: Some(("netCDF-3", classic::layout)),
    },
    Format { name: "Zarr v2 and v3", sniff: is_zarr, open: open_zarr, layout: None },
    Format { name: "the same in a ZIP file", sniff: is_zipped_zarr, open: open_zipped_zarr, layout: None },
    Format { name: "NumPy (.npy)", sniff: is_npy, open: open_npy, layout: None },
];

/// Text does not say what it is: it is tried last, and what the user says about the bytes counts more than a suffix.
const TABLE: Format =
    Format { name: "CSV (.csv, .tsv, .txt, .dat, .asc)", sniff: is_csv, open: open_csv, layout: None };

/// Bytes that must be text for a file to be a table.
const TEXT: u64 = 4096;

fn is_hdf5(probe: &Probe<'_>) -> Result<bool> {
    probe.is_hdf5()
}

fn open_hdf5(probe: &Probe<'_>, codecs: &CodecList, _inputs: &Inputs) -> Result<Box<dyn Source>> {
    Ok(Box::new(hdf5::Hdf5Source::open(probe.path, resolver(codecs))?))
}

/// The HDF5 or netCDF-4 file at `path`, without HDF5's lock.
///
/// # Errors
/// As for [`open`].
pub fn open_hdf5_unlocked(path: &Path, codecs: &CodecList) -> Result<hdf5::Hdf5Source> {
    hdf5::Hdf5Source::open_unlocked(path, resolver(codecs))
}

/// The HDF5 or netCDF-4 file that a program has handed over: a header, and the puts of all ranks. The rest is as
/// for [`hdf5::Hdf5Source::handed_over`].
///
/// # Errors
/// As for [`open`].
pub fn open_handed_over(
    header: &Path,
    puts: (Gathered, &[Option<u64>]),
    target: &Path,
    is_closed: bool,
    codecs: &CodecList,
) -> Result<Box<dyn Source>> {
    Ok(Box::new(hdf5::Hdf5Source::handed_over(header, puts, target, is_closed, resolver(codecs))?))
}

/// A header: an HDF5 or netCDF-4 file, or a Zarr store, whose variables `apart` have their values in `values`, by their places
/// in that list. In messages it is called `name`.
///
/// # Errors
/// As for [`open`]; `Internal` if the header lacks one of the variables.
pub fn open_header(
    header: &Path,
    name: &Path,
    (apart, values): (&[Apart], Box<dyn Values>),
    codecs: &CodecList,
) -> Result<Box<dyn Source>> {
    if header.is_dir() {
        return Ok(Box::new(zarr::ZarrSource::header(header, name, (apart, values), codecs)?));
    }
    Ok(Box::new(hdf5::Hdf5Source::header(header, name, (apart, values), resolver(codecs))?))
}

fn resolver(codecs: &CodecList) -> Box<dyn hdf5::FilterResolver> {
    let codecs = codecs.clone();
    Box::new(move |filters: &[_], input: &_| Chain::from_hdf5(&codecs, filters, input))
}

fn is_classic(probe: &Probe<'_>) -> Result<bool> {
    Ok(classic::sniff(probe.head()))
}

fn open_classic(probe: &Probe<'_>, _codecs: &CodecList, _inputs: &Inputs) -> Result<Box<dyn Source>> {
    Ok(Box::new(classic::ClassicSource::open(probe.path)?))
}

fn is_zarr(probe: &Probe<'_>) -> Result<bool> {
    Ok(probe.file.is_none() && zarr::sniff(probe.path))
}

fn open_zarr(probe: &Probe<'_>, codecs: &CodecList, _inputs: &Inputs) -> Result<Box<dyn Source>> {
    Ok(Box::new(zarr::ZarrSource::open(probe.path, codecs)?))
}

fn is_zipped_zarr(probe: &Probe<'_>) -> Result<bool> {
    Ok(is_zip(probe.head()) && zarr::is_store(&members(probe.path)?)?)
}

fn open_zipped_zarr(probe: &Probe<'_>, codecs: &CodecList, _inputs: &Inputs) -> Result<Box<dyn Source>> {
    Ok(Box::new(zarr::ZarrSource::open_in(Arc::new(members(probe.path)?), probe.path, codecs)?))
}

/// The members of the ZIP file at `path`.
fn members(path: &Path) -> Result<ZipObjects<Input>> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = Input::open(path).map_err(read_error)?;
    let length = file.metadata().map_err(read_error)?.len();
    ZipObjects::open(file, length, path)
}

fn is_npy(probe: &Probe<'_>) -> Result<bool> {
    Ok(npy::sniff(probe.head()))
}

fn open_npy(probe: &Probe<'_>, _codecs: &CodecList, _inputs: &Inputs) -> Result<Box<dyn Source>> {
    Ok(Box::new(npy::NpySource::open(probe.path, probe.called)?))
}

fn is_csv(probe: &Probe<'_>) -> Result<bool> {
    Ok(probe.file.is_some() && csv::is_table(probe.path, &probe.bytes_at(0, TEXT)?))
}

fn open_csv(probe: &Probe<'_>, _codecs: &CodecList, inputs: &Inputs) -> Result<Box<dyn Source>> {
    Ok(Box::new(csv::CsvSource::open(probe.path, inputs.max_mem)?))
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
        return remote::open((path, url), codecs, inputs.network.as_deref(), open_file);
    }
    open_here(path, path, codecs, inputs)
}

/// Opens the file or directory at `path`, which is called `called` where it comes from.
fn open_here(path: &Path, called: &Path, codecs: &CodecList, inputs: &Inputs) -> Result<Box<dyn Source>> {
    let probe = Probe { called, ..Probe::new(path)? };
    let table = inputs.raw.is_none().then_some(&TABLE);
    for format in FORMATS.iter().chain(table) {
        if (format.sniff)(&probe)? {
            return (format.open)(&probe, codecs, inputs);
        }
    }
    if let (Some(layout), Some(_)) = (&inputs.raw, &probe.file) {
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

/// The beginning of a file, or a directory.
pub(crate) struct Probe<'a> {
    path: &'a Path,
    /// What it is called where it comes from: `path` may be a copy.
    called: &'a Path,
    file: Option<(Input, u64)>,
    head: Vec<u8>,
}

impl<'a> Probe<'a> {
    pub(crate) fn new(path: &'a Path) -> Result<Self> {
        let read_error = |error: std::io::Error| Error::read(path, &error);
        let metadata = std::fs::metadata(path).map_err(read_error)?;
        if metadata.is_dir() {
            return Ok(Self { path, called: path, file: None, head: Vec::new() });
        }
        // Opening a pipe that nobody writes to would wait for ever.
        if !metadata.is_file() {
            let kind = metadata.file_type();
            let (what, hint) = if kind.is_fifo() || kind.is_socket() {
                ("is a pipe, and what is read here and there cannot come through one", "save it as a file first")
            } else {
                ("is a device, no file", "name a file")
            };
            return Err(Error::new(ErrorKind::Read, what).hint(hint).at(path.display().to_string()));
        }
        let file = Input::open(path).map_err(read_error)?;
        let mut probe = Self { path, called: path, file: Some((file, metadata.len())), head: Vec::new() };
        probe.head = probe.bytes_at(0, 8)?;
        Ok(probe)
    }

    /// Length of the file in bytes; `None` for a directory.
    pub(crate) fn len(&self) -> Option<u64> {
        self.file.as_ref().map(|(_, len)| *len)
    }

    /// Name of the file's format, and what finds where values lie in it, if that is known of the format.
    pub(crate) fn layout(&self) -> Result<Option<(&'static str, FindLayout)>> {
        for format in FORMATS {
            if format.layout.is_some() && (format.sniff)(self)? {
                return Ok(format.layout);
            }
        }
        Ok(None)
    }

    /// First eight bytes, fewer if the file is shorter.
    fn head(&self) -> &[u8] {
        &self.head
    }

    /// So many bytes from `offset` on, fewer if the file ends before.
    fn bytes_at(&self, offset: u64, most: u64) -> Result<Vec<u8>> {
        let Some((file, len)) = &self.file else { return Ok(Vec::new()) };
        let wanted = usize::try_from(len.saturating_sub(offset).min(most)).unwrap_or(0);
        let mut bytes = vec![0; wanted];
        file.read_exact_at(&mut bytes, offset).map_err(|error| Error::read(self.path, &error))?;
        Ok(bytes)
    }

    /// True if the HDF5 signature stands at 0, 512, 1024, 2048, …: before it there may be a user block.
    fn is_hdf5(&self) -> Result<bool> {
        const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
        let Some((_, len)) = &self.file else { return Ok(false) };
        let mut offset = 0;
        while offset < *len {
            if self.bytes_at(offset, 8)? == SIGNATURE {
                return Ok(true);
            }
            offset = if offset == 0 { 512 } else { offset.saturating_mul(2) };
        }
        Ok(false)
    }

    fn describe(&self) -> String {
        match &self.file {
            None => "it is a directory without zarr.json, .zgroup or .zarray".to_owned(),
            Some((_, 0)) => "the file is empty".to_owned(),
            Some(_) => {
                let guess = match self.head() {
                    [0x1F, 0x8B, ..] => " (gzip: unpack it first)",
                    [b'P', b'K', 3, 4, ..] => {
                        " (zip, with no zarr.json, .zgroup or .zarray at its top: unpack it first)"
                    }
                    [0x28, 0xB5, 0x2F, 0xFD, ..] => " (zstd: unpack it first)",
                    [b'B', b'Z', b'h', ..] => " (bzip2: unpack it first)",
                    [0xFD, b'7', b'z', b'X', b'Z', ..] => " (xz: unpack it first)",
                    [b'G', b'R', b'I', b'B', ..] => " (GRIB)",
                    [0x0E, 0x03, 0x13, 0x01, ..] => " (HDF4)",
                    [b'C', b'D', b'F', ..] => " (a netCDF version that is not known)",
                    _ => "",
                };
                format!("it starts with \"{}\"{guess}", self.head().escape_ascii())
            }
        }
    }
}
