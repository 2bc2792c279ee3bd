//! The functions, by what they do with a name.

mod changing;
mod listing;
mod looking;
mod making;
mod moving;
mod opening;
mod removing;
mod resolving;
