//! A file in a format that the library of the program does not read: a netCDF-4 file or a Zarr store for PnetCDF, which reads
//! classic files only, or a session of a transfer that another library has written.
//!
//! One rank makes a directory in the spool with what is in this module, and tells the launcher. The launcher writes the same
//! content there in another form, and then what became of it. The program's own library opens that.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::FileRule;
use crate::document::{get, put};
use crate::message::path_bytes;
use knarr_array::error::{Error, Result};

/// Formats in which files are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Classic netCDF.
    Classic,
    /// netCDF-4, not compressed.
    NetCdf4,
}

/// What is to be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The file, or the directory of a session.
    #[serde(with = "path_bytes")]
    pub source: PathBuf,
    /// The rule for it, by which it is written again if the program changes it.
    pub rule: FileRule,
    /// What the program reads.
    pub form: Form,
}

impl Shown {
    /// Name of the classic file.
    pub const CLASSIC: &'static str = "classic.nc";
    /// Name of the netCDF-4 file.
    const NETCDF4: &'static str = "netcdf4.nc";
    const NAME: &'static str = "shown.json";
    const OUTCOME: &'static str = "outcome.json";

    /// Name of the file that is shown.
    pub fn file(form: Form) -> &'static str {
        match form {
            Form::Classic => Self::CLASSIC,
            Form::NetCdf4 => Self::NETCDF4,
        }
    }

    /// True for the name of a file that is shown.
    pub(crate) fn is_copy(name: &str) -> bool {
        [Self::CLASSIC, Self::NETCDF4].contains(&name)
    }

    /// Asks for it in a directory.
    ///
    /// # Errors
    /// `Write`.
    pub fn ask(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)
    }

    /// True if nobody has answered what was asked for in a directory.
    pub fn is_asked_for(directory: &Path) -> bool {
        directory.join(Self::NAME).exists() && !directory.join(Self::OUTCOME).exists()
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
        let shown = Shown { source: PathBuf::from("/out/a.nc"), rule, form: Form::NetCdf4 };
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
