//! A netCDF-4 file that a program opens with PnetCDF, which reads classic files only.
//!
//! One rank makes a directory in the spool with what is in this module, and tells the launcher. The launcher writes the same
//! content there as a classic file, and then what became of it. The program's own library opens that.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::FileRule;
use crate::document::{get, put};
use crate::message::path_bytes;
use knarr_array::error::{Error, Result};

/// What is to be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The file.
    #[serde(with = "path_bytes")]
    pub source: PathBuf,
    /// The rule for it, by which it is written again if the program changes it.
    pub rule: FileRule,
}

impl Shown {
    /// Name of the classic file.
    pub const CLASSIC: &'static str = "classic.nc";
    const NAME: &'static str = "shown.json";
    const OUTCOME: &'static str = "outcome.json";

    /// Asks for it in a directory.
    ///
    /// # Errors
    /// `Write`.
    pub fn ask(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)
    }

    /// What was asked for in a directory.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn asked(directory: &Path) -> Result<Self> {
        get(directory, Self::NAME)?.ok_or_else(|| Error::internal("nothing is to be shown there"))
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
    use crate::config::Config;
    use std::fs;

    #[test]
    fn question_and_answer() {
        let directory = std::env::temp_dir().join(format!("knarr-shown-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let rule = Config::parse("[[file]]\npattern = \"*\"\n").unwrap().file.remove(0);
        let shown = Shown { source: PathBuf::from("/out/a.nc"), rule };
        shown.ask(&directory).unwrap();
        assert_eq!(Shown::asked(&directory).unwrap(), shown);
        assert!(Shown::outcome(&directory).unwrap().is_none());
        Shown::answer(&directory, &Err(Error::corrupt("damaged"))).unwrap();
        assert!(Shown::outcome(&directory).unwrap().unwrap().unwrap_err().to_string().contains("damaged"));
        Shown::answer(&directory, &Ok(())).unwrap();
        Shown::outcome(&directory).unwrap().unwrap().unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
