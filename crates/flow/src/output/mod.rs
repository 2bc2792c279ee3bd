//! Outputs that appear under their final name complete or not at all, whenever the program is killed.

mod abandoned;
mod access;
mod common;
mod in_place;
mod replace;
mod replaces;
mod room;
mod staging;
mod store;
mod sync;
mod temporary;
mod vacant;
mod write_behind;

pub use abandoned::{
    exchange_name, is_of_running, is_temporary_name, kept_name, maker_lives, path_to_be, remove_abandoned,
    temporary_name,
};
pub use access::take_access;
pub use common::{is_common, is_common_beside};
pub use in_place::InPlace;
pub use replace::replace;
pub use replaces::{FileIdentity, Known, Placed, Replaces};
pub use staging::{Kind, Staging};
pub use store::Store;
pub use temporary::Temporary;
pub use vacant::Vacant;
pub use write_behind::{WriteBehind, send_to_disk};
