//! From a file to its model.
//!
//! Reading order: `walk` (every object once), `paths` and `names` (of objects, of dimensions), `values` (of attributes), `scan`.

pub(crate) mod names;
pub(crate) mod paths;
pub(crate) mod scan;
pub(crate) mod values;
pub(crate) mod walk;
