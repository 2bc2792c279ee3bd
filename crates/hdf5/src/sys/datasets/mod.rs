//! Datasets.
//!
//! Reading order: `plist` (what they are made with), `dataset`, `extensible` (where chunks belong), `external` and
//! `virtual_sources` (values in other files), `rebuild` (properties made anew), `grow`.

pub(in crate::sys) mod dataset;
pub(in crate::sys) mod extensible;
pub(in crate::sys) mod external;
pub(in crate::sys) mod grow;
pub(in crate::sys) mod plist;
pub(in crate::sys) mod rebuild;
pub(in crate::sys) mod virtual_sources;
