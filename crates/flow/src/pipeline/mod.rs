//! The pipeline: analyse and plan a source, then encode its chunks in parallel into a sink.
//!
//! [`advise`] and [`plan`] make the plan and change nothing; [`execute`] carries it out. The same pipeline serves
//! every pair of formats.
//!
//! Reading order: `planning`, `execution`.

mod execution;
mod planning;

pub use execution::ahead::encode_ahead;
pub use execution::encode::ChunkOutcome;
pub use execution::encode::{Buffers, ChunkEncoder, Container, Limits, Recipe};
pub use execution::execute::{Execution, VariableReport, execute, most_demanding, prove_copies};
pub use execution::form::storages;
pub use planning::advise::{advise, plan, plan_array, plan_of};
pub use planning::asked::check_chains;
pub use planning::earlier::for_later;
