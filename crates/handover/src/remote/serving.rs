//! The values of one rank, for who makes the file: on this node by their paths, on another one by asking this process.

use std::path::PathBuf;
use std::sync::Arc;

use knarr_array::error::Result;
use knarr_link::{Answers, Peer, Reach, Server, link_to};
use serde::{Deserialize, Serialize};

use crate::gather::rank_values::RankValues;
use crate::log::put_spool::PutSpool;
use crate::remote::answering::answer;
use crate::remote::remote_values::{Question, RemoteRank};
use crate::remote::wire_codec::WireCodecTuner;

/// Where the values of a rank are, in words that other processes of the program understand. It holds a secret if it is another
/// node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum RankLocation {
    /// On this node.
    Here {
        /// The values.
        values: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// Where a [`Serving`] answers.
    There(Peer),
}

impl RankLocation {
    /// Where other processes of this node find what lies in `spool`.
    pub fn near(spool: &PutSpool) -> Self {
        let (values, log) = spool.paths();
        Self::Here { values, log }
    }

    /// The values and the log of rank `rank`.
    pub fn rank_values(self, rank: usize) -> RankValues {
        match self {
            Self::Here { values, log } => RankValues::Here { values, log },
            Self::There(peer) => {
                let tuner = Some(WireCodecTuner::of(&peer.node));
                RankValues::There(RemoteRank { link: link_to(peer), file: String::new(), rank, tuner, bounded: None })
            }
        }
    }
}

/// Answers questions about what lies in a [`PutSpool`] until it is dropped, in threads of its own that call no MPI.
pub struct Serving(Server);

/// Values and log of the rank.
struct Spooled {
    values: PathBuf,
    log: PathBuf,
}

impl Answers for Spooled {
    fn answer(&self, question: &[u8]) -> Result<Vec<u8>> {
        answer(&Question::from_bytes(question)?, &self.values, &self.log).map(|(bytes, _)| bytes)
    }
}

impl Serving {
    /// Begins to answer.
    ///
    /// # Errors
    /// `Write` if the system gives no port, `Read` if it has no random numbers, `Internal` without threads.
    pub fn start(spool: &PutSpool) -> Result<Self> {
        let (values, log) = spool.paths();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        // The other ranks may be anywhere.
        Server::start(&host, Arc::new(Spooled { values, log }), &Reach::Everywhere).map(Self)
    }

    /// Where others find the values.
    pub fn place(&self) -> RankLocation {
        RankLocation::There(self.0.peer())
    }
}
