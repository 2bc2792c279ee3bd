//! How things lie in bytes.
//!
//! Reading order: [`wire`] (numbers of Knarr's own formats), [`path_bytes`] (paths in JSON), [`npy`] (headers of NumPy's format).

pub mod npy;
pub mod path_bytes;
pub mod wire;
