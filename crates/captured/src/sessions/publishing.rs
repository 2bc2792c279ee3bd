//! A file that is transferred to other components, on the side of the component that writes it.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use knarr_array::comm::barrier;
use knarr_array::error::{Error, Result};
use knarr_capture::meeting::{ComponentStatus, Watch};
use knarr_capture::program::{Run, run};
use knarr_capture::{Event, HandedOver, Point, Published, Reading, SpoolPlace};
use knarr_config::Publish;

use crate::file::CapturedFile;

/// Bytes of a header, at most. PnetCDF may have made the file as long as its values would be, but reserves no memory.
const LONGEST: u64 = 1 << 28;

impl CapturedFile {
    /// True if other components read the file.
    fn is_read(&self) -> bool {
        self.is_own() && self.session > 0 && self.rule.transfer().is_read(self.session)
    }

    /// True on the rank that offers it to them.
    fn publishes(&self) -> bool {
        self.is_read() && self.ranks.comm().rank() == 0
    }

    /// Shows the header, as it is now, to the components that read the file, if it is transferred: from then on the session is
    /// offered.
    ///
    /// # Errors
    /// `Write`, `Read`.
    pub fn publish(&self) -> Result<()> {
        if self.publishes() { publish(&self.directory) } else { Ok(()) }
    }

    /// Offers the session, if it is transferred, with a header that the program has closed.
    ///
    /// # Errors
    /// `Write`.
    pub fn publish_closed(&self) -> Result<()> {
        if !self.publishes() {
            return Ok(());
        }
        let published = self.directory.join(HandedOver::PUBLISHED);
        let linked = fs::hard_link(self.directory.join(HandedOver::HEADER), &published);
        linked.map_err(|error| Error::write(&published, &error))
    }

    /// Lets the components that read the file see the puts up to `newest`, if the rule says so of calls such as this one. All ranks
    /// have made these puts.
    ///
    /// # Errors
    /// `Write`, `Read`.
    pub fn publish_values(&self, call: Publish, newest: Point) -> Result<()> {
        let is_shown = call <= self.rule.transfer().publish() && self.is_own();
        if self.session == 0 || !is_shown || self.ranks.comm().rank() != 0 {
            return Ok(());
        }
        let published = Published::read(&self.directory)?;
        let mut transfers = published.map_or_else(Vec::new, |published| published.transfers);
        transfers.extend(Some(newest).filter(|_| call == Publish::Transfer));
        // Attributes may have changed.
        self.publish()?;
        Published { newest, transfers }.save(&self.directory)
    }

    /// Waits for those that read what was shown by a call of DTF's. Collective.
    pub fn await_transfer(&self) {
        if !self.is_read() || self.rule.transfer().publish() < Publish::Transfer {
            return;
        }
        // Ranks that do not see the notes of those that read wait for the first one.
        let sees = !self.ranks.span_nodes() || self.ranks.comm().rank() == 0;
        let published = Published::read(&self.directory).ok().flatten();
        let count = published.map_or(0, |published| published.transfers.len() as u64);
        if let Some(run) = run().filter(|_| sees)
            && let Some(spool) = &run.rules().spool
        {
            await_transfer(run, spool, self, count);
        }
        // What fails here fails in the next call, too.
        let _ = barrier(self.ranks.comm());
    }
}

/// As [`CapturedFile::publish`], for the header in `directory`.
fn publish(directory: &Path) -> Result<()> {
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

/// Waits until the components that read the file have called `dtf_transfer` as often as this one, or will not: DTF's programs meet
/// there. What they see does not depend on that, so the program goes on after the rule's timeout.
fn await_transfer(
    run: &Run,
    spool: &SpoolPlace,
    CapturedFile { rule, target, directory, .. }: &CapturedFile,
    count: u64,
) {
    let rule = rule.transfer();
    let (begin, mut watch) = (Instant::now(), Watch::new());
    let has_it = |reader: &&String| {
        HandedOver::is_noted(directory, reader, Reading::Done) || HandedOver::transferred(directory, reader) >= count
    };
    let is_over = |reader: &&String| {
        let status = ComponentStatus::read(&spool.directory, rule.rendezvous(), reader);
        status.is_ok_and(|status| status.is_over(rule.timeout()))
    };
    loop {
        watch.on(directory);
        let mut missing = rule.to().iter().filter(|reader| !has_it(reader) && !is_over(reader));
        let Some(reader) = missing.next().filter(|_| run.is_alive()) else { return };
        if begin.elapsed() > rule.timeout() {
            let what = format!("component '{reader}' has not called dtf_transfer: the program goes on");
            run.notify(Event::Awaits { path: target.clone(), what, seconds: begin.elapsed().as_secs() });
            return;
        }
        watch.wait();
    }
}
