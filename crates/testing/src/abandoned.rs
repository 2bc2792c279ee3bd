//! Names of work in progress that nobody goes on with.

use std::ffi::{OsStr, OsString};

use knarr_flow::output::temporary_name;

/// A name that a process gave which has ended since.
pub fn abandoned_name(name: &str) -> OsString {
    let mut child = std::process::Command::new("true").spawn().expect("a process can be started");
    child.wait().expect("it ends");
    let own = temporary_name(OsStr::new(name)).into_string().expect("what is added is text");
    OsString::from(own.replace(&format!("-{:x}-", std::process::id()), &format!("-{:x}-", child.id())))
}
