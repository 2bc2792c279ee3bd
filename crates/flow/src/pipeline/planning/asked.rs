//! Whether chains that were asked for can be at all. That is known before there is a file.

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::{Error, Result};
use knarr_choose::form::FormatLimits;
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::codec::CodecList;

use crate::pipeline::planning::choice::{is_held, may_lose, named};
use crate::settings::{Rule, Settings};

/// Extents of a chunk that chains are tried for along each axis, and how many axes it has at most.
const EXTENT: usize = 16;
const AXES: usize = 4;

/// Refuses chains that serve no variable of any file of this kind: unknown codecs and options, steps in an order that cannot be,
/// filters that readers are said not to have, and losses that nobody has allowed.
///
/// # Errors
/// `Usage`, `Unsupported` or `Quality`, with the name that the chain is for.
pub fn check_chains(codecs: &CodecList, settings: &Settings, target: FormatLimits) -> Result<()> {
    let named = named(settings.portable, target);
    let is_lossy = |rule: &Rule| rule.quality.is_some_and(|quality| !quality.is_lossless());
    let is_bounded = !settings.quality.is_lossless() || settings.rules.iter().any(is_lossy);
    let check = |chain: &ChainSpec| serves_any(codecs, &target.chain_asked_for(chain), named, is_bounded);
    if let Some(chain) = &settings.chain {
        check(chain)?;
    }
    for rule in &settings.rules {
        if let Some(chain) = &rule.chain {
            check(chain).map_err(|error| error.at_variable(&rule.pattern))?;
        }
    }
    Ok(())
}

/// Refuses a chain that serves no type of numbers.
fn serves_any(codecs: &CodecList, chain: &ChainSpec, named: FormatLimits, is_bounded: bool) -> Result<()> {
    let mut refused = None;
    for dtype in DType::NUMBERS {
        for axes in 1..=AXES {
            let prepared = Chain::prepare(codecs, chain, &ArraySpec::new(dtype, vec![EXTENT; axes]));
            let served = prepared.and_then(|chain| may_lose(&chain, is_bounded).and_then(|()| is_held(&chain, named)));
            match served {
                Ok(()) => return Ok(()),
                Err(error) => refused = Some(error),
            }
        }
    }
    Err(refused.unwrap_or_else(|| Error::internal("no element types")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_codec::codec::ReaderLevel;

    #[test]
    fn chains_that_serve_nothing_are_refused() {
        let codecs = CodecList::pure();
        let check = |chain: &str, bound: Option<&str>, portable| {
            let quality = bound.map(|bound| bound.parse().unwrap());
            let rule = Rule { pattern: "T".to_owned(), chain: Some(chain.parse().unwrap()), quality, chunks: None };
            let settings = Settings { rules: vec![rule], portable, ..Settings::default() };
            check_chains(&codecs, &settings, FormatLimits::hdf5(portable.unwrap_or(ReaderLevel::Core)))
        };
        let said = |chain, bound, portable| check(chain, bound, portable).unwrap_err().to_string();
        for chain in ["raw", "shuffle", "fletcher32"] {
            assert!(check(chain, None, None).is_ok(), "{chain}");
        }
        assert!(said("shufle", None, None).contains("variable 'T'"));
        assert!(said("deflate:99", None, None).contains("deflate"));
        assert!(said("round:abs=1 | shuffle", None, None).contains("changes values"));
        assert!(said("lorenzo | shuffle", None, None).contains("pipeline"));
        assert!(check("lorenzo | shuffle", None, Some(ReaderLevel::Knarr)).is_ok());
    }
}
