//! Files that a program writes from all its ranks. Everything here is safe; pointers end in [`crate::output_abi`].

use knarr_array::array::{DType, swap_bytes};
use knarr_array::comm::Comm;
use knarr_array::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_routes::output::{Options, Output, Value};
use std::path::Path;

use crate::session::Session;
use crate::text;

/// A file that a program writes from all its ranks. Made by knarr_output_create(), freed by knarr_output_close(). One thread
/// at a time may use it: the one that calls MPI.
#[allow(non_camel_case_types, reason = "this is its name in the C interface")]
pub struct knarr_output {
    pub(crate) output: Output<Box<dyn Comm>>,
}

/// Length of a dimension that can grow, for knarr_output_def_dim().
pub const KNARR_UNLIMITED: usize = 0;

impl Session for knarr_output {
    const NAMES: (&'static str, &'static str) = ("output", "path");

    fn open(path: &str, words: Result<&str>, ranks: Box<dyn Comm>) -> Result<Self> {
        let made = words.and_then(|words| {
            let command = format!("knarr_output_create(\"{path}\", \"{words}\")");
            let mut options = Options { command, ..Options::default() };
            text::each(words, |key, value| options.set(key, value))?;
            Ok((Engine::new(knarr_native::codecs()?), options))
        });
        Ok(Self { output: Output::create(ranks, Path::new(path), made)? })
    }

    fn fail(&mut self, error: &Error) {
        self.output.fail(error);
    }

    fn close(self) -> Result<()> {
        self.output.close().map(drop)
    }
}

impl knarr_output {
    pub(crate) fn define_variable(&mut self, name: &str, dtype: DType, dimensions: &[&str], words: &str) -> Result<()> {
        let mut wishes = Vec::new();
        let read = text::each(words, |key, value| {
            wishes.push((key.to_owned(), value.to_owned()));
            Ok(())
        });
        read.map_err(|error| error.at_variable(name))?;
        self.output.define_variable(name, dtype, dimensions, &wishes)
    }

    pub(crate) fn set_numbers(&mut self, variable: Option<&str>, name: &str, dtype: DType, bytes: &[u8]) -> Result<()> {
        let mut bytes = bytes.to_vec();
        if cfg!(target_endian = "big") {
            swap_bytes(&mut bytes, dtype.size());
        }
        self.output.set_attribute(variable, name, Value::Numbers { dtype, bytes })
    }

    /// Notes on the file that is complete, one a line.
    pub(crate) fn notes(&self) -> String {
        self.output.written().map(|written| written.notes.join("\n")).unwrap_or_default()
    }
}
