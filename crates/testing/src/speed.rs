//! Speed of chains on one thread, for the `codecs` benchmarks of each crate.
//!
//! Megabytes (10^6) of raw data per second and ratio, on a smooth field with noise in its low bits, in chunks of
//! 1 MiB (binary32) and 2 MiB (binary64). The fastest of the rounds is reported; the first one is checked bit for bit
//! where the chain is lossless.

use std::time::Instant;

use crate::data::Random;
use knarr_array::array::{ArraySpec, DType};
use knarr_codec::chain::{Chain, ChainSpec, Scratch, StepSpec};
use knarr_codec::codec::{CodecList, Loss};

const SHAPE: [usize; 3] = [16, 128, 128];

/// Measures the chains that the command line names, or each codec of the list alone, and hands `print` one line each.
pub fn run(codecs: &CodecList, print: impl Fn(String)) {
    let given: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let chains = if given.is_empty() { every_codec(codecs) } else { given };
    print(format!("{:40} {:>5} {:>12} {:>12} {:>6}", "chain", "type", "encode", "decode", "ratio"));
    for text in &chains {
        for dtype in [DType::F32, DType::F64] {
            print(match measure(codecs, text, dtype) {
                Ok((encode, decode, ratio)) => {
                    format!("{text:40} {dtype:>5} {encode:7.0} MB/s {decode:7.0} MB/s {ratio:6.2}")
                }
                Err(error) => format!("{text:40} {dtype:>5} {error}"),
            });
        }
    }
}

/// Each codec alone; the first of its examples where it needs options.
fn every_codec(codecs: &CodecList) -> Vec<String> {
    let alone = |name: &str| ChainSpec(vec![StepSpec::new(name)]).complete(codecs).is_ok();
    let chains = codecs.iter().map(|codec| match codec.examples().first() {
        Some(example) if !alone(codec.name()) => (*example).to_owned(),
        _ => codec.name().to_owned(),
    });
    chains.collect()
}

#[expect(clippy::cast_precision_loss, reason = "sizes of a benchmark are small")]
fn measure(codecs: &CodecList, text: &str, dtype: DType) -> knarr_array::Result<(f64, f64, f64)> {
    let spec: ChainSpec = text.parse()?;
    let array = ArraySpec::new(dtype, SHAPE);
    let chain = Chain::prepare(codecs, &spec, &array)?;
    let bytes = field(&array);
    let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
    let (mut encode, mut decode) = (f64::INFINITY, f64::INFINITY);
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 3 || begin.elapsed().as_secs_f64() < 0.5 {
        let start = Instant::now();
        chain.encode(&bytes, &mut scratch, &mut encoded)?;
        encode = encode.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        chain.decode(&encoded, &mut scratch, &mut decoded)?;
        decode = decode.min(start.elapsed().as_secs_f64());
        rounds += 1;
        if rounds == 1 && chain.loss() == Loss::Lossless {
            assert_eq!(decoded, bytes, "{text} changed bits");
        }
    }
    let len = bytes.len() as f64;
    Ok((len / encode / 1e6, len / decode / 1e6, len / encoded.len().max(1) as f64))
}

/// A smooth field with noise of one part in 10^5, as simulations write.
#[expect(clippy::cast_precision_loss, reason = "indices of a benchmark are small")]
#[expect(clippy::cast_possible_truncation, reason = "values are rounded to the type that is measured")]
fn field(array: &ArraySpec) -> Vec<u8> {
    let mut random = Random::new(5);
    let [_, ny, nx] = SHAPE;
    let mut bytes = Vec::with_capacity(array.byte_len());
    for index in 0..array.len() {
        let (z, y, x) = ((index / nx / ny) as f64, (index / nx % ny) as f64, (index % nx) as f64);
        let smooth = 280.0 + 15.0 * (0.04 * x + 0.3 * z).sin() + 10.0 * (0.06 * y).cos();
        let value = smooth * (1.0 + 1e-5 * random.unit());
        match array.dtype {
            DType::F32 => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
            _ => bytes.extend_from_slice(&value.to_le_bytes()),
        }
    }
    bytes
}
