//! Headings of options in help texts.

/// What is written and printed.
pub(crate) const OUTPUT: &str = "Output";
