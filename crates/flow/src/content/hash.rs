//! Content hashes that do not depend on chunks, chain, byte order or container.
//!
//! Scheme 1: a variable's values, little-endian and row-major, are cut into blocks that follow from type and
//! shape alone; its hash is BLAKE3 over type, shape and the BLAKE3 hashes of its blocks in order. Strings of variable
//! length have the type `string` and are cut as elements of 16 bytes are; in a block, each is its length in 64 bits
//! and its UTF-8. A file's hash is BLAKE3 over the sorted paths and hashes of its variables. Attributes do not count,
//! nor do quantization variables, which hold nothing else.

use serde::Serialize;

use super::{blocks, placed, read_block};
use crate::bands::Bands;
use crate::rounding::quantization::is_container;
use crate::store::{Source, Strings};
use crate::threads::engine::{Engine, Progress};
use knarr_array::array::DType;
use knarr_array::error::{ErrorKind, Result};
use knarr_array::model::Variable;
use knarr_array::region::{chunk_position, chunk_region};

/// Version of the scheme, hashed with every variable.
const SCHEME: &str = "knarr-content-1";

/// Size of the elements as which strings of variable length are cut into blocks.
const STRING: DType = DType::Opaque(16);

/// Hash of one variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariableHash {
    /// Absolute path.
    pub path: String,
    /// Lower-case hexadecimal BLAKE3, or why the values cannot be hashed.
    pub hash: Result<String, String>,
}

/// Hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileHash {
    /// Lower-case hexadecimal BLAKE3 over all variables that can be hashed.
    pub hash: String,
    /// Its variables in file order.
    pub variables: Vec<VariableHash>,
}

/// Hashes every variable of `source`.
///
/// # Errors
/// What reading reports.
pub fn hash(engine: &Engine, source: &dyn Source, progress: &dyn Progress) -> Result<FileHash> {
    engine.bound(source);
    source.will_read_all();
    let variables = &source.model().variables;
    progress.begin("hashing", variables.iter().map(Variable::raw_bytes).sum());
    let hashed = variables
        .iter()
        .enumerate()
        .filter(|(_, variable)| !is_container(source.model(), variable))
        .map(|(index, variable)| {
            let hash = match hash_variable(engine, source, index, progress) {
                Ok(hash) => Ok(hash),
                // Sequences, references: no region of them can be read.
                Err(error) if error.kind() == ErrorKind::Unsupported && variables[index].copied_because.is_some() => {
                    Err(error.message().to_owned())
                }
                Err(error) => return Err(error),
            };
            Ok(VariableHash { path: variable.path.clone(), hash })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut sorted: Vec<_> =
        hashed.iter().filter_map(|variable| Some((&variable.path, variable.hash.as_ref().ok()?))).collect();
    sorted.sort();
    let mut all = blake3::Hasher::new();
    for (path, hash) in sorted {
        all.update(format!("{path}\0{hash}\0").as_bytes());
    }
    Ok(FileHash { hash: all.finalize().to_hex().to_string(), variables: hashed })
}

fn hash_variable(engine: &Engine, source: &dyn Source, index: usize, progress: &dyn Progress) -> Result<String> {
    let variable = source.model().variable(index)?;
    let is_text = source.strings(index) == Some(Strings::Variable);
    let (block, count) = match is_text {
        // What a format keeps in place of a string says nothing about it.
        true => blocks(&Variable::plain("", STRING, variable.shape.clone()))?,
        false => blocks(variable)?,
    };
    let bands = Bands::new(engine, source, index, &block, engine.max_mem / 8 * 3)?;
    let parts = engine.parallel(usize::try_from(count).unwrap_or(usize::MAX), |number| {
        let mut bytes = Vec::new();
        if is_text {
            read_strings(source, index, &block, number as u64, &mut bytes)?;
        } else {
            read_block(&bands, number as u64, &mut bytes)?;
        }
        progress.advance(bytes.len() as u64);
        Ok(blake3::hash(&bytes))
    })?;
    let mut whole = blake3::Hasher::new();
    let kind = if is_text { "string".to_owned() } else { variable.dtype.to_string() };
    whole.update(format!("{SCHEME}\0{kind}\0{:?}\0", variable.shape).as_bytes());
    for part in parts {
        whole.update(part.as_bytes());
    }
    Ok(whole.finalize().to_hex().to_string())
}

/// Reads one block of strings in the form that is hashed.
fn read_strings(source: &dyn Source, index: usize, block: &[u64], number: u64, out: &mut Vec<u8>) -> Result<()> {
    let variable = source.model().variable(index)?;
    let region = chunk_region(&variable.shape, block, &chunk_position(&variable.shape, block, number));
    for string in source.read_strings(index, &region).map_err(|error| placed(error, source, variable))? {
        out.extend_from_slice(&(string.len() as u64).to_le_bytes());
        out.extend_from_slice(string.as_bytes());
    }
    Ok(())
}
