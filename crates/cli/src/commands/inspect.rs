//! `knarr inspect`: what a file holds and what a reader needs.

use std::path::Path;

use knarr_array::error::Result;
use knarr_array::model::{ElementType, StorageLayout, Variable};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::{CodecList, registered};
use knarr_flow::store::Source;

use crate::arguments::args::Inspect;
use crate::arguments::inputs::{Opener, refuse_raw};
use crate::batch::{code_of, each_alone, there};
use crate::table::{self, Align};

pub(crate) fn run(arguments: &Inspect) -> Result<u8> {
    let codecs = knarr_native::codecs()?;
    let opener = Opener::with_codecs(codecs.clone(), &arguments.inputs)?;
    let (paths, mut missing) = there(crate::arguments::inputs::find(&arguments.files)?)?;
    refuse_raw(&arguments.inputs, &paths)?;
    let (all, failed) = each_alone(&paths, |path| {
        missing.remove(path).map_or(Ok(()), Err)?;
        let source = opener.open(path)?;
        if !arguments.json {
            return print(path, source.as_ref(), &codecs).map(|()| serde_json::Value::Null);
        }
        Ok(serde_json::json!({
            "path": path,
            "format": source.format(),
            "model": source.model(),
            "types": types(source.as_ref()),
            "frames": frames(source.as_ref(), &codecs)?,
            "reader": needs(source.format(), &source.model().variables),
        }))
    });
    if arguments.json {
        println!("{}", serde_json::json!({ "files": all, "failed": failed }));
    }
    Ok(code_of(&failed, paths.len()))
}

fn print(path: &Path, source: &dyn Source, codecs: &CodecList) -> Result<()> {
    let model = source.model();
    let size = knarr_routes::compress::read_bytes(source);
    let raw: u64 = model.variables.iter().map(Variable::raw_bytes).sum();
    println!("{}: {}, {}, values {}", path.display(), source.format(), table::bytes(size), table::bytes(raw));
    let variables = model.variables.iter().enumerate();
    let rows = variables.map(|(at, variable)| {
        let chain = [variable.chain.clone(), in_frames(&source.frame_chains(at, codecs, LOOKED_AT)?)].concat();
        Ok(row(variable, source.element_type(at), chain))
    });
    let rows: Vec<Vec<String>> = rows.collect::<Result<_>>()?;
    let header = [
        ("variable", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("chunks", Align::Left),
        ("values", Align::Right),
        ("ratio", Align::Right),
        ("chain", Align::Left),
    ];
    crate::printing::terminal::print_table(&header, &rows);
    println!("A reader needs: {}\n", needs(source.format(), &model.variables));
    Ok(())
}

/// Chunks of a variable whose heads are read.
const LOOKED_AT: usize = 64;

/// Chains in the frames of a variable, in words: ` = grid`, ` = grid (12), shuffle | zstd:3 (4)`.
fn in_frames(chains: &[(ChainSpec, usize)]) -> String {
    match chains {
        [] => String::new(),
        [(chain, _)] => format!(" = {chain}"),
        _ => {
            let parts: Vec<String> = chains.iter().map(|(chain, count)| format!("{chain} ({count})")).collect();
            format!(" = {}", parts.join(", "))
        }
    }
}

/// Chains in the frames of variables that have some, with the number of chunks among those looked at.
fn frames(source: &dyn Source, codecs: &CodecList) -> Result<serde_json::Map<String, serde_json::Value>> {
    let mut frames = serde_json::Map::new();
    for (at, variable) in source.model().variables.iter().enumerate() {
        let chains = source.frame_chains(at, codecs, LOOKED_AT)?;
        if !chains.is_empty() {
            let named = |(chain, count): &(ChainSpec, usize)| (chain.to_string(), (*count).into());
            frames.insert(variable.path.clone(), serde_json::Value::Object(chains.iter().map(named).collect()));
        }
    }
    Ok(frames)
}

/// Types that are more than a number, by variable.
fn types(source: &dyn Source) -> serde_json::Map<String, serde_json::Value> {
    let variables = source.model().variables.iter().enumerate();
    variables
        .filter_map(|(at, variable)| Some((variable.path.clone(), source.element_type(at)?.to_string().into())))
        .collect()
}

/// Members of enumerations and compounds would make the table wide: they are in the JSON.
fn row(variable: &Variable, element: Option<&ElementType>, chain: String) -> Vec<String> {
    let chunks = match &variable.layout {
        StorageLayout::Chunked(chunk) => table::shape(chunk),
        StorageLayout::Contiguous => "contiguous".to_owned(),
        StorageLayout::Compact => "compact".to_owned(),
        StorageLayout::Null => "null".to_owned(),
        StorageLayout::Elsewhere => "elsewhere".to_owned(),
    };
    vec![
        variable.name().to_owned(),
        element.map_or_else(|| variable.dtype.to_string(), ElementType::short),
        table::shape(&variable.shape),
        chunks,
        table::bytes(variable.raw_bytes()),
        variable.stored_bytes.map_or("-".to_owned(), |stored| table::ratio(variable.raw_bytes(), stored)),
        chain,
    ]
}

/// In words, what opens all of these variables of a file of this format.
fn needs(format: &str, variables: &[Variable]) -> String {
    if format.starts_with("Zarr") {
        return crate::report::zarr_reader(format, variables.iter().map(|variable| variable.chain.as_str()));
    }
    let mut names: Vec<String> = Vec::new();
    for filter in variables.iter().flat_map(|variable| &variable.filters) {
        if matches!(filter.id, 1..=6) {
            continue;
        }
        let name = match registered(filter.id) {
            Some(known) => format!("{} (filter {}, {})", known.name, filter.id, known.provider.package()),
            None => format!("filter {} (unknown)", filter.id),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { "any build of its library".to_owned() } else { names.join(", ") }
}
