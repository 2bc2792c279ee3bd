//! Tests of this crate from outside, one program: communicators over MPI.

mod suite;
