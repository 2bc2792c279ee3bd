//! Files that a program writes from all its ranks. Everything here is safe; pointers end in [`crate::output_abi`].

use knarr_array::array::{ArraySpec, ArrayView, DType, swap_bytes};
use knarr_array::comm::Comm;
use knarr_array::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_routes::output::{Options, Output, Value};
use std::path::Path;

use crate::text;

/// A file that a program writes from all its ranks. Made by knarr_output_create(), freed by knarr_output_close(). One thread
/// at a time may use it: the one that calls MPI.
#[allow(non_camel_case_types, reason = "this is its name in the C interface")]
pub struct knarr_output {
    output: Output<Box<dyn Comm>>,
}

/// Length of a dimension that can grow, for knarr_output_def_dim().
pub const KNARR_UNLIMITED: usize = 0;

impl knarr_output {
    pub(crate) fn create(path: &str, words: Result<&str>, ranks: Box<dyn Comm>) -> Result<Self> {
        let made = words.and_then(|words| {
            let command = format!("knarr_output_create(\"{path}\", \"{words}\")");
            let mut options = Options { memory: knarr_mapped::map_file, command, ..Options::default() };
            text::each(words, |key, value| options.set(key, value))?;
            Ok((Engine::new(knarr_native::codecs()?), options))
        });
        Ok(Self { output: Output::create(ranks, Path::new(path), made)? })
    }

    /// Gives the file up for an error in what the program hands over, which is returned.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        self.output.fail(&error);
        error
    }

    pub(crate) fn define_dimension(&mut self, name: &str, length: usize) -> Result<()> {
        self.output.define_dimension(name, (length != KNARR_UNLIMITED).then_some(length as u64))
    }

    pub(crate) fn define_variable(&mut self, name: &str, dtype: DType, dimensions: &[&str], words: &str) -> Result<()> {
        let mut wishes = Vec::new();
        let read = text::each(words, |key, value| {
            wishes.push((key.to_owned(), value.to_owned()));
            Ok(())
        });
        read.map_err(|error| self.fail(error.at_variable(name)))?;
        self.output.define_variable(name, dtype, dimensions, &wishes)
    }

    pub(crate) fn set_text(&mut self, variable: Option<&str>, name: &str, text: &str) -> Result<()> {
        self.output.set_attribute(variable, name, Value::Text(text.to_owned()))
    }

    pub(crate) fn set_numbers(&mut self, variable: Option<&str>, name: &str, dtype: DType, bytes: &[u8]) -> Result<()> {
        let mut bytes = bytes.to_vec();
        if cfg!(target_endian = "big") {
            swap_bytes(&mut bytes, dtype.size());
        }
        self.output.set_attribute(variable, name, Value::Numbers { dtype, bytes })
    }

    pub(crate) fn put(&mut self, name: &str, spec: &ArraySpec, bytes: &[u8], start: Option<Vec<u64>>) -> Result<()> {
        self.output.put(name, &ArrayView::new(spec, bytes)?, start)
    }

    pub(crate) fn end_step(&mut self) -> Result<()> {
        self.output.end_step()
    }

    pub(crate) fn commit(&mut self) -> Result<()> {
        self.output.commit()
    }

    pub(crate) fn test(&mut self) -> Result<bool> {
        self.output.test()
    }

    pub(crate) fn wait(&mut self) -> Result<()> {
        self.output.wait()
    }

    /// Notes on the file that is complete, one a line.
    pub(crate) fn notes(&self) -> String {
        self.output.written().map(|written| written.notes.join("\n")).unwrap_or_default()
    }

    pub(crate) fn close(self) -> Result<()> {
        self.output.close().map(drop)
    }
}
