//! How HDF5 files are told from others, and opened.

use knarr_array::Result;
use knarr_codec::chain::Chain;
use knarr_codec::codec::CodecList;

use super::read::pieces::layout;
use super::read::source::{FilterResolver, Hdf5Source};
use knarr_input::format::{Format, Probe};

/// HDF5, and netCDF-4 on top of it.
pub const FORMAT: Format = Format {
    name: "HDF5 and netCDF-4",
    sniff,
    open: |probe, codecs, _| Ok(Box::new(Hdf5Source::open(probe.path, resolver(codecs))?)),
    layout: Some(layout),
};

/// True if the HDF5 signature stands at 0, 512, 1024, 2048, …: before it there may be a user block.
fn sniff(probe: &Probe<'_>) -> Result<bool> {
    const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";
    let Some(len) = probe.length() else { return Ok(false) };
    let mut offset = 0;
    while offset < len {
        if probe.bytes_at(offset, 8)? == SIGNATURE {
            return Ok(true);
        }
        offset = if offset == 0 { 512 } else { offset.saturating_mul(2) };
    }
    Ok(false)
}

/// Makes chains of `codecs` from filter pipelines.
pub fn resolver(codecs: &CodecList) -> Box<dyn FilterResolver> {
    let codecs = codecs.clone();
    Box::new(move |filters: &[_], input: &_| Chain::from_hdf5(&codecs, filters, input))
}
