//! Tests of this crate from outside, one program: stores in a ZIP file.

mod stores;
