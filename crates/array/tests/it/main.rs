//! Tests of this crate from outside, one program: communicators.

mod comm;
