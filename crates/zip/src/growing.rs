//! Objects that grow, several at a time: a member of a ZIP file has all its bytes in one piece. Until an object has its end,
//! its bytes wait in a file beside the output.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_flow::output::AtomicFile;

/// Most bytes that are brought over at a time.
const STEP: u64 = 1 << 20;

/// The objects that have no end yet.
#[derive(Debug)]
pub(crate) struct Growing {
    target: PathBuf,
    /// Never published. `None` before the first bytes.
    file: Option<AtomicFile>,
    /// Where the next bytes go.
    end: u64,
    objects: BTreeMap<String, Object>,
}

#[derive(Debug, Default)]
struct Object {
    length: u64,
    /// Offset and length of its bytes in the file.
    pieces: Vec<(u64, u64)>,
}

impl Growing {
    /// None. The file will be beside `target`.
    pub(crate) fn beside(target: &Path) -> Self {
        Self { target: target.to_owned(), file: None, end: 0, objects: BTreeMap::new() }
    }

    /// The first object that has no end, by name.
    pub(crate) fn first(&self) -> Option<String> {
        self.objects.keys().next().cloned()
    }

    /// True if the object grows.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.objects.contains_key(key)
    }

    /// Adds bytes to the end of an object. Returns the offset they start at.
    ///
    /// # Errors
    /// `Write`.
    pub(crate) fn push(&mut self, key: &str, bytes: &[u8]) -> Result<u64> {
        let file = match &mut self.file {
            Some(file) => file,
            // Nothing is replaced by it.
            none => none.insert(AtomicFile::create(&self.target, true)?),
        };
        file.file().write_all_at(bytes, self.end).map_err(|error| Error::write(&self.target, &error))?;
        let (object, length) = (self.objects.entry(key.to_owned()).or_default(), bytes.len() as u64);
        let offset = object.length;
        object.length += length;
        match object.pieces.last_mut() {
            Some((begin, held)) if *begin + *held == self.end => *held += length,
            _ => object.pieces.push((self.end, length)),
        }
        self.end += length;
        Ok(offset)
    }

    /// Ends an object: gives its bytes to `to`, in order, and forgets it.
    ///
    /// # Errors
    /// Those of `to`; `Write` if the bytes are gone.
    pub(crate) fn take(&mut self, key: &str, mut to: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (Some(object), Some(file)) = (self.objects.remove(key), &self.file) else { return Ok(()) };
        let gone = |error: std::io::Error| Error::write(&self.target, &error);
        let mut bytes = Vec::new();
        for (begin, length) in object.pieces {
            for done in (0..length).step_by(usize::try_from(STEP).unwrap_or(usize::MAX)) {
                bytes.resize(usize::try_from(STEP.min(length - done)).unwrap_or(usize::MAX), 0);
                file.file().read_exact_at(&mut bytes, begin + done).map_err(gone)?;
                to(&bytes)?;
            }
        }
        if self.objects.is_empty() {
            file.file().set_len(0).map_err(gone)?;
            self.end = 0;
        }
        Ok(())
    }
}
