//! Every chain that choices consider is one that the codecs know: a misspelt option would drop it silently.

use knarr_array::quality::Quality;

#[test]
fn every_candidate_is_understood() {
    let codecs = knarr_native::codecs().unwrap();
    let bound = Quality { max_abs_error: Some(0.1), ..Quality::LOSSLESS }.bound(None);
    let chains = knarr_choose::choose::all_chains(bound.as_ref());
    assert!(chains.len() > 50, "only {} chains parse", chains.len());
    for chain in chains {
        // SZ3 comes with a plugin that need not be installed.
        if chain.0.iter().any(|step| step.name == "sz3") {
            continue;
        }
        chain.complete(&codecs).unwrap_or_else(|error| panic!("{chain}: {error}"));
    }
}
