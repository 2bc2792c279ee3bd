//! What a process of the program asks the launcher to do, and waits for. It makes a directory in the spool with what is in this
//! module, and tells the launcher, which says in the same directory what became of it. The directory goes when the program does
//! not need it any more.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::document::{get, put};
use crate::transcoded::Transcoded;
use knarr_array::error::{Error, Result};
use knarr_array::path_bytes;

/// What the launcher is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A file is to be shown in another format.
    Transcode(Box<Transcoded>),
    /// A file that was [packed](crate::is_packed) is to be stored as the program has made it, and to stay so as long as the
    /// program runs: its ranks are about to write it.
    HandBack {
        /// The file.
        #[serde(with = "path_bytes")]
        path: PathBuf,
    },
}

impl Request {
    const NAME: &'static str = "request.json";
    const OUTCOME: &'static str = "outcome.json";

    /// Asks for it in a directory.
    ///
    /// # Errors
    /// `Write`.
    pub fn ask(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)
    }

    /// True if nobody has answered what was asked for in a directory.
    pub fn is_asked(directory: &Path) -> bool {
        directory.join(Self::NAME).exists() && !directory.join(Self::OUTCOME).exists()
    }

    /// What was asked for in a directory.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn asked(directory: &Path) -> Result<Self> {
        get(directory, Self::NAME)?.ok_or_else(|| Error::internal("nothing is asked for there"))
    }

    /// Says what became of it.
    ///
    /// # Errors
    /// `Write`.
    pub fn answer(directory: &Path, outcome: &Result<()>) -> Result<()> {
        put(directory, Self::OUTCOME, outcome)
    }

    /// What became of it; `None` as long as nothing is said.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn outcome(directory: &Path) -> Result<Option<Result<()>>> {
        get(directory, Self::OUTCOME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcoded::Form;
    use knarr_config::Config;
    use std::fs;

    #[test]
    fn question_and_answer() {
        let directory = std::env::temp_dir().join(format!("knarr-request-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let rule = Config::parse("[[file]]\npattern = \"*\"\n").unwrap().file.remove(0);
        let shown =
            Request::Transcode(Box::new(Transcoded { source: PathBuf::from("/out/a.nc"), rule, form: Form::NetCdf4 }));
        assert!(!Request::is_asked(&directory) && Request::asked(&directory).is_err());
        for request in [shown, Request::HandBack { path: PathBuf::from("/out/a.h5") }] {
            request.ask(&directory).unwrap();
            assert_eq!(Request::asked(&directory).unwrap(), request);
        }
        assert!(Request::outcome(&directory).unwrap().is_none() && Request::is_asked(&directory));
        Request::answer(&directory, &Err(Error::corrupt("damaged"))).unwrap();
        assert!(Request::outcome(&directory).unwrap().unwrap().unwrap_err().to_string().contains("damaged"));
        Request::answer(&directory, &Ok(())).unwrap();
        Request::outcome(&directory).unwrap().unwrap().unwrap();
        assert!(!Request::is_asked(&directory));
        fs::remove_dir_all(directory).unwrap();
    }
}
