//! How the bytes of a spool are written: by calls, or through a mapping where one can be had.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The bytes of a file that is filled again and again.
pub trait Memory: Send {
    /// Writes `bytes` from byte `offset` on. The file grows where it has to.
    ///
    /// # Errors
    /// Those of the file system, a full one among them.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file `length` bytes long.
    ///
    /// # Errors
    /// Those of the file system.
    fn end(&mut self, length: u64) -> io::Result<()>;
}

/// Opens the memory of a file: [`write_calls`], or a mapping where one can be had.
pub type OpenMemory = fn(File) -> io::Result<Box<dyn Memory>>;

/// Writes by calls.
///
/// # Errors
/// None.
pub fn write_calls(file: File) -> io::Result<Box<dyn Memory>> {
    struct Calls(File);
    impl Memory for Calls {
        fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            self.0.write_all_at(bytes, offset)
        }

        fn end(&mut self, length: u64) -> io::Result<()> {
            self.0.set_len(length)
        }
    }
    Ok(Box::new(Calls(file)))
}
