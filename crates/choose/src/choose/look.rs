//! What prediction needs to know of samples.

use super::candidates::rounding;
use crate::features::Features;
use crate::predictor::Subject;
use knarr_array::array::ArraySpec;
use knarr_array::error::Result;
use knarr_array::quality::Bound;
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::codec::CodecList;

/// Features of `samples`, together; with a bound also of what rounding leaves of them, if their type can be rounded.
pub(super) fn look(codecs: &CodecList, samples: &[(ArraySpec, Vec<u8>)], bound: Option<&Bound>) -> Subject {
    let features = together(samples.iter().map(|(spec, bytes)| Features::of(spec, bytes))).unwrap_or_default();
    let rounded = bound.and_then(|bound| {
        let looks = samples.iter().map(|(spec, bytes)| Ok(Features::of(spec, &round(codecs, spec, bytes, bound)?)));
        together(looks.collect::<Result<Vec<_>>>().ok()?.into_iter())
    });
    Subject { features, rounded }
}

fn together(looks: impl Iterator<Item = Features>) -> Option<Features> {
    looks.reduce(|a, b| a.merge(&b))
}

/// The values of a sample as the rounding step of the candidates leaves them.
fn round(codecs: &CodecList, spec: &ArraySpec, bytes: &[u8], bound: &Bound) -> Result<Vec<u8>> {
    let mut rounded = Vec::new();
    Chain::prepare(codecs, &rounding(bound).parse()?, spec)?.encode(bytes, &mut Scratch::default(), &mut rounded)?;
    Ok(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::quality::Exact;

    #[test]
    fn rounding_shows_in_the_features_of_what_can_be_rounded() {
        let bytes: Vec<u8> = (0..9000u16).flat_map(|i| f32::from(i).sqrt().to_le_bytes()).collect();
        let bound =
            Bound { abs: 0.1, rel: f64::INFINITY, bits: None, digits: None, finest: 0.0, exact: Exact::default() };
        let samples = [(ArraySpec::new(DType::F32, [9000]), bytes.clone())];
        let subject = look(&CodecList::pure(), &samples, Some(&bound));
        assert!(subject.rounded.unwrap().trailing_zeros > subject.features.trailing_zeros);
        assert_eq!(look(&CodecList::pure(), &samples, None).rounded, None);
        let opaque = [(ArraySpec::new(DType::Opaque(4), [9000]), bytes)];
        assert_eq!(look(&CodecList::pure(), &opaque, Some(&bound)).rounded, None);
        assert_eq!(look(&CodecList::pure(), &[], None), Subject::default());
    }
}
