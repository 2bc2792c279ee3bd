//! What a level spends on how to write bytes, besides libdeflate's own search.

/// Time and bytes are traded here, by level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// The part by which a search for matches must shrink bytes to be worth its time.
    pub(super) least_gain: f32,
    /// Bytes of a region that are looked at, within DEFLATE's window.
    pub(super) sample: usize,
    /// Bits per byte of the sample above which bytes are stored.
    pub(super) noise: f32,
    /// Bytes after which a block may end.
    pub(super) granule: usize,
}

impl Effort {
    pub(super) fn of(level: i32) -> Self {
        // Above 7.965 bits prefix codes gain less than half a per cent.
        let thorough = Self { least_gain: 0.005, sample: 16 << 10, noise: 7.965, granule: 8 << 10 };
        match level {
            // Codes gain up to two per cent on what the quick levels store, which is then a copy in both directions.
            // (So short a sample of noise has 0.05 bits less than all of it.)
            ..=2 => Self { least_gain: 0.06, sample: 4 << 10, noise: 7.8, granule: 16 << 10 },
            3..=5 => Self { least_gain: 0.02, ..thorough },
            _ => thorough,
        }
    }
}
