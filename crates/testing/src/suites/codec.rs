//! The conformance suite of codecs: what every implementation must do, whatever it wraps.

use crate::data::{Pattern, Random, Sample, sample, samples};
use knarr_array::array::DType;
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::{Codec, CodecList, Kind, Loss, OptionKind, OptionValue, Options};

/// Runs every check on the codec called `name`, with each of `chains` (text form) that contain it.
pub fn check(codecs: &CodecList, name: &str, chains: &[&str]) {
    check_undamaged(codecs, name, chains);
    for text in chains {
        survives_damage(codecs, text);
    }
}

/// As [`check`], without damaged chunks: for codecs that hand chunks to an installed plugin, which is not Knarr's to
/// hint.
pub fn check_undamaged(codecs: &CodecList, name: &str, chains: &[&str]) {
    let codec = codecs.named(name).expect("the codec is in the list");
    describes_itself(codec.as_ref());
    assert!(!chains.is_empty(), "{name}: no chain to test: give it examples");
    for text in chains {
        assert!(text.contains(name), "chain '{text}' does not exercise {name}");
        round_trips(codecs, codec.as_ref(), text);
    }
    refuses_other_types(codecs, codec.as_ref());
}

/// Names, numbers and documentation are there and sensible.
fn describes_itself(codec: &dyn Codec) {
    let name = codec.name();
    assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "name {name:?}");
    assert!(codec.wire_id() > 0, "{name}: wire id 0 is reserved");
    assert!(codec.summary().len() > 20, "{name}: the summary says too little");
    for option in codec.options() {
        assert!(option.doc.len() > 5, "{name}: option {} is not documented", option.name);
        if let OptionKind::Int { min, max, default: Some(default) } = option.kind {
            assert!((min..=max).contains(&default), "{name}: default of {} is out of range", option.name);
        }
    }
    let unknown = Options::default().with("no-such-option", OptionValue::Int(1));
    assert!(unknown.complete(name, codec.options()).is_err(), "{name}: unknown options must be refused");
}

/// Lossless chains return the bits; lossy ones keep special values' class and length. Both are deterministic,
/// keep their size bound, and decode what another instance encoded.
fn round_trips(codecs: &CodecList, codec: &dyn Codec, text: &str) {
    let spec: ChainSpec = text.parse().expect("the chain parses");
    let mut tried = 0;
    for Sample { name: what, spec: array, bytes } in samples() {
        if !codec.supports(array.dtype) {
            continue;
        }
        let Ok(chain) = Chain::prepare(codecs, &spec, &array) else {
            continue;
        };
        tried += 1;
        let again = Chain::prepare(codecs, &spec, &array).expect("preparing twice works");
        let (mut scratch, mut encoded, mut second, mut decoded) =
            (Scratch::default(), Vec::new(), Vec::new(), Vec::new());
        match chain.encode(&bytes, &mut scratch, &mut encoded) {
            Ok(()) => {}
            // Values outside what a lossy codec can represent are the pipeline's fall-back case.
            Err(_) if chain.loss() == Loss::Lossy => continue,
            Err(error) => panic!("{text} on {what}: {error}"),
        }
        again.encode(&bytes, &mut Scratch::default(), &mut second).expect("encoding twice works");
        assert_eq!(encoded, second, "{text} on {what}: not deterministic");
        assert!(
            encoded.len() <= chain.max_encoded_len(),
            "{text} on {what}: {} bytes exceed the bound {}",
            encoded.len(),
            chain.max_encoded_len()
        );
        again
            .decode(&encoded, &mut Scratch::default(), &mut decoded)
            .unwrap_or_else(|error| panic!("{text} on {what}: {error}"));
        if chain.loss() == Loss::Lossless {
            assert!(decoded == bytes, "{text} on {what}: bits changed");
        } else {
            assert_eq!(decoded.len(), bytes.len(), "{text} on {what}: length changed");
        }
    }
    assert!(tried > 20, "{text}: only {tried} samples were served");
}

/// Truncated, extended and flipped streams give errors or other values of the right length; never a panic,
/// never more than the chunk's bytes.
fn survives_damage(codecs: &CodecList, text: &str) {
    let spec: ChainSpec = text.parse().expect("the chain parses");
    for dtype in [DType::F32, DType::I16, DType::F64] {
        for pattern in [Pattern::Smooth, Pattern::Masked, Pattern::Noise] {
            let Sample { spec: array, bytes, .. } = sample(dtype, &[4, 9, 11], pattern, 7);
            let Ok(chain) = Chain::prepare(codecs, &spec, &array) else {
                continue;
            };
            let (mut scratch, mut encoded, mut out) = (Scratch::default(), Vec::new(), Vec::new());
            if chain.encode(&bytes, &mut scratch, &mut encoded).is_err() {
                continue;
            }
            let mut try_decode = |damaged: &[u8]| {
                if chain.decode(damaged, &mut scratch, &mut out).is_ok() {
                    assert_eq!(out.len(), bytes.len(), "{text}: wrong length accepted");
                }
            };
            let step = (encoded.len() / 200).max(1);
            for cut in (0..encoded.len()).step_by(step) {
                try_decode(&encoded[..cut]);
            }
            let mut random = Random::new(99);
            for _ in 0..200 {
                let mut damaged = encoded.clone();
                if damaged.is_empty() {
                    break;
                }
                let position = random.below(damaged.len());
                damaged[position] ^= 1 << random.below(8);
                try_decode(&damaged);
            }
            let mut longer = encoded.clone();
            longer.extend_from_slice(&[0xA5; 40]);
            try_decode(&longer);
            try_decode(&[0xFF; 64]);
            try_decode(&[0; 64]);
        }
    }
}

/// A type that is not supported is refused when the chain is prepared, with advice.
fn refuses_other_types(codecs: &CodecList, codec: &dyn Codec) {
    for dtype in crate::data::DTYPES {
        if codec.supports(dtype) {
            continue;
        }
        let array = knarr_array::array::ArraySpec::new(dtype, [8]);
        let spec = ChainSpec(vec![knarr_codec::chain::StepSpec::new(codec.name())]);
        let required = codec
            .options()
            .iter()
            .any(|option| matches!(option.kind, OptionKind::Float | OptionKind::Int { default: None, .. }));
        if !required {
            let error = Chain::prepare(codecs, &spec, &array).err().expect("an unsupported type is refused");
            assert!(error.advice().is_some(), "{}: {error}", codec.name());
        }
    }
    assert!(codec.kind() != Kind::Compressor || codec.supports(DType::Opaque(3)) || codec.needs_values());
}
