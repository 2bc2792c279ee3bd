//! Tests of this crate from outside, one program: routes from end to end.

#[path = "../../../formats/tests/it/common/mod.rs"]
#[allow(dead_code, reason = "not all of it is of use here")]
mod common;
mod output;
mod values_only;
