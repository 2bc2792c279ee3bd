//! `knarr inspect`: what a file holds and what a reader needs.

use knarr_core::codec::registered;
use knarr_core::error::Result;
use knarr_core::model::{ElementType, Layout, Variable};

use crate::args::Inspect;
use crate::inputs::Opener;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &Inspect) -> Result<u8> {
    let opener = Opener::with_codecs(knarr_native::codecs()?, &arguments.inputs)?;
    let mut all = Vec::new();
    for path in crate::inputs::expand(&arguments.files)? {
        let source = opener.open(&path)?;
        if arguments.json {
            all.push(serde_json::json!({
                "path": path,
                "format": source.format(),
                "model": source.model(),
                "types": types(source.as_ref()),
                "reader": needs(source.format(), &source.model().variables),
            }));
            continue;
        }
        print(&path, source.as_ref());
    }
    if arguments.json {
        println!("{}", serde_json::json!({ "files": all }));
    }
    Ok(0)
}

fn print(path: &std::path::Path, source: &dyn knarr_core::store::Source) {
    let model = source.model();
    let size = knarr_formats::repack::size_of(path);
    let raw: u64 = model.variables.iter().map(Variable::raw_bytes).sum();
    println!("{}: {}, {}, values {}", path.display(), source.format(), table::bytes(size), table::bytes(raw));
    let rows: Vec<Vec<String>> =
        model.variables.iter().enumerate().map(|(at, variable)| row(variable, source.element_type(at))).collect();
    let header = [
        ("variable", Align::Left),
        ("type", Align::Left),
        ("shape", Align::Left),
        ("chunks", Align::Left),
        ("values", Align::Right),
        ("ratio", Align::Right),
        ("chain", Align::Left),
    ];
    print!("{}", table::render(&header, &rows));
    println!("A reader needs: {}\n", needs(source.format(), &model.variables));
}

/// Types that are more than a number, by variable.
fn types(source: &dyn knarr_core::store::Source) -> serde_json::Map<String, serde_json::Value> {
    let variables = source.model().variables.iter().enumerate();
    variables
        .filter_map(|(at, variable)| Some((variable.path.clone(), source.element_type(at)?.to_string().into())))
        .collect()
}

/// Members of enumerations and compounds would make the table wide: they are in the JSON.
fn row(variable: &Variable, element: Option<&ElementType>) -> Vec<String> {
    let chunks = match &variable.layout {
        Layout::Chunked(chunk) => table::shape(chunk),
        Layout::Contiguous => "contiguous".to_owned(),
        Layout::Compact => "compact".to_owned(),
        Layout::Null => "null".to_owned(),
        Layout::Elsewhere => "elsewhere".to_owned(),
    };
    vec![
        variable.name().to_owned(),
        element.map_or_else(|| variable.dtype.to_string(), ElementType::short),
        table::shape(&variable.shape),
        chunks,
        table::bytes(variable.raw_bytes()),
        variable.stored_bytes.map_or("-".to_owned(), |stored| table::ratio(variable.raw_bytes(), stored)),
        variable.chain.clone(),
    ]
}

/// In words, what opens all of these variables of a file of this format.
fn needs(format: &str, variables: &[Variable]) -> String {
    if format.starts_with("Zarr") {
        return crate::report::zarr_reader(format, variables);
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
