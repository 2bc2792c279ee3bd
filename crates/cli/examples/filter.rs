//! What choosing chunk by chunk costs: encodes every variable's chunks as the HDF5 filter does, then the same chunks with
//! the chains that were chosen and nothing else. `bench/run.py plugin` prints it.
//!
//! Arguments: file, goal. Prints one JSON object a variable of at least two full chunks: processor seconds for the first
//! chunk and for the others, with choosing and without, and bytes.

#![expect(clippy::unwrap_used, reason = "a benchmark on known files")]

use std::collections::HashMap;
use std::path::Path;

use knarr_array::region::{chunk_count, chunk_position, chunk_region};
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::client_data::{Chunks, ClientData, FilterOptions};
use knarr_codec::frame;
use knarr_flow::energy::thread_seconds;
use knarr_flow::engine::Engine;
use knarr_flow::online::Online;
use knarr_flow::settings::{ChunkRule, chunk_shape};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let engine = Engine { jobs: 1, ..Engine::new(knarr_native::codecs_with_plugins(&[]).unwrap()) };
    let source = knarr_formats::open(Path::new(&arguments[1]), &engine.codecs).unwrap();
    for (index, variable) in source.model().variables.iter().enumerate() {
        if variable.copied_because.is_some() || variable.shape.is_empty() || variable.is_empty() {
            continue;
        }
        let chunk = chunk_shape(&ChunkRule::Auto, variable).unwrap();
        let spec = variable.chunk_spec(&chunk);
        let chunks: Vec<Vec<u8>> = (0..chunk_count(&variable.shape, &chunk))
            .map(|number| chunk_region(&variable.shape, &chunk, &chunk_position(&variable.shape, &chunk, number)))
            .filter(|region| region.count == chunk)
            .map(|region| {
                let mut bytes = Vec::new();
                source.read_region(index, &region, &mut bytes).unwrap();
                bytes
            })
            .collect();
        if chunks.len() < 2 {
            continue;
        }
        let options = FilterOptions { goal: arguments[2].parse().unwrap(), ..FilterOptions::default() };
        let mut spec = spec;
        spec.fills.truncate(1);
        let words = ClientData { options, chunks: Some(Chunks::Array(spec.clone())) }.words().unwrap();
        let online = Online::new(engine.clone());
        let (mut whole, mut own) = ([0.0; 2], [0.0; 2]);
        let mut frames = Vec::new();
        for (number, raw) in chunks.iter().enumerate() {
            let mut out = Vec::new();
            let begin = thread_seconds();
            online.encode(&words, raw, &mut out).unwrap();
            whole[number.min(1)] += thread_seconds() - begin;
            frames.push(out);
        }
        let mut chains: HashMap<String, Chain> = HashMap::new();
        let (mut scratch, mut payload) = (Scratch::default(), Vec::new());
        // Kept like the others, so that both meet memory that was not used before.
        let mut again = Vec::new();
        for (number, (raw, encoded)) in chunks.iter().zip(&frames).enumerate() {
            let text = frame::read(encoded).unwrap().chain(&engine.codecs).unwrap();
            let chain =
                chains.entry(text.to_string()).or_insert_with(|| Chain::prepare(&engine.codecs, &text, &spec).unwrap());
            let begin = thread_seconds();
            let mut out = Vec::new();
            chain.encode(raw, &mut scratch, &mut payload).unwrap();
            frame::write(chain, &payload, &mut out).unwrap();
            own[number.min(1)] += thread_seconds() - begin;
            assert_eq!(out.len(), encoded.len());
            again.push(out);
        }
        let mut names: Vec<&String> = chains.keys().collect();
        names.sort();
        println!(
            "{}",
            serde_json::json!({
                "variable": variable.path,
                "chunk": chunk,
                "chunks": chunks.len(),
                "raw": chunks.iter().map(Vec::len).sum::<usize>(),
                "encoded": frames.iter().map(Vec::len).sum::<usize>(),
                "first_s": whole[0],
                "others_s": whole[1],
                "own_first_s": own[0],
                "own_others_s": own[1],
                "chains": names,
            })
        );
    }
}
