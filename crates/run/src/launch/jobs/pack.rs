//! Routes `compress` and `stage`: a file that the program has closed is packed in another process, and the result put in its place.
//!
//! The result is written on the same file system, synced and proven; then names are exchanged in one step. Before and after the
//! exchange the original must be what was read and nobody may have it open for writing; otherwise it gets its name back.
//! Programs under `knarr run` cannot open a file with HDF5 for writing between the two looks: they wait at the gate, and ranks that open
//! it together wait on all their nodes. For other libraries, whose files are packed when the program has ended, and for other programs,
//! the second look covers that moment, except on file systems that cannot exchange names, and for writers on other machines.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_capture::HandedOver;
use knarr_flow::output::FileIdentity;
use knarr_routes::compress::Repacked;

use crate::launch::jobs::closed::{Closed, ClosedJob};
use crate::launch::jobs::exchange::{Exchanged, copy_properties, exchange, shut};
use crate::launch::jobs::replacement::{Replacement, is_temporary};
use crate::launch::jobs::tasks::PackFile;
use crate::launch::outcome::Outcome;
use knarr_capture::processes::name_of;

/// Packs the file, and puts the result in its place.
pub(in crate::launch::jobs) fn pack(job: &ClosedJob, file: &Closed<'_>) -> Result<Outcome> {
    let Closed { original, before, rule, filters } = file;
    let mut packed = Replacement::new(&job.path, before, &job.scratch);
    let task = PackFile {
        input: job.path.clone(),
        output: packed.path().to_owned(),
        rule: (*rule).clone(),
        filters: *filters,
        command: job.command.clone(),
        when: job.when.clone(),
    };
    let repacked: Repacked = match job.ask_of(&task, file)? {
        Ok(repacked) => repacked,
        Err(outcome) => return Ok(outcome),
    };
    if repacked.output_bytes >= before.len() {
        return Ok(Outcome::Left("packing would not make it smaller".to_owned()));
    }
    copy_properties(original, before, packed.path()).map_err(|error| Error::write(&job.path, &error))?;
    let (was, now) = (FileIdentity::of(before), FileIdentity::at(packed.path()));
    let note = |path: &Path| {
        now.into_iter().for_each(|now| HandedOver::stored_anew(&job.spools, path, was, now));
    };
    note(&job.path);
    if job.share.effort.background {
        // Before it has its name: who opens it from then on knows.
        job.packed.note(packed.path(), &repacked.as_made)?;
    }
    let published = publish(job, (original, before), &mut packed);
    if !matches!(published, Ok(Ok(_))) {
        job.packed.forget_at(packed.path());
    }
    let path = match published? {
        Ok(path) => path,
        Err(outcome) => return Ok(outcome),
    };
    // The program may have begun one meanwhile.
    note(&path);
    Ok(Outcome::Packed(Box::new(Repacked { input: path.clone(), output: path, input_bytes: before.len(), ..repacked })))
}

/// Exchanges the original and the packed file. Returns the name they had: the program may have renamed its file.
fn publish(
    job: &ClosedJob,
    (original, before): (&File, &Metadata),
    packed: &mut Replacement,
) -> Result<Result<PathBuf, Outcome>> {
    let changed = |why: &str| Ok(Err(Outcome::Changed(why.to_owned())));
    let Some(_gate) = shut(&job.gate)? else { return changed("the program keeps opening files") };
    let Some(path) = name_of(original) else {
        if job.path.exists() {
            return changed("another file has its name");
        }
        return Ok(Err(Outcome::Left("the program removed it".to_owned())));
    };
    if is_temporary(&path) {
        return changed("another 'knarr run' packs it");
    }
    if path != job.path && job.rule(&path).is_none() {
        return Ok(Err(Outcome::Left("the program gave it a name that no rule matches".to_owned())));
    }
    Ok(match exchange((original, before), packed, &path)? {
        Exchanged::Yes => Ok(path),
        Exchanged::Changed => Err(Outcome::Changed("it was written again".to_owned())),
        Exchanged::Removed => Err(Outcome::Left("the program removed it".to_owned())),
        Exchanged::Displaced(error) => Err(Outcome::Displaced(error)),
    })
}
