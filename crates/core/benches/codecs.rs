//! Speed of every chain on one thread: `cargo bench -p knarr-core --features testing --bench codecs [-- CHAIN...]`.
//!
//! One line per chain: megabytes (10^6) of raw data per second and ratio, on a smooth field with noise in its
//! low bits. The fastest of the rounds is reported; the first one is checked bit for bit where the chain is
//! lossless.
#![expect(clippy::cast_possible_truncation, reason = "values are rounded to the type that is measured")]

use knarr_core::array::{ArraySpec, DType};
use knarr_core::chain::{Chain, ChainSpec, Scratch};
use knarr_core::codec::{CodecList, Loss};
use knarr_core::testing::data::Random;
use std::time::Instant;

const SHAPE: [usize; 3] = [16, 128, 128];

fn main() {
    let given: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let codecs = CodecList::pure();
    let chains = if given.is_empty() { every_codec(&codecs) } else { given };
    println!("{:40} {:>5} {:>10} {:>10} {:>7}", "chain", "type", "encode", "decode", "ratio");
    for text in &chains {
        for dtype in [DType::F32, DType::F64] {
            match measure(&codecs, text, dtype) {
                Ok((encode, decode, ratio)) => {
                    println!("{text:40} {dtype:>5} {encode:7.0} MB/s {decode:7.0} MB/s {ratio:6.2}");
                }
                Err(error) => println!("{text:40} {dtype:>5} {error}"),
            }
        }
    }
}

/// Each codec alone, with a typical value where it needs one.
fn every_codec(codecs: &CodecList) -> Vec<String> {
    let typical = |name: &str| match name {
        "bitround" => "bitround:9".to_owned(),
        "granular" => "granular:3".to_owned(),
        "quantize" | "quantize-rel" => format!("{name}:0.01"),
        "round" => "round:abs=0.01".to_owned(),
        _ => name.to_owned(),
    };
    codecs.iter().map(|codec| typical(codec.name())).collect()
}

fn measure(codecs: &CodecList, text: &str, dtype: DType) -> knarr_core::Result<(f64, f64, f64)> {
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
