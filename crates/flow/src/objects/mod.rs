//! Bytes that consist of many objects, and where they lie.
//!
//! Reading order: [`read_store`], [`directory`], [`mutable_store`] (a store that is there, and is changed), [`urls`].

pub mod directory;
pub mod mutable_store;
pub mod read_store;
pub mod urls;
