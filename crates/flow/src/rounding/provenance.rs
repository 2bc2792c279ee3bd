//! What is recorded in the output about lossy results: bound asked, error measured, chain and version.

use crate::pipeline::VariableReport;
use crate::rounding::quantization::Quantization;
use knarr_array::array::DType;
use knarr_array::model::{Attribute, AttributeValue, Variable};
use knarr_array::quality::Quality;
use knarr_choose::plan::Choice;
use knarr_codec::client_data::ClientData;
use knarr_codec::codec::KNARR_FILTER;

/// Attribute that holds the promised quality of a lossy variable.
pub const QUALITY_ATTRIBUTE: &str = "knarr_quality";
/// Attribute that holds the chain that wrote a lossy variable.
pub const CHAIN_ATTRIBUTE: &str = "knarr_chain";
/// Attribute that holds the largest absolute error measured over all elements, against what the variable was made from.
pub const ERROR_ATTRIBUTE: &str = "knarr_max_abs_error_measured";
/// Attribute that holds the qualities under which a variable was written before, the first one first.
pub const BEFORE_ATTRIBUTE: &str = "knarr_quality_before";
/// Attribute of a variable that was rounded several times: no value is farther than this from the first original.
pub const TOTAL_ATTRIBUTE: &str = "knarr_max_abs_error_total";

/// Attributes for a variable that was made from `input` with a bound. What readers know by other names is in
/// [`crate::rounding::quantization`].
pub fn variable_attributes(choice: &Choice, report: &VariableReport, input: &Variable) -> Vec<Attribute> {
    let text = |name: &str, value: String| Attribute { name: name.to_owned(), value: AttributeValue::Text(value) };
    let number = |name: &str, value: f64| {
        let value = AttributeValue::Numbers { dtype: DType::F64, bytes: value.to_le_bytes().to_vec(), scalar: true };
        Attribute { name: name.to_owned(), value }
    };
    let mut attributes = vec![
        text(QUALITY_ATTRIBUTE, choice.quality.to_string()),
        text(CHAIN_ATTRIBUTE, format!("{} (knarr {})", choice.chain, env!("CARGO_PKG_VERSION"))),
    ];
    // Nothing was measured where nothing was written.
    if report.chunks > 0 {
        attributes.push(number(ERROR_ATTRIBUTE, report.observed.unwrap_or_default().max_abs));
    }
    let seen = report.observed.unwrap_or_default();
    if let Some(before) = before(input) {
        attributes.push(text(BEFORE_ATTRIBUTE, before));
        if let Some(error) = error_before(input) {
            // Errors of values add up to no more than the sum of the largest; rounded up, so that it stays a bound.
            let total = if seen.max_abs == 0.0 { error } else { (error + seen.max_abs) * (1.0 + 4.0 * f64::EPSILON) };
            attributes.push(number(TOTAL_ATTRIBUTE, total));
        }
    }
    attributes
}

/// The qualities under which a variable was written so far; `None` if it was not rounded, or nothing says so.
fn before(variable: &Variable) -> Option<String> {
    let last = match promised(variable) {
        Quality::LOSSLESS => Quantization::recorded(variable)?.quality(),
        promised => promised,
    };
    Some(match variable.attribute(BEFORE_ATTRIBUTE) {
        Some(AttributeValue::Text(earlier)) => format!("{earlier}; {last}"),
        _ => last.to_string(),
    })
}

/// The largest error that a variable may have already; `None` if that is not known.
fn error_before(variable: &Variable) -> Option<f64> {
    let recorded = |name: &str| match variable.attribute(name)? {
        AttributeValue::Numbers { dtype: DType::F64, bytes, .. } => {
            Some(f64::from_le_bytes(bytes.as_slice().try_into().ok()?))
        }
        _ => None,
    };
    if variable.attribute(BEFORE_ATTRIBUTE).is_some() {
        return recorded(TOTAL_ATTRIBUTE);
    }
    // What the filter writes was measured by nobody, but it keeps its promise.
    recorded(ERROR_ATTRIBUTE).or_else(|| promised(variable).max_abs_error)
}

/// What to say where a copy does not keep its promise and was rounded before: the promise is about something else.
pub(crate) fn doubt(copy: &Variable) -> Option<String> {
    let Some(AttributeValue::Text(before)) = copy.attribute(BEFORE_ATTRIBUTE) else { return None };
    Some(format!("it was rounded before ({before}), and what is promised holds against what it was made from"))
}

/// The `history` attribute with a line put in front, as netCDF tools do. `when` is a date for people.
pub fn history(existing: Option<&AttributeValue>, when: &str, command: &str) -> Attribute {
    let line = format!("{when}: {command}");
    let value = match existing {
        Some(AttributeValue::Text(old)) if !old.is_empty() => format!("{line}\n{old}"),
        _ => line,
    };
    Attribute { name: "history".to_owned(), value: AttributeValue::Text(value) }
}
/// Today's date and time, UTC, ISO 8601.
pub fn today() -> String {
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Gregorian date of a day count since 1970-01-01 (Howard Hinnant, 'chrono-Compatible Low-Level Date Algorithms').
fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

/// The quality under which the values of a variable were written: what is recorded beside it, or what the client data of
/// Knarr's HDF5 filter say.
pub fn promised(variable: &Variable) -> Quality {
    if let Some(AttributeValue::Text(text)) = variable.attribute(QUALITY_ATTRIBUTE) {
        return text.parse().unwrap_or(Quality::LOSSLESS);
    }
    let filter = variable.filters.iter().find(|filter| filter.id == KNARR_FILTER);
    let data = filter.and_then(|filter| ClientData::parse(&filter.cd_values).ok());
    data.map_or(Quality::LOSSLESS, |data| data.options.quality)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates_are_civil() {
        assert_eq!(super::civil(0), (1970, 1, 1));
        assert_eq!(super::civil(11_016), (2000, 2, 29));
        assert_eq!(super::civil(20_778), (2026, 11, 21));
    }
}
