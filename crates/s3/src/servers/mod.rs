//! The kinds of servers that hold objects. Each has a file of its own; `contract` is what distinguishes them.

mod bucket;
mod contract;
mod web;

pub(crate) use contract::{Answer, Server, Variables};

/// All of them. Their schemes are those of [`SCHEMES`](knarr_flow::urls::SCHEMES), in the same order.
pub(crate) const SERVERS: &[&Server] = &[&bucket::BUCKET, &web::WEB];
