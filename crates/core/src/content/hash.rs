//! Content hashes that do not depend on chunks, chain, byte order or container.
//!
//! Scheme 1: a variable's values, little-endian and row-major, are cut into blocks that follow from type and
//! shape alone; its hash is BLAKE3 over type, shape and the BLAKE3 hashes of its blocks in order. A file's hash is
//! BLAKE3 over the sorted paths and hashes of its variables. Attributes do not count, nor do quantization variables,
//! which hold nothing else.

use serde::Serialize;

use super::{blocks, read_block};
use crate::engine::{Engine, Progress};
use crate::error::{ErrorKind, Result};
use crate::model::Variable;
use crate::quantization::is_container;
use crate::store::Source;

/// Version of the scheme, hashed with every variable.
const SCHEME: &str = "knarr-content-1";

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
    let variables = &source.model().variables;
    progress.begin("hashing", variables.iter().map(Variable::raw_bytes).sum());
    let hashed = variables
        .iter()
        .enumerate()
        .filter(|(_, variable)| !is_container(source.model(), variable))
        .map(|(index, variable)| {
            let hash = match hash_variable(engine, source, index, progress) {
                Ok(hash) => Ok(hash),
                // Variable length, references: no region of them can be read.
                Err(error) if error.kind() == ErrorKind::Unsupported => Err(error.message().to_owned()),
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
    let variable = &source.model().variables[index];
    let (block, count) = blocks(variable)?;
    let parts = engine.parallel(usize::try_from(count).unwrap_or(usize::MAX), |number| {
        let mut bytes = Vec::new();
        read_block(source, index, &block, number as u64, &mut bytes)?;
        progress.advance(bytes.len() as u64);
        Ok(blake3::hash(&bytes))
    })?;
    let mut whole = blake3::Hasher::new();
    whole.update(format!("{SCHEME}\0{}\0{:?}\0", variable.dtype, variable.shape).as_bytes());
    for part in parts {
        whole.update(part.as_bytes());
    }
    Ok(whole.finalize().to_hex().to_string())
}
