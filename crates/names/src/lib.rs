//! Names of files that a program has closed and that are not there yet.
//!
//! Closing a file that is handed over returns before the launcher has made the file. Whoever uses its name meanwhile has to
//! wait: the program, its other processes, and what they start. So the launcher of a run keeps a *page* with the names that
//! are pending, and all processes of the run have it in their memory ([`map`]). A rank enters a name before its file counts
//! as handed over; the launcher takes it out when the file is there.
//!
//! What is here runs in other people's programs, inside of functions of the C library: in signal handlers, in children of
//! `vfork`, before constructors have run, while an allocator begins. So nothing here that such a call needs allocates memory
//! or takes a lock: the page consists of atomic numbers. Whoever dies in the middle leaves at most a place in it unused.
//! System calls are made without the C library, whose functions lead back to the hooks.
//!
//! - [`page`]: what the page is made of;
//! - [`filter`]: most names are known not to be pending by a look at three numbers;
//! - [`key`]: a name is the last component of a path and the directory that it is in;
//! - [`entry`]: a pending name, and what becomes of it;
//! - [`other_nodes`]: names that are pending on other nodes, and [`note`]s about them;
//! - [`program`]: what a process of the program does: enter a name, look for one, wait, give one up;
//! - [`written`] and [`lock`]: files that the program itself writes in a tier;
//! - [`kept`]: copies of files that are in their places;
//! - [`path`]: a path without memory of the heap;
//! - [`text`]: text that several processes see;
//! - [`waiter`]: a call that waits;
//! - [`launcher`]: what the launcher does;
//! - [`own`]: what Knarr itself does in a program concerns no pending name.

mod kept;
mod key;
mod launcher;
mod lock;
mod note;
mod other_nodes;
mod own;
mod page;
mod path;
mod program;
mod written;

pub use kept::{Identity, KEPT};
pub use key::{Directory, Key, last_of};
pub use launcher::{Began, End, Keeper, Waited, Waits};
pub use lock::Lock;
pub use note::{Note, launcher_of};
pub use other_nodes::{Came, LAUNCHER, Notes, OtherNodes};
pub use own::{is_opened_by_library, is_own, opened_by_library, own};
pub use page::entry::{Kind, SpoolName};
pub use page::waiter::{Call, Over};
pub use path::Path;
pub use program::{Found, Hold, Names, STAGED, attach, here};
pub use written::Writing;
