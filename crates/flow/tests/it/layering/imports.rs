//! Which files of a crate import which others: read from `use` declarations and paths that begin with `crate` or `super`.
//! A file that only hands on names of the files below it imports nothing by that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module, as the names on the way to it.
type Module = Vec<String>;

/// For each file of a crate, by the path of its module, those that it imports.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows between the files below `source`.
pub(crate) fn arrows(source: &Path) -> Arrows {
    let mut files = BTreeMap::new();
    read(source, &Vec::new(), &mut files);
    let found = files.iter().map(|(module, text)| {
        let text = code(text);
        let paths = declared(&text).into_iter().chain(inline(&text));
        let to = paths.filter_map(|path| resolve(module, &path, &files)).filter(|to| to != module);
        (module.join("/"), to.map(|to| to.join("/")).collect())
    });
    found.collect()
}

/// Files that import each other in a circle, the first one again at the end.
pub(crate) fn circle(arrows: &Arrows) -> Option<Vec<String>> {
    // What imports nothing that is left is in no circle.
    let mut left = arrows.clone();
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.values_mut().for_each(|to| to.retain(|to| names.contains(to)));
        let count = left.len();
        left.retain(|_, to| !to.is_empty());
        if left.len() == count {
            break;
        }
    }
    let mut way = vec![left.keys().next()?.clone()];
    loop {
        let next = left[way.last()?].first()?.clone();
        if let Some(start) = way.iter().position(|before| *before == next) {
            way.push(next);
            return Some(way.split_off(start));
        }
        way.push(next);
    }
}

fn read(folder: &Path, module: &Module, files: &mut BTreeMap<Module, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut inner = module.clone();
        if path.is_dir() {
            inner.push(name);
            read(&path, &inner, files);
        } else if path.extension().is_some_and(|suffix| suffix == "rs") {
            if !["lib", "main", "mod"].contains(&name.as_str()) {
                inner.push(name);
            }
            files.insert(inner, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// What is compiled into the crate: without comments and unit tests.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn words(path: &str) -> Module {
    path.split("::").map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

/// Paths of `use` declarations, each name of a list apart.
fn declared(text: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    for start in text.match_indices("use ").map(|(at, _)| at + 4) {
        let Some(end) = text[start..].find(';') else { continue };
        spread(&Vec::new(), &text[start..start + end], &mut paths);
    }
    paths
}

fn spread(before: &Module, tree: &str, paths: &mut Vec<Module>) {
    let Some((head, list)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        paths.push(before.iter().cloned().chain(words(path)).collect());
        return;
    };
    let before: Module = before.iter().cloned().chain(words(head)).collect();
    let (mut depth, mut begin) = (0, 0);
    let list = list.trim_end().trim_end_matches('}');
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                spread(&before, &list[begin..at], paths);
                begin = at + 1;
            }
            _ => {}
        }
    }
    spread(&before, &list[begin..], paths);
}

/// Paths in the code itself.
fn inline(text: &str) -> Vec<Module> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let heads = ["crate::", "super::"];
    let starts = heads.iter().flat_map(|head| text.match_indices(head).map(|(at, _)| at));
    let starts = starts.filter(|&at| !text[..at].ends_with(is_word));
    starts.map(|at| words(text[at..].split(|c| !is_word(c)).next().unwrap_or_default())).collect()
}

/// The file that a path in `module` leads into.
fn resolve(module: &Module, path: &Module, files: &BTreeMap<Module, String>) -> Option<Module> {
    let mut at = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.clone(),
        _ => return None,
    };
    for word in path {
        match word.as_str() {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            _ => at.push(word.clone()),
        }
    }
    (0..=at.len()).rev().map(|length| at[..length].to_vec()).find(|module| files.contains_key(module))
}

#[test]
fn circles_are_found_and_trees_are_none() {
    let of = |pairs: &[(&str, &[&str])]| -> Arrows {
        pairs.iter().map(|(from, to)| (from.to_string(), to.iter().map(ToString::to_string).collect())).collect()
    };
    let tree = of(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(circle(&tree), None);
    let round = of(&[("a", &["b"]), ("b", &["c"]), ("c", &["d", "b"]), ("d", &[])]);
    assert_eq!(circle(&round).unwrap(), ["b", "c", "b"]);
}

#[test]
fn imports_are_read_in_every_form() {
    let text = "use crate::a::{self, B, c::{D, E}};\npub use super::f::G as H;\nfn x() { crate::i::j(super::K) } // crate::l\n";
    let text = code(text);
    let found: BTreeSet<String> =
        declared(&text).into_iter().chain(inline(&text)).map(|path| path.join("::")).collect();
    for path in ["crate::a::B", "crate::a::c::E", "super::f::G", "crate::i::j", "super::K"] {
        assert!(found.contains(path), "{path}: {found:?}");
    }
    assert!(!found.contains("crate::l"));
}
