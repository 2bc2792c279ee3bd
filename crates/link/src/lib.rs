//! Links between processes that share no MPI: one side asks, the other answers.
//!
//! A question and its answer are bytes of a bounded length. The other side is known by a secret that only processes of the
//! same user have; both prove that they know it, and neither sends it. Who does not answer for [`SILENCE`] is gone: errors
//! name the node.
//!
//! Every connection begins with TCP, and goes on over a [`Carrier`] where both nodes use one.
//!
//! Reading order: [`Link`] and [`Answers`], [`Peer`], [`Server`] and [`TcpLink`], [`link_to`]; below them `connection` (how one
//! begins), `message` (questions and answers), `frame` (bytes of a message), `handshake` (who is there) and `reach` (where this
//! node listens and is reached).
#![forbid(unsafe_code)]

mod carrier;
mod connection;
mod frame;
mod handshake;
mod links;
mod message;
mod peer;
mod reach;
mod serve;
mod tcp;

use std::time::Duration;

use knarr_array::error::{Error, Result};

pub use carrier::{CARRIERS, Carrier, End, Stream};
pub use connection::{Carriers, LONGEST_ADDRESS};
pub use links::{LINK, carriers, link_to};
pub use peer::{Peer, Secret, number_of};
pub use reach::{Reach, addresses, network};
pub use serve::{Limits, Server};
pub use tcp::TcpLink;

/// Bytes of a question, at most.
pub const LONGEST_QUESTION: usize = 1 << 16;
/// Bytes of an answer, at most.
pub const LONGEST_ANSWER: usize = 1 << 25;
/// Who sends nothing for so long is gone.
pub const SILENCE: Duration = Duration::from_secs(5);

/// The other side, which answers. Threads may ask at the same time.
pub trait Link: Send + Sync {
    /// The node of the other side, as errors name it.
    fn node(&self) -> &str;

    /// Asks, and waits for the answer. A question may be asked twice if a connection breaks, so it must change nothing that
    /// the second one would find changed.
    ///
    /// # Errors
    /// That of the answer; `Read` if the other side is gone or is somebody else; `Usage` for a question that is too long.
    fn ask(&self, question: &[u8]) -> Result<Vec<u8>>;
}

/// What answers.
pub trait Answers: Send + Sync + 'static {
    /// The answer to a question. Questions are hostile. It may take long: the other side hears once a second that this one is
    /// there.
    ///
    /// # Errors
    /// The other side gets them.
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>>;

    /// Nobody can connect at the moment, for this reason. It is told once, until somebody could.
    fn crowded(&self, _: &Error) {}
}
