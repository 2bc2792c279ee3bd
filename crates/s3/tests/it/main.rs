//! Tests of this crate from outside, one program: stores in a bucket.

mod stores;
