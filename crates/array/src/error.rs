//! The one error type: a stable kind, a message, where it happened, and a hint: what to do about it.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// What went wrong, by what the caller can do about it.
///
/// The numbers are stable: they are the codes of the C interface, and
/// [`ErrorKind::exit_code`] maps them to the exit codes of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// The call or command line is wrong: unknown option, unknown variable, contradiction.
    Usage = 1,
    /// A configuration file cannot be parsed or contains unknown keys.
    Config = 2,
    /// A file or variable does not exist.
    NotFound = 3,
    /// The output exists and replacing it was not asked for.
    Exists = 4,
    /// Reading failed for a reason outside the data (permission, device).
    Read = 5,
    /// Writing failed: permission, full disk, quota.
    Write = 6,
    /// The bytes are not what their format promises.
    Corrupt = 7,
    /// A filter or codec needed for decoding is not available.
    MissingFilter = 8,
    /// The request is understood, but this version or this data type cannot serve it.
    Unsupported = 9,
    /// A quality promise cannot be kept or was not kept.
    Quality = 10,
    /// Two files that should be equal differ.
    Differs = 11,
    /// The user interrupted the operation.
    Interrupted = 12,
    /// A defect in Knarr itself.
    Internal = 13,
}

impl ErrorKind {
    /// Exit code of the command-line program for an error of this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::Config => 2,
            Self::NotFound | Self::Read | Self::Corrupt | Self::MissingFilter | Self::Differs => 3,
            Self::Exists | Self::Write => 4,
            Self::Unsupported | Self::Quality => 5,
            Self::Internal => 70,
            Self::Interrupted => 130,
        }
    }
}

/// An error with its kind, message, place and hint.
///
/// Displayed as `PLACE: MESSAGE; hint: HINT`, for example
/// `a.nc: variable 'T': chunk (0, 3): deflate stream ends early; hint: the file is damaged: restore it from a copy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Outermost place first.
    places: Vec<String>,
    hint: Option<String>,
    /// What to do where nobody knows better.
    default_hint: Option<Cow<'static, str>>,
}

/// Result with Knarr's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says what is wrong.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), places: Vec::new(), hint: None, default_hint: None }
    }

    /// The call or command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// The bytes are not what their format promises.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// The request is understood but cannot be served.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A defect in Knarr itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Reading `path` failed.
    pub fn read(path: &std::path::Path, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Read,
        };
        let default_hint = match error.kind() {
            std::io::ErrorKind::NotFound => Some("check the name"),
            std::io::ErrorKind::PermissionDenied => Some("ask its owner for permission to read it"),
            std::io::ErrorKind::IsADirectory => Some("that is a directory: name a file in it"),
            std::io::ErrorKind::NotADirectory => Some("a part of the path is a file: check the name"),
            _ => limit_hint(error),
        };
        Self { default_hint: default_hint.map(Cow::Borrowed), ..Self::new(kind, error.to_string()) }
            .at(path.display().to_string())
    }

    /// Writing `path` failed.
    pub fn write(path: &std::path::Path, error: &std::io::Error) -> Self {
        let default_hint = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Some("free space or write to another directory")
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Some("choose a directory you may write to")
            }
            std::io::ErrorKind::NotFound => Some("make the directory first, or check the name"),
            std::io::ErrorKind::AlreadyExists => Some("a file is in the way: choose another name"),
            std::io::ErrorKind::IsADirectory => Some("that is a directory: add the name of a file"),
            std::io::ErrorKind::NotADirectory => Some("a part of the path is a file: choose another name"),
            std::io::ErrorKind::InvalidFilename => Some("choose a shorter name"),
            _ => limit_hint(error),
        };
        Self { default_hint: default_hint.map(Cow::Borrowed), ..Self::new(ErrorKind::Write, error.to_string()) }
            .at(path.display().to_string())
    }

    /// Adds an outer place: a file, a variable, a chunk.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.places.insert(0, place.into());
        self
    }

    /// As [`Error::at`], unless the place is there already.
    #[must_use]
    pub fn at_once(self, place: &str) -> Self {
        if self.places.iter().any(|known| known == place) { self } else { self.at(place) }
    }

    /// As [`Error::at`] for a directory: places in it are named from there on.
    #[must_use]
    pub fn within(mut self, directory: &str) -> Self {
        let directory = directory.trim_end_matches('/');
        for place in &mut self.places {
            if let Some(inner) = place.strip_prefix(directory).and_then(|inner| inner.strip_prefix('/')) {
                *place = inner.to_owned();
            }
        }
        self.at(directory)
    }

    /// Calls a place by another name.
    #[must_use]
    pub fn renamed(mut self, place: &str, name: &str) -> Self {
        self.places.iter_mut().filter(|known| *known == place).for_each(|known| name.clone_into(known));
        self
    }

    /// Adds the variable the error belongs to.
    #[must_use]
    pub fn at_variable(self, name: &str) -> Self {
        self.at(format!("variable '{name}'"))
    }

    /// As [`Error::at_variable`], unless the place is there already.
    #[must_use]
    pub fn at_variable_once(self, name: &str) -> Self {
        self.at_once(&format!("variable '{name}'"))
    }

    /// Adds a hint: what to do about it. The innermost one is kept.
    #[must_use]
    pub fn hint(mut self, advice: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| advice.into());
        self
    }

    /// Says what to do about damage of `what` (`file`, `store`), where nothing better is known.
    #[must_use]
    pub fn hint_damage(self, what: &str) -> Self {
        match self.kind {
            ErrorKind::Corrupt => self.hint(format!("the {what} is damaged: restore it from a copy")),
            _ => self,
        }
    }

    /// The stable kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The message without place and hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Places and message, without what to do about it.
    pub fn without_advice(&self) -> String {
        let places = self.places.iter().map(|place| format!("{place}: "));
        places.chain([self.message.clone()]).collect()
    }

    /// True if it is what was asked for that cannot be served, and not reading or writing that failed.
    pub fn is_of_options(&self) -> bool {
        matches!(self.kind, ErrorKind::Usage | ErrorKind::Unsupported | ErrorKind::Quality)
    }

    /// The advice, if there is one.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref().or(self.default_hint.as_deref())
    }
}

/// What to do about limits of the process.
fn limit_hint(error: &std::io::Error) -> Option<&'static str> {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::FBIG) => Some("raise the limit of file sizes (ulimit -f), or write to another file system"),
        Some(Errno::MFILE) => Some("raise the limit of open files (ulimit -n)"),
        Some(Errno::NOMEM) => Some("give it more memory (ulimit -v), or fewer --jobs and less --max-mem"),
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, place) in self.places.iter().enumerate() {
            // Who passes an error on may name what is named closer to it.
            if !self.places.iter().skip(depth + 1).any(|inner| inner == place) {
                write!(f, "{place}: ")?;
            }
        }
        f.write_str(&self.message)?;
        match self.advice() {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_place_message_hint() {
        let error = Error::corrupt("deflate stream ends early")
            .hint("restore the file from a copy")
            .at("chunk (0, 3)")
            .at_variable("T")
            .at("a.nc");
        assert_eq!(
            error.to_string(),
            "a.nc: variable 'T': chunk (0, 3): deflate stream ends early; hint: restore the file from a copy"
        );
        assert_eq!(error.kind().exit_code(), 3);
    }

    #[test]
    fn a_place_is_told_once() {
        let error = Error::corrupt("too short").at_variable("T").at("a.nc").at_variable("T").at("b.nc").at("a.nc");
        assert_eq!(error.to_string(), "b.nc: a.nc: variable 'T': too short");
    }

    #[test]
    fn what_lies_in_a_directory_is_named_from_there_on() {
        let error = || Error::corrupt("no JSON").at("z/a.zarr/v/zarr.json").at_variable("v");
        assert_eq!(error().within("z/a.zarr/").to_string(), "z/a.zarr: variable 'v': v/zarr.json: no JSON");
        assert_eq!(error().within("z/a").to_string(), "z/a: variable 'v': z/a.zarr/v/zarr.json: no JSON");
    }

    #[test]
    fn a_place_is_called_by_another_name() {
        let error = Error::corrupt("too short").at_variable("T").at("/tmp/1").renamed("/tmp/1", "s3://b/a.nc");
        assert_eq!(error.to_string(), "s3://b/a.nc: variable 'T': too short");
    }

    #[test]
    fn errors_of_the_system_say_what_to_do_unless_somebody_knows_better() {
        use std::io::ErrorKind::{AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied};
        let path = std::path::Path::new("a.nc");
        for kind in [AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied] {
            let error = std::io::Error::from(kind);
            assert!(Error::write(path, &error).advice().is_some(), "{kind}");
            assert!(kind == AlreadyExists || Error::read(path, &error).advice().is_some(), "{kind}");
            assert_eq!(Error::read(path, &error).hint("know better").advice(), Some("know better"));
        }
        let text = Error::read(path, &std::io::Error::from_raw_os_error(2)).to_string();
        assert_eq!(text, "a.nc: No such file or directory (os error 2); hint: check the name");
    }
}
