//! What is recorded in the output about lossy results: bound asked, error measured, chain and version.

use crate::array::DType;
use crate::client_data::ClientData;
use crate::codec::KNARR_FILTER;
use crate::model::{Attribute, AttributeValue, Variable};
use crate::pipeline::VariableReport;
use crate::plan::Choice;
use crate::quality::Quality;

/// Attribute that holds the promised quality of a lossy variable.
pub const QUALITY_ATTRIBUTE: &str = "knarr_quality";
/// Attribute that holds the chain that wrote a lossy variable.
pub const CHAIN_ATTRIBUTE: &str = "knarr_chain";
/// Attribute that holds the largest absolute error measured over all elements.
pub const ERROR_ATTRIBUTE: &str = "knarr_max_abs_error_measured";

/// Attributes for a variable that was written with a bound. What readers know by other names is in
/// [`crate::quantization`].
pub fn variable_attributes(choice: &Choice, report: &VariableReport) -> Vec<Attribute> {
    let text = |name: &str, value: String| Attribute { name: name.to_owned(), value: AttributeValue::Text(value) };
    let mut attributes = vec![
        text(QUALITY_ATTRIBUTE, choice.quality.to_string()),
        text(CHAIN_ATTRIBUTE, format!("{} (knarr {})", choice.chain, env!("CARGO_PKG_VERSION"))),
    ];
    let seen = report.observed.unwrap_or_default();
    attributes.push(Attribute {
        name: ERROR_ATTRIBUTE.to_owned(),
        value: AttributeValue::Numbers { dtype: DType::F64, bytes: seen.max_abs.to_le_bytes().to_vec(), scalar: true },
    });
    attributes
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
/// The quality under which the values of a variable were written: what is recorded beside it, or what the client data of
/// Knarr's HDF5 filter say.
pub fn promised(variable: &Variable) -> Quality {
    if let Some(AttributeValue::Text(text)) = variable.attribute(QUALITY_ATTRIBUTE) {
        return text.parse().unwrap_or(Quality::LOSSLESS);
    }
    let filter = variable.filters.iter().find(|filter| filter.id == KNARR_FILTER);
    let data = filter.and_then(|filter| ClientData::parse(&filter.cd_values).ok());
    data.map_or(Quality::LOSSLESS, |data| data.wishes.quality)
}
