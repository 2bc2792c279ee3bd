//! Where the bytes of an output go that consists of many objects.

use std::fmt::Debug;
use std::path::Path;

use crate::offload::reserved::ReservedOffset;
use knarr_array::error::{Error, Result};

/// An output that holds bytes under names, and shows all of them at once or none.
///
/// Keys are relative paths with `/` between their parts. Dropped without [`Store::publish`], everything written is removed.
pub trait Store: Send + Debug {
    /// Where the output will be, for messages.
    fn place(&self) -> String;

    /// Writes a whole new object.
    ///
    /// # Errors
    /// `Write`, `Internal` if the object is there.
    fn write(&mut self, key: &str, bytes: &[u8]) -> Result<()>;

    /// Adds bytes to the end of an object, which is made if it is not there. Returns the offset they start at.
    ///
    /// # Errors
    /// `Write`.
    fn append(&mut self, key: &str, bytes: &[u8]) -> Result<u64>;

    /// True if [`Store::reserve`] can be called: objects are files that other nodes write, too.
    fn supports_external_writes(&self) -> bool {
        false
    }

    /// Adds so many bytes to the end of an object as [`Store::append`] does, and leaves it to somebody else to write them and
    /// to make them durable before [`Store::publish`].
    ///
    /// # Errors
    /// `Write`.
    fn reserve(&mut self, _key: &str, _length: u64) -> Result<ReservedOffset> {
        Err(Error::internal("this output gives no places"))
    }

    /// Says that no more bytes come to an object: a store that sends it in parts can let go of it. Objects that are never
    /// finished are so when the output is published.
    ///
    /// # Errors
    /// `Write`.
    fn finish(&mut self, key: &str) -> Result<()>;

    /// Makes a new object of the bytes of a file.
    ///
    /// # Errors
    /// `Read` or `Write`.
    fn copy(&mut self, from: &Path, key: &str) -> Result<()>;

    /// Makes everything durable and shows it. Returns the bytes that the output takes: those of all objects, and what the
    /// store itself needs, such as an index.
    ///
    /// # Errors
    /// `Exists` if an output has appeared there meanwhile and may not be replaced, `Write`. The output is not there unless
    /// the error says so.
    fn publish(self: Box<Self>) -> Result<u64>;
}
