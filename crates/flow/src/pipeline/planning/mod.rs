//! What happens to each variable, found without writing anything.
//!
//! Reading order: `choice` (one chain), `asked` (chains that were named), `earlier` and `planned` (choices that are there),
//! `planner` (one variable), `alike` (variables that share a choice), `whole_file` (all of them weighed together), `advise` (a source).

pub(in crate::pipeline) mod advise;
pub(in crate::pipeline) mod alike;
pub(in crate::pipeline) mod asked;
pub(in crate::pipeline) mod choice;
pub(in crate::pipeline) mod earlier;
pub(in crate::pipeline) mod planned;
pub(in crate::pipeline) mod planner;
pub(in crate::pipeline) mod whole_file;
