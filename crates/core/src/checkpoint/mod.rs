//! Checkpoints: the restart files of many ranks in few files, like variables with like, restored byte for byte.
//!
//! After mcrEngine (Islam et al., Scientific Programming 21, 2013). Reading order: [`layout`], [`pattern`], [`interval`].

pub mod interval;
pub mod layout;
pub mod pattern;
