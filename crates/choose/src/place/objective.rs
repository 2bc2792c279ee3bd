//! What the planner is to make least.

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// The time that the program waits, or computes more slowly than alone.
    Blocked,
    /// The time until all is in the last tier.
    Durable,
    /// The size of the files.
    Size,
    /// Seconds of encoding, of decoding, and of the link for the encoded bytes, with these weights.
    Weighted {
        /// Of a second of encoding.
        encode: f64,
        /// Of a second of decoding.
        decode: f64,
        /// Of a second that the last tier takes for the encoded bytes.
        ratio: f64,
    },
}
