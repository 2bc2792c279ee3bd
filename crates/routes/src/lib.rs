//! Routes: what happens to the variables of a file, from one end to the other. A route knows formats and plans; no route
//! knows another.

pub mod compress;
