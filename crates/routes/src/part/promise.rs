//! What an array says of its values, and how new ones keep it.

use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, Result};
use knarr_array::model::{AttributeValue, Variable};
use knarr_array::quality::{Bound, Quality};
use knarr_choose::choose::with_bound;
use knarr_codec::chain::{ChainSpec, StepSpec};
use knarr_codec::codec::CodecList;
use knarr_flow::provenance::{CHAIN_ATTRIBUTE, QUALITY_ATTRIBUTE};
use knarr_flow::settings::Settings;

/// The bound that new values of an array have, with the chain that rounds so and then does what `stored` does; `None` for
/// lossless arrays.
///
/// # Errors
/// `Usage` if `settings` ask for another bound than the array promises; `Unsupported` if what it promises is not
/// understood.
pub(super) fn promise(
    codecs: &CodecList,
    coordinates: &Coordinates,
    variable: &Variable,
    stored: &ChainSpec,
    settings: &Settings,
) -> Result<Option<(Bound, ChainSpec)>> {
    let promised = promised(variable)?;
    let asked = settings.of(coordinates, variable)?.quality;
    if !asked.is_lossless() && asked != promised {
        let says = if promised.is_lossless() { "that no value may change".to_owned() } else { promised.to_string() };
        return Err(Error::usage(format!("the store says of it: {says}. What is asked for is {asked}"))
            .hint("leave the bounds out, which are those of the store, or write a new store with others"));
    }
    let range = match promised.needs_range() {
        true => Some(of_range(codecs, variable)?),
        false => None,
    };
    let Some(bound) = promised.bound(None) else { return Ok(None) };
    let bound = range.map_or(bound, |abs| Bound { abs, ..bound });
    let steps = std::iter::once(StepSpec::new("round")).chain(stored.0.iter().cloned());
    let chain = with_bound(&ChainSpec(steps.collect()), &bound);
    Ok(Some((bound, chain)))
}

/// The quality that is recorded with the array.
fn promised(variable: &Variable) -> Result<Quality> {
    match variable.attribute(QUALITY_ATTRIBUTE) {
        None => Ok(Quality::LOSSLESS),
        Some(AttributeValue::Text(text)) if let Ok(quality) = text.parse() => Ok(quality),
        Some(_) => Err(Error::unsupported(format!("its attribute {QUALITY_ATTRIBUTE} is not understood"))
            .hint("write this part with the version of Knarr that wrote the store")),
    }
}

/// The largest error that a fraction of the range came to when the array was written: its chain has it.
fn of_range(codecs: &CodecList, variable: &Variable) -> Result<f64> {
    let written = match variable.attribute(CHAIN_ATTRIBUTE) {
        Some(AttributeValue::Text(text)) => text.split(" (").next().and_then(|chain| chain.parse::<ChainSpec>().ok()),
        _ => None,
    };
    let steps = written.and_then(|chain| chain.complete(codecs).ok()).unwrap_or_default();
    let rounding = steps.iter().find(|(name, _)| name == "round");
    rounding.and_then(|(_, options)| options.optional("abs")).ok_or_else(|| {
        Error::unsupported("its bound is a fraction of its range, and nothing says what that came to")
            .hint("write a new store with max_abs_error")
    })
}
