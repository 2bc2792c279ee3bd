//! The route `compress`: one input becomes one output whose variables are encoded as a plan says.

mod annotate;
mod as_it_is;
mod blame;
mod forecast;
mod format;
mod late_sink;
mod not_kept;
pub mod notes;
mod options;
mod plan_file;
mod repack;
mod repacked;
mod unlocked;
mod values_only;
mod zarr_fit;

pub use forecast::{Forecast, expected_bytes};
pub use format::{OutputFormat, opened_by};
pub use options::RepackOptions;
pub use plan_file::{is_made_from, named_plan, plan_path, read_plan, refuse_other_plan, save_plan};
pub use repack::{encode_source_ahead, forecast_source, repack, repack_source, vacant_format, write_source};
pub use repacked::{Repacked, read_bytes, size_of};
pub use unlocked::{Encoded, Pipeline, encoded, forecast, pack, pipelines, unpack};
