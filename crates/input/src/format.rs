//! What a format says of itself, and what is known of an input before its format is.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use knarr_array::{Error, ErrorKind, Result};
use knarr_checkpoint::layout::FileLayout;
use knarr_codec::codec::CodecList;
use knarr_flow::store::Source;
use knarr_flow::strided::ReadAt;
use knarr_flow::urls::StoreResolver;

use crate::partial::Input;
use crate::raw_layout::RawLayout;

/// What is said about inputs besides their names.
#[derive(Clone)]
pub struct Inputs {
    /// What the bytes of files mean that are of no format that describes itself.
    pub raw: Option<RawLayout>,
    /// Bytes that an input of a format without random access may take in memory.
    pub max_mem: u64,
    /// Opens inputs that lie elsewhere; `None` if there are none.
    pub stores: Option<Arc<dyn StoreResolver>>,
}

impl Default for Inputs {
    fn default() -> Self {
        Self { raw: None, max_mem: 512 << 20, stores: None }
    }
}

/// A format that can be read.
pub struct Format {
    /// Name for people.
    pub name: &'static str,
    /// True if an input is of this format.
    pub sniff: fn(&Probe<'_>) -> Result<bool>,
    /// Opens an input of this format.
    pub open: fn(&Probe<'_>, &CodecList, &Inputs) -> Result<Box<dyn Source>>,
    /// Finds where values lie in the bytes of a file, for checkpoints; `None` if that is not known of the format.
    pub layout: Option<FindLayout>,
}

/// Finds where values lie in the bytes of a file.
pub type FindLayout = fn(&Path) -> Result<FileLayout>;

/// The beginning of a file, or a directory.
pub struct Probe<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// What it is called where it comes from: `path` may be a copy.
    pub called: &'a Path,
    file: Option<(Input, u64)>,
    head: Vec<u8>,
}

impl<'a> Probe<'a> {
    /// Looks at the input at `path`.
    ///
    /// # Errors
    /// `NotFound` or `Read` if it cannot be read, or is neither file nor directory.
    pub fn new(path: &'a Path) -> Result<Self> {
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
    pub fn length(&self) -> Option<u64> {
        self.file.as_ref().map(|(_, len)| *len)
    }

    /// First eight bytes, fewer if the file is shorter.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// So many bytes from `offset` on, fewer if the file ends before.
    ///
    /// # Errors
    /// `Read` if it cannot be read.
    pub fn bytes_at(&self, offset: u64, most: u64) -> Result<Vec<u8>> {
        let Some((file, len)) = &self.file else { return Ok(Vec::new()) };
        let wanted = usize::try_from(len.saturating_sub(offset).min(most)).unwrap_or(0);
        let mut bytes = vec![0; wanted];
        file.read_exact_at(&mut bytes, offset).map_err(|error| Error::read(self.path, &error))?;
        Ok(bytes)
    }

    /// What it looks like, for who knows no format of it.
    pub fn describe(&self) -> String {
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
