//! What codecs alone do: encodes and decodes all chunks of a file in memory with one chain. `bench/run.py pipeline`
//! compares the program with it.
//!
//! Arguments: file, chain, threads. Prints the median seconds of three rounds and the bytes.

#![expect(clippy::unwrap_used, reason = "a benchmark on known files")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use knarr_array::array::ArraySpec;
use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_flow::engine::Engine;
use knarr_flow::settings::{ChunkRule, chunk_shape};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let chain: ChainSpec = arguments[2].parse().unwrap();
    let threads: usize = arguments[3].parse().unwrap();
    let engine = Engine::new(knarr_native::codecs().unwrap());
    let source = knarr_formats::open(Path::new(&arguments[1]), &engine.codecs).unwrap();
    let mut chunks: Vec<(ArraySpec, Vec<u8>)> = Vec::new();
    for (index, variable) in source.model().variables.iter().enumerate() {
        // What the program copies is left out.
        if variable.raw_bytes() < 2048 || variable.copied_because.is_some() {
            continue;
        }
        let chunk = chunk_shape(&ChunkRule::Auto, variable).unwrap();
        for number in 0..chunk_count(&variable.shape, &chunk) {
            let region = chunk_region(&variable.shape, &chunk, &chunk_position(&variable.shape, &chunk, number));
            let mut bytes = Vec::new();
            source.read_region(index, &region, &mut bytes).unwrap();
            chunks.push((variable.chunk_spec(&region.count), bytes));
        }
    }
    let mut rounds = [(); 3].map(|()| round(&engine, &chain, &chunks, threads));
    rounds.sort_unstable_by(f64::total_cmp);
    let bytes: usize = chunks.iter().map(|(_, bytes)| bytes.len()).sum();
    println!("{}", serde_json::json!({"seconds": rounds[1], "bytes": bytes}));
}

/// Seconds to encode and decode all chunks once.
fn round(engine: &Engine, chain: &ChainSpec, chunks: &[(ArraySpec, Vec<u8>)], threads: usize) -> f64 {
    let (next, begin) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (mut scratch, mut encoded, mut decoded) = (Scratch::default(), Vec::new(), Vec::new());
                while let Some((spec, bytes)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let prepared = Chain::prepare(&engine.codecs, chain, spec).unwrap();
                    prepared.encode(bytes, &mut scratch, &mut encoded).unwrap();
                    prepared.decode(&encoded, &mut scratch, &mut decoded).unwrap();
                    assert_eq!(decoded.len(), bytes.len());
                }
            });
        }
    });
    begin.elapsed().as_secs_f64()
}
