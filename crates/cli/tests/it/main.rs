//! Tests of this crate from outside, one program: pages that the program generates.

mod docs;
