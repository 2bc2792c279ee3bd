//! Components on other nodes, as the programs of this node see them.
//!
//! The launcher keeps an *image* of each such component in its own spool: a directory as the component has it in the
//! rendezvous, with sessions whose values lie elsewhere. Programs look there as they look into the rendezvous. A component with
//! launchers on several nodes is seen by its image even where one of them is on this node.

use std::fs;
use std::path::{Path, PathBuf};

use knarr_array::error::Result;

use super::address::Address;
use super::component::Presence;
use crate::config::TransferRule;
use crate::document::{get, put};
use crate::snapshot::SpoolPlace;

/// Directory in the spool with all images. No file is handed over in it.
const IMAGES: &str = "images";

/// Directory in the spool that is the image of a rendezvous.
pub fn image_of(spool: &Path, rendezvous: &Path) -> PathBuf {
    spool.join(IMAGES).join("met").join(rendezvous.strip_prefix("/").unwrap_or(rendezvous))
}

/// Directory in the spool with the sessions of images.
pub fn sessions_of_images(spool: &Path) -> PathBuf {
    spool.join(IMAGES).join("sessions")
}

/// Why what is elsewhere does not come any more.
pub struct Gone;

impl Gone {
    const NAME: &'static str = "gone.json";

    /// Notes it in the directory of a session, or of images of components.
    ///
    /// # Errors
    /// `Write`.
    pub fn note(directory: &Path, why: &str) -> Result<()> {
        put(directory, Self::NAME, &why)
    }

    /// What is noted in a directory.
    pub fn why(directory: &Path) -> Option<String> {
        get(directory, Self::NAME).ok().flatten()
    }

    /// It comes again.
    pub fn clear(directory: &Path) {
        let _ = fs::remove_file(directory.join(Self::NAME));
    }
}

/// A component that writes, where programs on this node meet it.
pub struct Writer {
    /// The rule, with the directory to look in as its rendezvous.
    pub met: TransferRule,
    /// Whether it is there.
    pub presence: Presence,
    /// Why it is not reached, if its launchers live.
    pub why: Option<String>,
}

impl Writer {
    /// The one that writes the files of the rule.
    ///
    /// # Errors
    /// As for [`Address::all`].
    pub fn of(rule: &TransferRule, own: &SpoolPlace) -> Result<Self> {
        let (rendezvous, from) = (rule.rendezvous(), rule.from());
        let image = image_of(&own.directory, rendezvous);
        let shown = TransferRule { rendezvous: Some(image.clone()), ..rule.clone() };
        // The launcher of this node looks whether that is still so: not every program need ask the file system that all share.
        let presence = Presence::of(&image, from);
        if presence != Presence::Absent {
            return Ok(Self { met: shown, presence, why: None });
        }
        let there = Presence::of(rendezvous, from);
        if Address::all(rendezvous, from)?.values().all(|address| address.is_near(own)) {
            return Ok(Self { met: rule.clone(), presence: there, why: None });
        }
        // What a launcher that was killed has left is of no account.
        let why = Gone::why(&image.join(gone_of(from))).filter(|_| there != Presence::Absent);
        // The launcher has not reached it yet, and knows of no session of it.
        let is_to_be_reached = why.is_none() && there != Presence::Absent;
        let presence = if is_to_be_reached { Presence::Running } else { Presence::Absent };
        Ok(Self { met: shown, presence, why })
    }
}

/// Directory in the image of a rendezvous in which is noted why a component is gone: names of components have no dot in front.
pub fn gone_of(from: &str) -> PathBuf {
    PathBuf::from(format!(".gone-{from}"))
}
