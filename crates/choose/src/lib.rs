//! Choosing chains. Pure: what is chosen depends on samples, profile, model and goal, never on a clock or a file.
//!
//! Reading order: [`features`], [`profile`], [`predictor`], [`form`], [`choose`], [`plan`], [`place`].
#![forbid(unsafe_code)]

pub mod choose;
pub mod features;
pub mod form;
pub mod numbers;
pub mod place;
pub mod plan;
pub mod predictor;
pub mod profile;
