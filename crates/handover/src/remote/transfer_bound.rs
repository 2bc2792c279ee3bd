//! The error bound within which values of a variable may lose accuracy on their way to another node. There is one only if the
//! user has stated a bound for the variable, and that bounds hold in flight, too.

use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::Result;
use knarr_array::quality::{Observed, Quality};
use serde::{Deserialize, Serialize};

/// What may become of the values of a variable on their way, and what they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferBound {
    /// The variable, as users know it.
    pub variable: String,
    /// Type of its values.
    pub dtype: DType,
    /// Their byte order.
    pub endian: Endian,
    /// Bits of its fill values, as in [`ArraySpec::fills`].
    pub fills: Vec<u64>,
    /// The quality, in words: who reads JSON may be off by the last bit of a number.
    pub quality: String,
}

impl TransferBound {
    /// What so many bytes of values are; `None` if they are no whole elements.
    pub(crate) fn spec(&self, bytes: usize) -> Option<ArraySpec> {
        let count = bytes.checked_div(self.dtype.size()).filter(|count| count * self.dtype.size() == bytes)?;
        Some(ArraySpec { endian: self.endian, fills: self.fills.clone(), ..ArraySpec::new(self.dtype, [count]) })
    }

    /// The quality.
    ///
    /// # Errors
    /// `Usage` or `Quality` for one that makes no sense: what others say is hostile.
    pub(crate) fn quality(&self) -> Result<Quality> {
        let quality: Quality = self.quality.parse()?;
        quality.validate(self.dtype)?;
        Ok(quality)
    }
}

/// What has crossed the network of a variable with a bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Crossed {
    /// Bytes of its values.
    pub raw: u64,
    /// Bytes that were sent for them.
    pub sent: u64,
    /// The largest errors, as whoever sent the values has measured them; none for those that came exact.
    pub worst: Observed,
}

impl Crossed {
    /// With more of the same variable.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let Self { raw, sent, worst } = other;
        Self { raw: self.raw + raw, sent: self.sent + sent, worst: self.worst.merge(worst) }
    }
}
