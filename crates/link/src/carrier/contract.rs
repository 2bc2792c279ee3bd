//! What a carrier does.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bytes in both directions. What is written may stay here until it is flushed.
pub trait Stream: Read + Write + Send {
    /// A read ends with `WouldBlock` or `TimedOut` if the other side sends nothing for so long, a write if it takes nothing.
    ///
    /// # Errors
    /// Those of the system.
    fn set_patience(&mut self, reads: Duration, writes: Duration) -> io::Result<()>;
}

/// A kind of network that some nodes have.
pub trait Carrier: Send + Sync {
    /// By which users and reports call it.
    fn name(&self) -> &'static str;

    /// Its version. Both sides must have the same.
    ///
    /// # Errors
    /// Why this process cannot use it.
    fn version(&self) -> Result<String, String>;

    /// This side of a new connection.
    ///
    /// # Errors
    /// Those of the carrier; the connection goes on with TCP.
    fn begin(&self) -> io::Result<Box<dyn End>>;
}

/// One side of a connection whose other side is not known yet.
pub trait End {
    /// What the other side needs, at most [`LONGEST_ADDRESS`](crate::LONGEST_ADDRESS) bytes.
    ///
    /// # Errors
    /// As for [`Carrier::begin`].
    fn address(&self) -> io::Result<Vec<u8>>;

    /// Connects to the address of a side that knows the secret. The other side has ended when `beside` has. Whether it is
    /// reached is known when it has answered.
    ///
    /// # Errors
    /// As for [`Carrier::begin`].
    fn connect(self: Box<Self>, address: &[u8], beside: TcpStream) -> io::Result<Box<dyn Stream>>;
}
