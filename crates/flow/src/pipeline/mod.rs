//! The pipeline: analyse and plan a source, then encode its chunks in parallel into a sink.
//!
//! [`advise`] and [`plan`] make the plan and change nothing; [`execute`] carries it out. The same pipeline serves
//! every pair of formats.

mod advise;
mod ahead;
mod alike;
mod asked;
mod choice;
mod earlier;
mod encode;
mod execute;
mod places;
mod placing;
mod planned;
mod planner;
mod recipes;
mod spare;
mod whole;

pub use advise::{advise, plan, plan_array, plan_of};
pub use ahead::encode_ahead;
pub use asked::check_chains;
pub use earlier::for_later;
pub use encode::ChunkOutcome;
pub use encode::{Buffers, ChunkEncoder, Container, Limits, Recipe};
pub use execute::{Execution, VariableReport, execute, most_demanding, prove_copies, storages};
