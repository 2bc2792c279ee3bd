//! Outputs that appear under their final name complete or not at all, whenever the program is killed.

mod abandoned;
mod access;
mod atomic_directory;
mod atomic_file;
mod common;
mod in_place;
mod replace;
mod replaces;
mod room;
mod store;
mod sync;
mod vacant;
mod write_behind;

pub use abandoned::{
    exchange_name, is_of_running, is_temporary_name, kept_name, maker_lives, path_to_be, remove_abandoned,
    temporary_name,
};
pub use access::take_access;
pub use atomic_directory::{AtomicDirectory, DirectoryKind};
pub use atomic_file::AtomicFile;
pub use common::{is_common, is_common_beside};
pub use in_place::InPlace;
pub use replace::replace;
pub use replaces::{FileIdentity, Known, Placed, Replaces};
pub use store::Store;
pub use vacant::Vacant;
pub use write_behind::{WriteBehind, send_to_disk};
