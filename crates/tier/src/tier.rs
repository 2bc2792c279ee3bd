//! What a tier does.

use std::fmt::Debug;
use std::fs::Metadata;
use std::io;
use std::path::Path;

use crate::account::Account;
use crate::counters::Space;

/// Who can read what lies in a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Processes of this node.
    Node,
    /// All nodes.
    AllNodes,
}

/// What a file is for, which says how it takes space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Values: whoever finds no space for them goes on in the next tier. The file is as long as the space that was reserved.
    Values,
    /// A log, without which values are lost: it is charged whatever is left, and is as long as what was written.
    Log,
}

/// A place where bytes wait. Files of all processes of the node lie there, and all take from one account.
pub trait Tier: Send + Sync + Debug {
    /// What the tier holds, may hold, and how fast it is.
    fn account(&self) -> &Account;

    /// Who can read what lies there.
    fn reach(&self) -> Reach;

    /// What its medium has left for this user, whoever took the rest.
    fn left(&self) -> Space;

    /// Bytes that the account counts for a file of which the system says `found`, when all that was reserved for it is given back.
    fn counts(&self, found: &Metadata, purpose: Purpose) -> u64;

    /// Makes the file at `path`, which lies in the tier. It takes an inode from the account.
    ///
    /// # Errors
    /// Those of the file system; `StorageFull` if the account has no inode left.
    fn create(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>>;

    /// Opens the file at `path`, which may grow. Its space was taken when it was made.
    ///
    /// # Errors
    /// Those of the file system.
    fn open(&self, path: &Path, purpose: Purpose) -> io::Result<Box<dyn TierFile>>;

    /// Removes a file of which nothing is needed any more, and gives its space back.
    ///
    /// # Errors
    /// Those of the file system; nothing is given back then.
    fn free(&self, path: &Path) -> io::Result<()>;
}

/// A file in a tier.
pub trait TierFile: Send + Debug {
    /// Reserves space up to byte `end`. False if there is not so much, neither by the account nor on the medium.
    fn reserve(&mut self, end: u64) -> bool;

    /// Writes bytes from `at` on. Space that was not reserved is taken.
    ///
    /// # Errors
    /// Those of the file system, `StorageFull` among them.
    fn write_all_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Fills `out` with the bytes from `at` on.
    ///
    /// # Errors
    /// Those of the file system; `UnexpectedEof`.
    fn read_exact_at(&self, out: &mut [u8], at: u64) -> io::Result<()>;

    /// Makes the file `length` bytes long. Space behind that is given back.
    ///
    /// # Errors
    /// Those of the file system.
    fn set_len(&mut self, length: u64) -> io::Result<()>;

    /// Gives back the space of whole blocks between these bytes, which read as zeros then. The file stays as long as it is.
    ///
    /// # Errors
    /// Those of the file system; `Unsupported` if it cannot.
    fn punch(&mut self, at: u64, length: u64) -> io::Result<()>;

    /// Bytes that the account counts for the file.
    fn takes(&self) -> u64;

    /// Returns when all that was written is durable.
    ///
    /// # Errors
    /// Those of the file system.
    fn sync(&self) -> io::Result<()>;

    /// Locks the file as long as it is open here: others know that its writer lives.
    ///
    /// # Errors
    /// Those of the file system; `Unsupported` where it has no locks.
    fn lock(&self) -> io::Result<()>;
}
