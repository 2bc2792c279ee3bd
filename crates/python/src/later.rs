//! Variables whose values others write later: what is to be known of them without a look at their values.

use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, Result};
use knarr_array::model::{Model, Variable};
use knarr_choose::choose::with_bound;
use knarr_codec::chain::ChainSpec;
use knarr_flow::settings::{Rule, Settings};

use crate::computed::Computed;

/// The chain where none is asked for: every library of Zarr v3 has it, and it does well with most numbers.
const CHAIN: &str = "blosc:zstd,level=5,shuffle=byte";

/// Gives the variables of `header` that are written later a chain each, and their chunks objects of their own: workers write
/// them one by one.
///
/// # Errors
/// `Usage` for bounds that only the values can tell.
pub(crate) fn settle(settings: &mut Settings, computed: &[Computed], header: &Model) -> Result<()> {
    let is_later = |variable: &&Variable| computed.iter().any(|one| one.is_later() && one.path() == variable.path);
    let (coordinates, chain) = (Coordinates::of(header), CHAIN.parse::<ChainSpec>()?);
    let rounding = format!("round | {CHAIN}").parse()?;
    for variable in header.variables.iter().filter(is_later) {
        settings.chunks_apart = true;
        let place = |error: Error| error.at_variable(variable.name());
        let planned = settings.plan.as_ref().is_some_and(|plan| plan.by_path().contains_key(variable.path.as_str()));
        let wanted = settings.of(&coordinates, variable).map_err(place)?;
        if wanted.quality.needs_range() && !planned {
            return Err(place(
                Error::usage("a fraction of its range is asked for, which nobody knows before all values are computed")
                    .hint("give max_abs_error"),
            ));
        }
        if wanted.chain.is_none() && !planned {
            let chain = Some(match wanted.quality.bound(None) {
                None => chain.clone(),
                Some(bound) => with_bound(&rounding, &bound),
            });
            settings.rules.push(Rule { pattern: variable.path.clone(), chain, ..Rule::default() });
        }
    }
    Ok(())
}
