//! Tables on a terminal: no wider than it is. Elsewhere they are whole.

use std::io::IsTerminal;

use knarr_choose::plan::{Action, Plan};

use crate::table::{self, Align};

/// Prints a table as wide as standard output is.
pub(crate) fn print_table(header: &[(&str, Align)], rows: &[Vec<String>]) {
    print!(
        "{}",
        width().map_or_else(|| table::render(header, rows), |width| table::render_within(header, rows, width))
    );
}

/// Columns of the terminal that standard output is, if it is one.
fn width() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok())??;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// `13 variables as they are: crs (it is a single value); 12 of them (under 2 KiB)`, in the order of the reasons; nothing for none.
pub(crate) fn folded<'a>(copied: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    const NAMED: usize = 3;
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in copied {
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    let total: usize = groups.iter().map(|(_, names)| names.len()).sum();
    let each = groups.iter().map(|(reason, names)| {
        let which = if names.len() > NAMED { format!("{} of them", names.len()) } else { names.join(", ") };
        format!("{which} ({reason})")
    });
    if let [(reason, names)] = groups.as_slice()
        && names.len() > NAMED
    {
        return Some(format!("{total} variables as they are ({reason})"));
    }
    let variables = if total == 1 { "1 variable as it is" } else { &format!("{total} variables as they are") };
    (total > 0).then(|| format!("{variables}: {}", each.collect::<Vec<_>>().join("; ")))
}

/// Tells what users must hear.
pub(crate) fn print_notes(notes: impl IntoIterator<Item = String>) {
    for note in notes {
        errln!("knarr: {note}");
    }
}

/// The variables that are copied, and why.
pub(crate) fn copied(plan: &Plan) -> impl Iterator<Item = (&str, &str)> {
    plan.variables.iter().filter_map(|variable| match &variable.action {
        Action::Copy(why) => Some((variable.path.trim_start_matches('/'), why.as_str())),
        Action::Encode(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn what_is_copied_takes_one_line() {
        assert_eq!(folded(std::iter::empty()), None);
        assert_eq!(folded([("crs", "scalar")].into_iter()).unwrap(), "1 variable as it is: crs (scalar)");
        let names = ["a", "b", "c", "d", "e"];
        let many = names.map(|name| (name, if name == "c" { "scalar" } else { "under 2 KiB" }));
        let many = folded(many.into_iter()).unwrap();
        assert_eq!(many, "5 variables as they are: 4 of them (under 2 KiB); c (scalar)");
        let alike = folded(names.into_iter().map(|name| (name, "under 2 KiB"))).unwrap();
        assert_eq!(alike, "5 variables as they are (under 2 KiB)");
    }
}
