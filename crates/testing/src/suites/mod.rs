//! What each implementation of a trait has to do.

mod account;
pub mod codec;
pub mod link;
pub mod read_store;
pub mod sink;
pub mod source;
pub mod store;
mod tier;

pub use account::account_suite;
pub use tier::tier_suite;
