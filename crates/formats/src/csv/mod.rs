//! Tables of numbers as text: comma-, semicolon-, tab- or space-separated values.
//!
//! Columns under a row of names are variables along one dimension, `row`; a table without names is one variable,
//! `data`. Integers stay integers (64 bits); decimals are the nearest double, and are written with as many digits as
//! lead back to the same number.

mod dialect;
mod number;
mod read;
mod records;
mod write;

pub use read::CsvSource;
pub(crate) use read::FORMAT;
pub use write::{check, write};
