//! Which values of which elements a call moves, in which order, and where they lie in the program's memory.
//!
//! [`selection`] and [`shape`] (which elements, in which order), [`convert`] (their types), [`members`] (which of their bytes),
//! [`memory`] (where they lie), [`order`] (which of writes that overlap counts), [`through`] (how far each rank is with collective
//! ones).

pub(in crate::parallel) mod convert;
pub(in crate::parallel) mod members;
pub(in crate::parallel) mod memory;
pub(in crate::parallel) mod order;
pub(in crate::parallel) mod selection;
pub(in crate::parallel) mod shape;
pub(in crate::parallel) mod through;
