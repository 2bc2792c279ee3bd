//! What becomes of the values of all ranks: one file.

use std::path::PathBuf;
use std::time::Instant;

use knarr_array::comm::{self, Comm, agree};
use knarr_array::error::{Error, Result};
use knarr_array::model::{Model, Variable};
use knarr_flow::engine::{Engine, Silent};
use knarr_flow::provenance::today;
use knarr_flow::settings::Settings;
use knarr_flow::store::Source;
use knarr_formats::handed_over::HandedOverSource;
use knarr_formats::output::OutputKind;
use knarr_handover::{Delivery, RankLocation};
use serde::{Deserialize, Serialize};

use crate::compress::{RepackOptions, notes, write_source};

/// A file that is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// Its path, as the program named it.
    pub path: PathBuf,
    /// Bytes of its values.
    pub raw_bytes: u64,
    /// Bytes of the file.
    pub output_bytes: u64,
    /// From the commit until it was complete, in seconds.
    pub seconds: f64,
    /// The longest time that one of the ranks spent in calls until the commit, in seconds.
    pub blocked_seconds: f64,
    /// Wishes that were not met, and what readers do not find, in words.
    pub notes: Vec<String>,
}

/// The file that one rank makes of the values of all.
pub(super) struct Making {
    pub(super) engine: Engine,
    pub(super) model: Model,
    pub(super) settings: Settings,
    /// Where the values of each rank are.
    pub(super) ranks: Vec<RankLocation>,
    pub(super) path: PathBuf,
    pub(super) kind: &'static dyn OutputKind,
    pub(super) replace: bool,
    pub(super) command: String,
    pub(super) blocked_seconds: f64,
    pub(super) since: Instant,
}

/// Nothing on the other ranks.
pub(super) struct MadeByOne(pub(super) Option<Making>);

impl Delivery for MadeByOne {
    type Delivered = Option<Written>;
    type Outcome = Written;

    fn deliver(&self) -> Result<Option<Written>> {
        self.0.as_ref().map(Making::make).transpose()
    }

    fn finish(self, comm: &dyn Comm, written: Result<Option<Written>>) -> Result<Written> {
        let written: Option<Written> = comm::share(comm, &agree(comm, written)?)?;
        written.ok_or_else(|| Error::internal("no rank made the file"))
    }
}

impl Making {
    fn make(&self) -> Result<Written> {
        let Self { engine, path, kind, settings, .. } = self;
        let held = self.ranks.iter().enumerate().map(|(rank, place)| place.clone().rank_values(rank));
        let source = HandedOverSource::of_model(self.model.clone(), held, path)?;
        let raw_bytes = source.model().variables.iter().map(Variable::raw_bytes).sum();
        let (replaces, command, when) = (self.replace.into(), self.command.clone(), today());
        let options = RepackOptions { replaces, command, when, ..RepackOptions::default() };
        let done = write_source(engine, Box::new(source), (path, *kind), settings, &options, &Silent)?;
        Ok(Written {
            path: path.clone(),
            raw_bytes,
            output_bytes: done.output_bytes,
            seconds: self.since.elapsed().as_secs_f64(),
            blocked_seconds: self.blocked_seconds,
            notes: notes::all(&done),
        })
    }
}
