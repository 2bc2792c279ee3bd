//! Where the spool has its images of other components, and what belongs to them.

use std::path::{Path, PathBuf};

/// Directory in the spool with all images. No file is handed over in it.
const IMAGES: &str = "images";

/// Directory in the spool that is the image of a rendezvous.
pub fn image_of(spool: &Path, rendezvous: &Path) -> PathBuf {
    spool.join(IMAGES).join("met").join(rendezvous.strip_prefix("/").unwrap_or(rendezvous))
}

/// Directory in the spool with the sessions of other nodes.
pub fn sessions_of_images(spool: &Path) -> PathBuf {
    spool.join(IMAGES).join("sessions")
}
