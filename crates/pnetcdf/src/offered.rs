//! A file that is transferred to other components, on the side of the component that writes it.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;
use knarr_capture::config::TransferRule;
use knarr_capture::meeting::Offers;

/// Bytes of a header, at most. PnetCDF may have made the file as long as its values would be, but reserves no memory.
const LONGEST: u64 = 1 << 28;

/// Shows the header in `directory` to the components that read the file, and offers the session if it is not offered yet.
///
/// # Errors
/// `Write`, `Read`.
pub(crate) fn publish(rule: &TransferRule, target: &Path, session: u64, directory: &Path) -> Result<()> {
    let header = directory.join(HandedOver::HEADER);
    let mut bytes = Vec::new();
    let read = File::open(&header).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    read.map_err(|error| Error::read(&header, &error))?;
    let (beside, published) = (directory.join("published.new"), directory.join(HandedOver::PUBLISHED));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &published));
    written.map_err(|error| Error::write(&published, &error))?;
    Offers::of(rule, target).offer(session, directory)
}

/// Offers a session whose header in `directory` the program has closed, if readers get it.
///
/// # Errors
/// `Write`.
pub fn publish_closed(rule: &TransferRule, target: &Path, session: u64, directory: &Path) -> Result<()> {
    if !rule.is_read(session) {
        return Ok(());
    }
    let published = directory.join(HandedOver::PUBLISHED);
    let linked = fs::hard_link(directory.join(HandedOver::HEADER), &published);
    linked.map_err(|error| Error::write(&published, &error))?;
    Offers::of(rule, target).offer(session, directory)
}
