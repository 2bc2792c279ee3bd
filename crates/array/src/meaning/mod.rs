//! What the attributes of variables mean.
//!
//! Reading order: [`conventions`] (for bounds), [`coordinates`] (which variables locate or measure others).

pub mod conventions;
pub mod coordinates;
