//! Variables that a plan is there for: one of the same file, or of another file with like variables.

use crate::settings::{ChunkRule, VariableSettings};
use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_array::quality::Bound;
use knarr_choose::choose::with_bound;
use knarr_choose::plan::{Action, Choice, VariablePlan};
use knarr_codec::chain::ChainSpec;

/// What a plan says of a variable.
pub(in crate::pipeline) enum Planned<'a> {
    /// It is copied as it is stored, with the reason.
    Copy(&'a str),
    /// It is encoded like this, as the choice says.
    Encode(VariableSettings, &'a Choice),
}

/// What begins the reason of a choice that a plan made.
const AS_PLANNED: &str = "as planned: ";

/// The reason of a choice that was made before for `reason`.
pub(in crate::pipeline) fn as_planned(reason: &str) -> String {
    let reason = reason.strip_prefix(AS_PLANNED).unwrap_or(reason);
    format!("{AS_PLANNED}{reason}")
}

/// The chain of `choice` for a variable whose promise is `bound`: that of a fraction of a range is another one for another
/// range.
pub(in crate::pipeline) fn chain_for(choice: &Choice, bound: Option<&Bound>) -> ChainSpec {
    match bound.filter(|&bound| choice.bound.as_ref() != Some(bound)) {
        Some(bound) => with_bound(&choice.chain, bound),
        None => choice.chain.clone(),
    }
}

/// What `planned` says of `variable`, which has its path.
///
/// # Errors
/// `Usage` if the plan is for a variable of another type or rank; `Quality` if its promise cannot be kept for the type;
/// `Corrupt` for a plan that makes no sense.
pub(in crate::pipeline) fn read<'a>(planned: &'a VariablePlan, variable: &Variable) -> Result<Planned<'a>> {
    let choice = match &planned.action {
        Action::Copy(why) => return Ok(Planned::Copy(why)),
        Action::Encode(choice) => choice,
    };
    let kind = |dtype, rank: usize| format!("{dtype} with {rank} dimension{}", if rank == 1 { "" } else { "s" });
    let (its, mine) = (kind(planned.dtype, planned.shape.len()), kind(variable.dtype, variable.shape.len()));
    if its != mine {
        return Err(Error::usage(format!("the plan is for {its}, the variable is {mine}"))
            .hint("make a plan for files like this one by repacking one of them without --plan"));
    }
    if choice.chunk.len() != planned.shape.len() || choice.chunk.contains(&0) {
        return Err(Error::corrupt(format!("the plan has chunks of {:?} for {its}", choice.chunk))
            .hint("make the plan again by repacking a file without --plan"));
    }
    choice.quality.validate_numbers().and_then(|()| choice.quality.validate(variable.dtype))?;
    let settings = VariableSettings {
        quality: choice.quality,
        kept_lossless: None,
        chain: Some(choice.chain.clone()),
        chunks: ChunkRule::Shape(choice.chunk.clone()),
    };
    Ok(Planned::Encode(settings, choice))
}
