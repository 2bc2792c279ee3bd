//! Who answers, and how to reach them.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use knarr_array::error::{Error, ErrorKind, Result};

/// Bytes of a secret.
const LENGTH: usize = 32;

/// What both sides of a link know, and nobody else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret([u8; LENGTH]);

impl Secret {
    /// A new one, from the random numbers of the system.
    ///
    /// # Errors
    /// `Read` if it has none.
    pub fn new() -> Result<Self> {
        let mut bytes = [0; LENGTH];
        // A call that opens no file: one may be made when no more can be opened. It gives so few bytes all at once.
        let given = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        match given {
            Ok(LENGTH) => Ok(Self(bytes)),
            Ok(_) => Err(Error::new(ErrorKind::Read, "the system has too few random numbers")),
            Err(error) => Err(Error::new(ErrorKind::Read, format!("the system gives no random numbers: {error}"))),
        }
    }

    /// Text that tells it from others, and that others may know.
    pub fn token(&self) -> String {
        blake3::hash(&self.0).to_hex().chars().take(16).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

/// A number by which bytes are told from others: the same in all processes, on all nodes.
pub fn number_of(bytes: &[u8]) -> u64 {
    let hash = blake3::hash(bytes);
    hash.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// Somebody who answers. It holds a secret, so it is told only to processes of the same user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The node, as errors name it.
    pub node: String,
    /// Where it may be reached; the first place that answers counts.
    pub places: Vec<SocketAddr>,
    /// By which both sides know each other.
    pub secret: Secret,
}
