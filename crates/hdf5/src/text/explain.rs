//! What the library says about files and values that it cannot read, in words that help.

use crate::sys;
use crate::text::filters::{SZIP, filter_title};
use knarr_array::error::{Error, ErrorKind};
use knarr_array::filter::Hdf5Filter;
use knarr_flow::strided::ReadAt;
use knarr_input::partial::Input;

const DAMAGED: &str = "the file is damaged: restore it from a copy";

/// Why a file without the mark of HDF5 cannot be read.
pub(crate) fn not_hdf5(file: &Input, len: u64) -> Error {
    let mut start = [0u8; 4];
    if len == 0 {
        return Error::corrupt("the file is empty");
    }
    if file.read_exact_at(&mut start, 0).is_ok() && start.starts_with(b"CDF") {
        return Error::corrupt("it is a classic netCDF file, not HDF5 or netCDF-4");
    }
    Error::corrupt("it is not an HDF5 or netCDF-4 file")
}

/// Why it cannot be opened. `raw` is the file.
pub(crate) fn explain_open(error: Error, raw: &Input) -> Error {
    if let Some(driver) = driver_of_members(raw) {
        return Error::unsupported(format!("it is one of several files that HDF5's {driver} driver made as one"))
            .hint("write them as one file with a program that opens them with that driver, such as h5repart or h5py");
    }
    if error.kind() == ErrorKind::Write || error.message().contains("Permission denied") {
        return Error::new(ErrorKind::Read, error.message()).hint("make the file readable");
    }
    if error.message().contains("truncated file") {
        return error.hint("the file is truncated: copy it again, completely");
    }
    if error.message().contains("already open for write") || error.message().contains("unable to lock file") {
        return Error::new(ErrorKind::Read, error.message())
            .hint("another program is writing the file: wait until it has finished; if none is, one stopped while it did, and 'h5clear -s FILE' takes the mark away");
    }
    error.hint(DAMAGED)
}

/// The driver that divided a file into several, of which this is the first. It leaves its mark behind the superblock.
fn driver_of_members(raw: &Input) -> Option<&'static str> {
    let mut head = [0; 512];
    let count = raw.read_at(&mut head, 0).ok()?;
    let marks = [(b"NCSAfami", "family"), (b"NCSAmult", "multi or split")];
    let found = |mark: &[u8; 8]| head[..count].windows(mark.len()).any(|bytes| bytes == mark);
    marks.into_iter().find(|(mark, _)| found(mark)).map(|(_, driver)| driver)
}

/// For what szip encoded, where it cannot be read or kept.
pub(crate) const WITHOUT_SZIP: &str = "write the file anew with an HDF5 that has szip: 'h5repack -f NONE IN OUT'";

/// What is found on the way through a file that could be opened.
pub(crate) fn explain_scan(error: Error) -> Error {
    let unexplained = error.kind() == ErrorKind::Corrupt && error.advice().is_none();
    if unexplained { error.hint(DAMAGED) } else { error }
}

/// An error of the library in reading values that these filters encoded: names filters that it lacks, or says where it
/// looks for external raw files, if that is why.
pub(crate) fn explain_read(error: Error, filters: &[Hdf5Filter]) -> Error {
    if error.message().contains("external raw data file") {
        return Error::new(ErrorKind::Read, "HDF5 does not find the external raw file that holds its values").hint(
            "it is looked for in the current directory and beside the HDF5 file: put it there, or set HDF5_EXTFILE_PREFIX \
             to its directory",
        );
    }
    if error.kind() != ErrorKind::MissingFilter && !error.message().contains("filter") {
        return error;
    }
    let missing: Vec<u32> = filters.iter().map(|filter| filter.id).filter(|&id| !sys::has_filter(id)).collect();
    if missing.is_empty() {
        return error;
    }
    let titles: Vec<String> = missing.iter().map(|&id| filter_title(id)).collect();
    let are = if titles.len() == 1 { "is" } else { "are" };
    let why = format!("{} {are} needed to read it and {are} not available", titles.join(" and "));
    let error = Error::new(ErrorKind::MissingFilter, why);
    if missing.contains(&SZIP) {
        // No plugin brings it.
        return error.hint(WITHOUT_SZIP);
    }
    error.hint("set HDF5_PLUGIN_PATH to the folder of its plugin: for many, 'plugins' of the Python package hdf5plugin")
}
