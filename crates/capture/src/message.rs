//! Messages from a program's processes to the launcher.

use std::path::PathBuf;

use knarr_array::path_bytes;
use serde::{Deserialize, Serialize};

use knarr_codec::codec::FilterSet;
use knarr_link::Peer;

/// One datagram, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Process that sends it.
    pub process: u32,
    /// What happened there.
    pub event: Event,
}

/// What happened in a process. Paths are absolute, without symbolic links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A program image was loaded: the process is new, or it was replaced by `exec`.
    Started,
    /// The process called HDF5 for the first time.
    Calls,
    /// A file that a rule wants compressed was opened for writing.
    Opened {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// It is new, or was emptied.
        created: bool,
        /// Who opens it, besides.
        writers: Writers,
    },
    /// A file that a rule wants packed when it is closed was opened for writing, by whatever library. Nobody says when it is closed.
    Written {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// It is new, or was emptied.
        created: bool,
        /// Its device and inode.
        identity: Option<(u64, u64)>,
    },
    /// A file was closed that a rule wants compressed, and that HDF5 keeps in several files.
    InParts {
        /// The name by which the program knows it.
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
    /// Such a file was closed.
    Closed {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// The process still holds it open: HDF5 waits for the file's objects to be closed.
        still_open: bool,
        /// Filters that the program's own HDF5 has, of those that it was asked about.
        filters: FilterSet,
        /// Device and inode of the file, which it keeps if the program renames it at once.
        identity: Option<(u64, u64)>,
    },
    /// A file was handed over: all ranks of the program have closed it.
    HandedOver {
        /// Directory with its values, see [`HandedOver`](crate::HandedOver).
        #[serde(with = "path_bytes")]
        directory: PathBuf,
    },
    /// A file could not be handed over. What was put without an error is kept.
    SetAside {
        /// Directory with its values, see [`HandedOver`](crate::HandedOver).
        #[serde(with = "path_bytes")]
        directory: PathBuf,
    },
    /// Something is to be told to whoever looks at the run.
    Note {
        /// The file that it is about.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// What is to be told.
        text: String,
    },
    /// The launcher is asked for something.
    Asked {
        /// Directory with what is asked for, see [`Request`](crate::Request).
        #[serde(with = "path_bytes")]
        directory: PathBuf,
    },
    /// A file is written by the program's own library although a rule wants it handed over.
    Passed {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A file that a rule wants handed over is written by parallel HDF5 itself. It is packed when it is closed.
    NotHandedOver {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Ranks on several nodes write a file with parallel HDF5, and nobody can tell when all have closed it.
    Unwatched {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// All ranks have read a session of a file from another component.
    Received {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// The component that has written it.
        from: String,
        /// Number of the session.
        session: u64,
        /// When its writer had closed it, as the reader has opened it; in milliseconds since 1970.
        closed_ms: Option<u64>,
        /// What reading it took.
        took: Took,
    },
    /// Values of a variable with a bound have come from another component on another node.
    LossyTransfer {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// The variable.
        variable: String,
        /// The bound, in words.
        bound: String,
        /// Bytes of the values.
        raw: u64,
        /// Bytes that came for them.
        sent: u64,
        /// Bits of the largest error, and of the largest one relative to a value.
        errors: [u64; 2],
        /// Values that are other than they were.
        changed: u64,
    },
    /// A file did not come from another component, or did not come whole.
    Missed {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// What was waited for, and why it did not come.
        why: String,
    },
    /// The program has waited long for something of a file from another component, and goes on to wait.
    Awaits {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
        /// What for.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// A file got a name under which other components read it.
    Renamed {
        /// The name.
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
    /// The process waits for what the launcher does, and says so every second; or it waits no longer.
    Waits(bool),
    /// The process ends in order; its HDF5 has closed, or will close, what is open.
    Exiting,
}

/// What reading a session took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Took {
    /// Bytes that all ranks have got.
    pub bytes: u64,
    /// How long it was waited for, in microseconds.
    pub waited_us: u64,
    /// How long the gets of the rank took that took longest, in microseconds.
    pub got_us: u64,
}

/// Who opens a file for writing, and which launcher does something with it once it is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writers {
    /// Processes of this node, each for itself. Its launcher sees when the last one has closed the file.
    SameNode,
    /// Ranks on several nodes by MPI-IO. They say that it is closed when all of them have closed it, and this launcher does
    /// something with it then. The first rank tells the tokens of the spools of the other nodes.
    SeveralNodes(Vec<String>),
    /// The same, and this launcher of another node does.
    OtherNode(Peer),
}

impl Message {
    /// The bytes of the datagram; `None` if it cannot be written, which no message meets.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }

    /// The message in a datagram; `None` if there is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn messages_keep_paths_that_are_no_text() {
        let path = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xFF\"\\\n.nc".to_vec()));
        for event in [
            Event::Started,
            Event::Waits(true),
            Event::Opened { path: path.clone(), created: true, writers: Writers::SameNode },
            Event::Opened { path: path.clone(), created: false, writers: Writers::SeveralNodes(vec!["a".to_owned()]) },
            Event::InParts { path: path.clone() },
            Event::HandedOver { directory: path.clone() },
            Event::SetAside { directory: path.clone() },
            Event::Note { path: path.clone(), text: "a note".to_owned() },
            Event::Asked { directory: path.clone() },
            Event::Passed { path: path.clone(), why: "a reason".to_owned() },
            Event::Unwatched { path: path.clone(), why: "a reason".to_owned() },
            Event::NotHandedOver { path: path.clone(), why: "a reason".to_owned() },
            Event::Received {
                path: path.clone(),
                from: "a".to_owned(),
                session: 3,
                closed_ms: Some(7),
                took: Took::default(),
            },
            Event::Missed { path: path.clone(), why: "a reason".to_owned() },
            Event::Awaits { path: path.clone(), what: "a session".to_owned(), seconds: 180 },
            Event::LossyTransfer {
                path: path.clone(),
                variable: "T".to_owned(),
                bound: "max_abs_error=0.1".to_owned(),
                raw: 1 << 40,
                sent: 5,
                errors: [0.1f64.to_bits(), f64::INFINITY.to_bits()],
                changed: 3,
            },
            Event::Closed { path, still_open: true, filters: FilterSet::from_iter([1, 32015]), identity: Some((1, 2)) },
        ] {
            let message = Message { process: 7, event };
            assert_eq!(Message::from_bytes(&message.to_bytes().unwrap()), Some(message));
        }
        assert_eq!(Message::from_bytes(b"{}"), None);
        assert_eq!(Message::from_bytes(b"\xFF"), None);
    }
}
