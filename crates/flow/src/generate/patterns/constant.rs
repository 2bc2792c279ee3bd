//! The same value everywhere.

use crate::generate::{Asked, Field, Pattern, Values};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

pub(super) struct Constant;

impl Pattern for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn summary(&self) -> &'static str {
        "the same value everywhere"
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc { name: "value", kind: OptionKind::Optional, doc: "the value; 42 if none is given" }]
    }

    fn values(&self) -> Values {
        Values::Own("give the value itself, like 'constant:42'")
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        Ok(Box::new(Same(asked.options.optional("value").unwrap_or(42.0))))
    }
}

struct Same(f64);

impl Field for Same {
    fn row(&self, _start: &[u64], out: &mut [f64]) {
        out.fill(self.0);
    }
}
