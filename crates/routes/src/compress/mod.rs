//! The route `compress`: one input becomes one output whose variables are encoded as a plan says.
//!
//! Reading order: `options`, `plan_file`, `lazy_sink`, `values_only`, `repack`, `repacked`, `forecast`, [`notes`], `unlocked`.

mod annotate;
mod error_context;
mod forecast;
mod lazy_sink;
pub mod notes;
mod options;
mod passthrough;
mod plan_file;
mod repack;
mod repacked;
mod unlocked;
mod values_only;

pub use forecast::{Forecast, expected_bytes};
pub use options::RepackOptions;
pub use plan_file::{is_made_from, named_plan, plan_path, read_plan, refuse_other_plan, save_plan};
pub use repack::{encode_source_ahead, forecast_source, repack, repack_source, vacant_kind, write_source};
pub use repacked::{Repacked, read_bytes, size_of};
pub use unlocked::{forecast, is_classic, pack, unpack};
