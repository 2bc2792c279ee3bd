//! Routes: what happens to the variables of a file, from one end to the other. A route knows formats and plans; no route
//! knows another. `output` is no route, but what a program calls to send its values along `compress`. `part` is the route into
//! a store that is there.

pub mod compress;
pub mod output;
pub mod part;
