//! Tests of this crate from outside, one program: links.

mod links;
