//! What is done with files, most of it in processes of their own: packing, delivering, estimating, handing back.
//!
//! Here are the lists: what is done with files that were closed, by their route, and what processes of their own are asked for.

pub(in crate::launch) mod ahead;
pub(in crate::launch) mod closed;
pub(in crate::launch) mod cost;
pub(in crate::launch) mod deliver;
pub(in crate::launch) mod estimate;
pub(in crate::launch) mod exchange;
pub(in crate::launch) mod hand_back;
pub(in crate::launch) mod kind;
pub(in crate::launch) mod outputs;
pub(in crate::launch) mod pack;
pub(in crate::launch) mod packed;
pub(in crate::launch) mod replacement;
pub(in crate::launch) mod stage;
pub(in crate::launch) mod tasks;

use knarr_config::Route;
use knarr_worker::Tasks;

use super::aggregators::lossy_transfers::FindBounds;

/// What a route does with a file that the program has closed.
pub(in crate::launch) fn when_closed(route: Route) -> closed::WhenClosed {
    match route {
        Route::Estimate => estimate::estimate,
        // Others than the first two are not handed out, see `Snapshot::rule_for`.
        Route::Compress | Route::Stage | Route::File | Route::Checkpoint | Route::Transfer => pack::pack,
    }
}

/// What the launcher asks processes of their own for: [`knarr_worker::serve`] makes such of the program.
#[must_use]
pub fn worker_tasks() -> Tasks {
    Tasks::default()
        .with::<tasks::PackFile>()
        .with::<estimate::Estimate>()
        .with::<deliver::Deliver>()
        .with::<stage::drain::Drain>()
        .with::<stage::seal::Seal>()
        .with::<stage::improve::Improve>()
        .with::<ahead::EncodeAhead>()
        .with::<deliver::Transcode>()
        .with::<hand_back::Unpack>()
        .with::<FindBounds>()
        .with::<knarr_watch::PackSet>()
}
