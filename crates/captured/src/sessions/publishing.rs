//! A file that is transferred to other components, on the side of the component that writes it.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use knarr_array::error::{Error, Result};
use knarr_capture::meeting::{Met, Watch};
use knarr_capture::program::Run;
use knarr_capture::{Event, HandedOver, Reading, SpoolPlace};
use knarr_config::TransferRule;

/// Bytes of a header, at most. PnetCDF may have made the file as long as its values would be, but reserves no memory.
const LONGEST: u64 = 1 << 28;

/// Shows the header in `directory`, as it is now, to the components that read the file: from then on the session is offered.
///
/// # Errors
/// `Write`, `Read`.
pub fn publish(directory: &Path) -> Result<()> {
    let header = directory.join(HandedOver::HEADER);
    let mut bytes = Vec::new();
    let read = File::open(&header).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    read.map_err(|error| Error::read(&header, &error))?;
    let (beside, published) = (directory.join("published.new"), directory.join(HandedOver::PUBLISHED));
    if fs::read(&published).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &published));
    written.map_err(|error| Error::write(&published, &error))
}

/// Offers a session whose header in `directory` the program has closed, if readers get it.
///
/// # Errors
/// `Write`.
pub fn publish_closed(rule: &TransferRule, session: u64, directory: &Path) -> Result<()> {
    if !rule.is_read(session) {
        return Ok(());
    }
    let published = directory.join(HandedOver::PUBLISHED);
    let linked = fs::hard_link(directory.join(HandedOver::HEADER), &published);
    linked.map_err(|error| Error::write(&published, &error))
}

/// Waits until the components that read the file have called `dtf_transfer` as often as this one, or will not: DTF's programs meet
/// there. What they see does not depend on that, so the program goes on after the rule's timeout.
pub fn await_transfer(run: &Run, spool: &SpoolPlace, rule: &TransferRule, target: &Path, directory: &Path, count: u64) {
    let (begin, mut watch) = (Instant::now(), Watch::new());
    let has_it = |reader: &&String| {
        HandedOver::is_noted(directory, reader, Reading::Done) || HandedOver::transferred(directory, reader) >= count
    };
    let is_over = |reader: &&String| {
        let met = Met::read(&spool.directory, rule.rendezvous(), reader);
        met.is_ok_and(|met| met.is_over(rule.timeout()))
    };
    loop {
        watch.on(directory);
        let mut missing = rule.to().iter().filter(|reader| !has_it(reader) && !is_over(reader));
        let Some(reader) = missing.next().filter(|_| run.is_alive()) else { return };
        if begin.elapsed() > rule.timeout() {
            let what = format!("component '{reader}' has not called dtf_transfer: the program goes on");
            run.tell(Event::Awaits { path: target.to_owned(), what, seconds: begin.elapsed().as_secs() });
            return;
        }
        watch.wait();
    }
}
