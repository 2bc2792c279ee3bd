//! Streams of bytes over UCX, for nodes whose interconnect it knows.
//!
//! UCX is loaded by [`load`] when it is needed: nothing is linked, and no header is needed to build. Its ABI has been the same
//! since version 1.10, because every structure says which of its fields count. So `sys.rs`, the only file here with unsafe
//! code, declares what is called, and no adapter is compiled at the site.
//!
//! Two processes connect by an exchange of addresses over TCP: [`End::new`] on both sides, then [`End::connect`]. The TCP
//! connection stays open beside the [`Stream`]: its end says that the other process is gone, which UCX does not.

mod load;
mod stream;
mod sys;

pub use load::{Ucx, load};
pub use stream::{End, Stream};
