//! Names that a file has for its variables besides those of the model: links, and ways through them.

use super::{glob_matches, is_pattern, nearest};
use knarr_array::error::Error;
use knarr_array::model::{LinkTarget, Model, Variable};

/// Where a name leads that is none of a variable of the model.
enum Leads {
    /// To the variable or group of this path.
    To(String),
    /// Into another file.
    Away(String),
}

/// What to say of a file that has no variable called `text`, with the name that it has instead if it knows one.
pub fn no_variable(model: &Model, text: &str) -> Error {
    let is_variable = |path: &str| model.variables.iter().any(|variable| variable.path == path);
    let short = |path: &str| path.trim_start_matches('/').to_owned();
    let meant =
        if is_pattern(text) { by_pattern(model, text) } else { follow(model, text).map(|to| (text.to_owned(), to)) };
    match meant {
        Some((name, Leads::To(path))) if is_variable(&path) => {
            let path = short(&path);
            return Error::usage(format!("'{name}' is another name of '{path}'")).hint(format!("say it of '{path}'"));
        }
        Some((name, Leads::To(path))) => {
            let below = format!("{}/", path.trim_end_matches('/'));
            let inside = model.variables.iter().filter(|variable| variable.path.starts_with(&below));
            let names = nearest(text, inside.map(Variable::name), 8);
            let hint =
                if names.is_empty() { "it has no variables".to_owned() } else { format!("its variables: {names}") };
            return Error::usage(format!("'{name}' is a group and no variable")).hint(hint);
        }
        Some((name, Leads::Away(file))) => {
            return Error::usage(format!("'{name}' leads into another file, '{file}'"))
                .hint("it is copied as a link: say it of the variable when you repack that file");
        }
        None => {}
    }
    let names = nearest(text, model.variables.iter().map(Variable::name), 8);
    let what = if is_pattern(text) { "no variable matches" } else { "there is no variable" };
    let hint = if names.is_empty() { "the file has no variables".to_owned() } else { format!("the file has: {names}") };
    Error::usage(format!("{what} '{text}'")).hint(hint)
}

/// Follows links from `text`, which is no variable's name.
fn follow(model: &Model, text: &str) -> Option<Leads> {
    // A way through links is short, unless it leads round in a circle.
    const LONGEST: usize = 16;
    let name = Some(text.trim_start_matches('/')).filter(|name| !name.is_empty())?;
    let mut path = format!("/{name}");
    for _ in 0..LONGEST {
        let is_here = model.variables.iter().any(|variable| variable.path == path)
            || model.groups.iter().any(|group| group.path == path);
        if is_here {
            return Some(Leads::To(path));
        }
        let (link, rest) = model.links().find_map(|link| {
            let rest = path.strip_prefix(link.path.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (link, rest.to_owned()))
        })?;
        let to = match &link.target {
            LinkTarget::Hard(to) => to.clone(),
            LinkTarget::Soft(to) if to.starts_with('/') => to.clone(),
            LinkTarget::Soft(to) => format!("{}/{to}", link.path.rsplit_once('/').map_or("", |(parent, _)| parent)),
            LinkTarget::External { file, .. } => return Some(Leads::Away(file.clone())),
            LinkTarget::User { .. } => return None,
        };
        path = format!("{}{rest}", to.trim_end_matches('/'));
    }
    None
}

/// The first link that matches and leads to a variable.
fn by_pattern(model: &Model, pattern: &str) -> Option<(String, Leads)> {
    let matching = model
        .links()
        .filter(|link| glob_matches(pattern, &link.path) || glob_matches(pattern, link.path.trim_start_matches('/')));
    matching.map(|link| link.path.trim_start_matches('/').to_owned()).find_map(|name| {
        let leads = follow(model, &name)?;
        Some((name, leads))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::model::{Group, Link};

    #[test]
    fn other_names_are_followed_to_the_one_that_counts() {
        let link = |path: &str, target| Link { path: path.to_owned(), target };
        let group = |path: &str, links: Vec<Link>| Group { path: path.to_owned(), links, ..Group::default() };
        let soft = |to: &str| LinkTarget::Soft(to.to_owned());
        let model = Model {
            groups: vec![
                group(
                    "/",
                    vec![
                        link("/T2", LinkTarget::Hard("/T".to_owned())),
                        link("/soft", soft("T2")),
                        link("/also", LinkTarget::Hard("/g".to_owned())),
                        link("/far", LinkTarget::External { file: "b.h5".to_owned(), path: "/x".to_owned() }),
                        link("/round", soft("/round")),
                    ],
                ),
                group("/g", vec![link("/g/up", soft("../T"))]),
            ],
            variables: vec![Variable::plain("/T", DType::F32, vec![4]), Variable::plain("/g/U", DType::F32, vec![4])],
        };
        for (name, said) in [
            ("T2", "'T2' is another name of 'T'; hint: say it of 'T'"),
            ("/soft", "'/soft' is another name of 'T'; hint: say it of 'T'"),
            ("also/U", "'also/U' is another name of 'g/U'; hint: say it of 'g/U'"),
            ("also", "'also' is a group and no variable; hint: its variables: g/U"),
            ("T?", "'T2' is another name of 'T'; hint: say it of 'T'"),
            ("far/y", "'far/y' leads into another file, 'b.h5'; hint: it is copied"),
            ("round", "there is no variable 'round'; hint: the file has: "),
            ("Q", "there is no variable 'Q'; hint: the file has: "),
            ("Q*", "no variable matches 'Q*'; hint: the file has: "),
        ] {
            let error = no_variable(&model, name).to_string();
            assert!(error.starts_with(said), "{name}: {error}");
        }
    }
}
