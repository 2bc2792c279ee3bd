//! Tests of this crate from outside, one program: the flow of chunks, stores, generated data, and the rooms of the design.

mod generate;
mod layering;
mod online;
mod pipeline;
mod remote_encoder;
mod stores;
