//! What one value of a table is, and the type that serves all values of a column.

use knarr_array::array::DType;
use knarr_array::{Error, Result};

use crate::classic::NcType;

/// Texts that mean 'missing'.
const MISSING: [&str; 10] = ["", "NA", "N/A", "n/a", "null", "NULL", "None", "-", "--", "."];

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// A whole number of at most 64 bits.
    Integer(i128),
    /// A decimal, as the nearest double.
    Decimal(f64),
    Missing,
}

impl Number {
    /// The number that `text` stands for; `None` if it is something else.
    ///
    /// # Errors
    /// `Unsupported` for whole numbers of more than 64 bits and decimals that are larger than any double.
    pub(super) fn parse(text: &str) -> Result<Option<Self>> {
        if let Ok(value) = text.parse::<i64>() {
            return Ok(Some(Self::Integer(value.into())));
        }
        if MISSING.contains(&text) {
            return Ok(Some(Self::Missing));
        }
        if let Ok(value) = text.parse::<u64>() {
            return Ok(Some(Self::Integer(value.into())));
        }
        let Ok(value) = text.parse::<f64>() else { return Ok(None) };
        if text.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::unsupported(format!("'{text}' is a whole number of more than 64 bits"))
                .hint("write it with a decimal point, if the nearest double will do"));
        }
        // What is written with digits is none of the words for infinity.
        if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(Error::unsupported(format!("'{text}' is larger than any 64-bit floating-point number"))
                .hint("write inf, if infinity will do, or leave it empty for a missing value"));
        }
        Ok(Some(Self::Decimal(value)))
    }
}

/// What the values of a column are, taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kind {
    has_decimals: bool,
    has_negative: bool,
    has_missing: bool,
    /// Above what 64 bits with a sign hold.
    has_large: bool,
    /// A value is what would stand for missing ones.
    has_fill: bool,
}

impl Kind {
    pub(super) fn see(&mut self, number: Number) {
        match number {
            Number::Decimal(_) => self.has_decimals = true,
            Number::Missing => self.has_missing = true,
            Number::Integer(value) => {
                self.has_negative |= value < 0;
                self.has_large |= value > i64::MAX.into();
                self.has_fill |= [DType::I64, DType::U64].into_iter().any(|dtype| value == fill_value(dtype));
            }
        }
    }

    pub(super) fn merge(self, other: Self) -> Self {
        Self {
            has_decimals: self.has_decimals || other.has_decimals,
            has_negative: self.has_negative || other.has_negative,
            has_missing: self.has_missing || other.has_missing,
            has_large: self.has_large || other.has_large,
            has_fill: self.has_fill || other.has_fill,
        }
    }

    /// The type that holds all values exactly, decimals as the nearest double.
    ///
    /// # Errors
    /// `Unsupported` if none does.
    pub(super) fn dtype(self) -> Result<DType> {
        if self.has_decimals {
            return Ok(DType::F64);
        }
        if self.has_large && self.has_negative {
            return Err(Error::unsupported("whole numbers below 0 and above 2^63 - 1 stand together")
                .hint("write them with decimal points, if the nearest doubles will do"));
        }
        if self.has_missing && self.has_fill {
            return Err(Error::unsupported("values are missing, and one is the number that would stand for them")
                .hint("write the column with decimal points: then NaN stands for missing values"));
        }
        Ok(if self.has_large { DType::U64 } else { DType::I64 })
    }

    /// Bit pattern that stands for missing values, if there are any that need one: decimals have NaN.
    pub(super) fn fill(self, dtype: DType) -> Option<u64> {
        (self.has_missing && dtype.is_integer()).then(|| fill_type(dtype).default_fill())
    }
}

/// What netCDF takes for missing where nothing is said.
fn fill_type(dtype: DType) -> NcType {
    if dtype == DType::U64 { NcType::UInt64 } else { NcType::Int64 }
}

fn fill_value(dtype: DType) -> i128 {
    let bits = fill_type(dtype).default_fill();
    if dtype == DType::U64 { bits.into() } else { bits.cast_signed().into() }
}

/// Appends a number in the type of its column, little-endian.
pub(super) fn append(number: Number, dtype: DType, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the column's type holds all values")]
    let bits = match (number, dtype) {
        (Number::Decimal(value), _) => value.to_bits(),
        (Number::Missing, DType::F64) => f64::NAN.to_bits(),
        (Number::Missing, _) => fill_type(dtype).default_fill(),
        #[expect(clippy::cast_precision_loss, reason = "among decimals a whole number is one of them")]
        (Number::Integer(value), DType::F64) => (value as f64).to_bits(),
        (Number::Integer(value), _) => value as u64,
    };
    out.extend_from_slice(&bits.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<Number> {
        Number::parse(text).unwrap()
    }

    #[test]
    fn texts_are_numbers_of_their_kind() {
        assert_eq!(number("-7"), Some(Number::Integer(-7)));
        assert_eq!(number("18446744073709551615"), Some(Number::Integer(u64::MAX.into())));
        assert_eq!(number("1e3"), Some(Number::Decimal(1000.0)));
        assert_eq!(number("0.1"), Some(Number::Decimal(0.1)));
        assert_eq!(number("-inf"), Some(Number::Decimal(f64::NEG_INFINITY)));
        assert!(matches!(number("NaN"), Some(Number::Decimal(value)) if value.is_nan()));
        assert_eq!((number(""), number("NA")), (Some(Number::Missing), Some(Number::Missing)));
        assert_eq!((number("x"), number("1,5"), number("2020-01-01")), (None, None, None));
        assert_eq!(number("Infinity"), Some(Number::Decimal(f64::INFINITY)));
        assert_eq!(number("1e-400"), Some(Number::Decimal(0.0)), "the nearest double");
        for text in ["18446744073709551616", "1e400", "-1.5E+309", "+1e400"] {
            assert!(Number::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_get_the_type_that_holds_all() {
        let kind = |texts: &[&str]| {
            let mut kind = Kind::default();
            texts.iter().for_each(|text| kind.see(number(text).unwrap()));
            kind
        };
        assert_eq!(kind(&["1", "-2"]).dtype().unwrap(), DType::I64);
        assert_eq!(kind(&["1", "18446744073709551615"]).dtype().unwrap(), DType::U64);
        assert_eq!(kind(&["1", ""]).fill(DType::I64), Some(NcType::Int64.default_fill()));
        assert_eq!(kind(&["1.5", ""]).fill(DType::F64), None);
        assert_eq!(kind(&["1.5", "-2"]).dtype().unwrap(), DType::F64);
        assert!(kind(&["-1", "18446744073709551615"]).dtype().is_err());
        assert!(kind(&["", "-9223372036854775806"]).dtype().is_err());
        assert_eq!(kind(&["-9223372036854775806"]).dtype().unwrap(), DType::I64);
    }
}
