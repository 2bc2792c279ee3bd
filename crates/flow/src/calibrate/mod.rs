//! Measuring what decisions are made from: costs of codecs on this machine, and what chains make of samples of data.

mod fields;
mod profile;
mod record;
mod regret;

pub use profile::measure;
pub use record::{Origin, record};
pub use regret::{Regret, regret};
