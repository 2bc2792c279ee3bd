//! The configuration file of DTF, the Data Transfer Framework, as rules of Knarr. `docs/transfer.md` says what its keys become.
//!
//! DTF's rules name two components and no direction: here the one that creates a file writes it. Such a rule becomes two, one
//! for each direction.

use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};

use super::restart::NamePattern;
use super::routes::{CompressRule, Output, OwnKeys, Publish, Route, TransferRule};
use super::rule::FileRule;

/// Keys of `[INFO]` and `[FILE]` that say how DTF works inside. Knarr has no need of them.
const NOT_NEEDED: [&str; 7] =
    ["buffer_data", "iodb_build_mode", "iodb_range", "do_checksum", "log_ioreqs", "num_sessions", "mirror_io_root"];

/// A rule as it is read.
#[derive(Default)]
struct Section {
    line: usize,
    names: Vec<NamePattern>,
    exclude: Vec<NamePattern>,
    components: [Option<String>; 2],
    keep: Option<bool>,
    replay: Option<bool>,
    write_only: Option<bool>,
}

/// The rules that the text of such a file stands for.
///
/// # Errors
/// `Config` with the line.
pub(super) fn parse(text: &str) -> Result<Vec<FileRule>> {
    let (mut names, mut sections) = (Vec::new(), Vec::<Section>::new());
    let mut count = None;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong =
            |what: &str, hint: &str| Err(Error::new(ErrorKind::Config, what).hint(hint).at(format!("line {number}")));
        let line = line.trim_end();
        if line.is_empty() || line.starts_with(['#', ';', '!']) {
            continue;
        }
        let line = line.trim_start();
        match line.to_ascii_lowercase().as_str() {
            "[info]" => continue,
            "[file]" => {
                sections.push(Section { line: number, ..Section::default() });
                continue;
            }
            _ => {}
        }
        let Some((key, value)) = line.split_once('=') else {
            return wrong(&format!("'{line}' is neither a section nor a key with a value"), "write key=value");
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), unquoted(value.trim()));
        let Some(section) = sections.last_mut() else {
            match key.as_str() {
                "ncomp" => count = Some(value.to_owned()),
                "comp_name" => names.push(value.to_owned()),
                known if NOT_NEEDED.contains(&known) => {}
                _ => {
                    return wrong(
                        &format!("unknown key '{key}' in [INFO]"),
                        "the keys are described in docs/transfer.md",
                    );
                }
            }
            continue;
        };
        match (key.as_str(), value.to_ascii_lowercase().as_str()) {
            ("filename", _) => section.names.push(pattern(value).map_err(|error| error.at(format!("line {number}")))?),
            ("exclude_name", _) => {
                section.exclude.push(pattern(value).map_err(|error| error.at(format!("line {number}")))?)
            }
            ("comp1" | "comp2", name) => {
                let known = names.iter().find(|known| known.to_ascii_lowercase() == name);
                let Some(known) = known else {
                    let hint = format!("the components are {}: correct it, or add comp_name={value}", names.join(", "));
                    return wrong(&format!("no component '{value}' in [INFO]"), &hint);
                };
                section.components[usize::from(key == "comp2")] = Some(known.clone());
            }
            ("mode", "transfer") => section.keep = Some(false),
            ("mode", "file") => section.keep = Some(true),
            ("mode", _) => return wrong(&format!("unknown mode '{value}'"), "write mode=transfer or mode=file"),
            ("write_only", write_only @ ("0" | "1")) => section.write_only = Some(write_only == "1"),
            ("write_only", _) => return wrong(&format!("'{value}' for write_only"), "write 0 or 1"),
            ("replay_io", replay @ ("0" | "1")) => section.replay = Some(replay == "1"),
            ("replay_io", _) => return wrong(&format!("'{value}' for replay_io"), "write 0 or 1"),
            (known, _) if NOT_NEEDED.contains(&known) => {}
            _ => return wrong(&format!("unknown key '{key}' in [FILE]"), "the keys are described in docs/transfer.md"),
        }
    }
    if count.as_deref().and_then(|count| count.parse().ok()) != Some(names.len()) {
        let what =
            format!("ncomp says {}, and there are {} lines with comp_name", count.unwrap_or_default(), names.len());
        return Err(
            Error::new(ErrorKind::Config, what).hint("write ncomp=2 and a line comp_name=NAME for each component")
        );
    }
    let mut file = Vec::new();
    for section in sections {
        let line = section.line;
        file.extend(section.rules().map_err(|error| error.at(format!("[FILE] in line {line}")))?);
    }
    Ok(file)
}

impl Section {
    /// The rules that it stands for: for each name one in either direction.
    fn rules(self) -> Result<Vec<FileRule>> {
        let [Some(first), Some(second)] = self.components else {
            return Err(
                Error::new(ErrorKind::Config, "a file has two components").hint("write comp1=NAME and comp2=NAME")
            );
        };
        let Some(keep) = self.keep else {
            return Err(Error::new(ErrorKind::Config, "no mode").hint("write mode=transfer or mode=file"));
        };
        if self.names.is_empty() {
            return Err(Error::new(ErrorKind::Config, "no file name").hint("write filename=NAME"));
        }
        let mut rules = Vec::new();
        for pattern in self.names {
            for (from, to) in [(&first, &second), (&second, &first)] {
                let transfer = TransferRule {
                    from: Some(from.clone()),
                    to: Some(vec![to.clone()]),
                    keep: Some(keep),
                    publish: Some(Publish::Transfer),
                    replay: self.replay,
                    write_only: self.write_only,
                    exclude: Some(self.exclude.clone()).filter(|exclude| !exclude.is_empty()),
                    ..TransferRule::default()
                };
                // Both write it with PnetCDF.
                let output = (self.write_only == Some(true)).then_some(Output::Classic);
                let rule = FileRule {
                    pattern: pattern.clone(),
                    route: Route::Transfer,
                    compress: CompressRule { output, ..CompressRule::default() },
                    own: OwnKeys::Transfer(transfer),
                    directory: PathBuf::new(),
                    place: None,
                };
                rule.check(&[])?;
                rules.push(rule);
            }
        }
        Ok(rules)
    }
}

/// The pattern for a name of DTF's: a part of the path, in which `%` stands for anything.
fn pattern(name: &str) -> Result<NamePattern> {
    let name = name.trim_start_matches("./");
    if name.is_empty() || name.contains(['*', '?', '{', '}']) {
        return Err(Error::new(ErrorKind::Config, format!("'{name}' is no name of a file"))
            .hint("write a part of the path; % stands for anything"));
    }
    format!("*{}*", name.replace('%', "*")).parse()
}

fn unquoted(value: &str) -> &str {
    let inner = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    inner.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const INI: &str = "# coupled\n[INFO]\nncomp=2\ncomp_name=\"scale\"\ncomp_name = LETKF\nbuffer_data=1\n\n\
                       [FILE]\nfilename=\"Hist.d%.nc\"\nexclude_name=Hist.d02\nexclude_name=tmp\ncomp1=scale\ncomp2=letkf\n\
                       mode=transfer\nnum_sessions=5\nreplay_io=1\n\n\
                       ! the other way\n[file]\nFILENAME=./anal\ncomp1=letkf\ncomp2=scale\nmode=file\n";

    #[test]
    fn rules_are_those_of_the_file_in_both_directions() {
        let rules = parse(INI).unwrap();
        let said: Vec<(&str, &str, &[String], bool)> = rules
            .iter()
            .map(|rule| (rule.pattern.as_str(), rule.transfer().from(), rule.transfer().to(), rule.transfer().keep()))
            .collect();
        let (scale, letkf) = (["scale".to_owned()], ["LETKF".to_owned()]);
        assert_eq!(
            said,
            [
                ("*Hist.d*.nc*", "scale", letkf.as_slice(), false),
                ("*Hist.d*.nc*", "LETKF", scale.as_slice(), false),
                ("*anal*", "LETKF", scale.as_slice(), true),
                ("*anal*", "scale", letkf.as_slice(), true),
            ]
        );
        let of = |path: &str| {
            let is_for =
                |rule: &&FileRule| rule.pattern.matches(Path::new(path)) && !rule.transfer().excludes(Path::new(path));
            rules.iter().find(is_for).map(|rule| rule.pattern.as_str())
        };
        // Names keep their case.
        assert_eq!((of("/run/Hist.d01.nc"), of("/run/hist.d01.nc")), (Some("*Hist.d*.nc*"), None));
        assert_eq!((of("/run/Hist.d02.nc"), of("/run/Hist.d01.nc.tmp")), (None, None));
        assert_eq!(of("/run/anal.d02.nc"), Some("*anal*"));
        assert!(rules.iter().all(|rule| rule.transfer().publish() == Publish::Transfer));
        assert!(rules[1].transfer().replay() && !rules[2].transfer().replay());
        let both_write = parse(&INI.replacen("num_sessions=5", "write_only=1", 1)).unwrap();
        let is_classic = |rule: &FileRule| matches!(rule.compress().output(), Output::Classic);
        assert!(both_write[0].transfer().is_write_only() && is_classic(&both_write[0]));
        assert!(!rules[0].transfer().is_write_only() && !is_classic(&rules[0]));
    }

    #[test]
    fn mistakes_show_the_line() {
        for (from, to, said) in [
            ("ncomp=2", "ncomp=3", "ncomp says 3"),
            ("comp2=letkf", "comp2=other", "line 13: no component 'other'"),
            ("mode=transfer", "mode=send", "line 14: unknown mode 'send'"),
            ("mode=transfer\n", "", "line 8: no mode"),
            ("comp1=scale\n", "", "line 8: a file has two components"),
            ("num_sessions=5", "sessions=5", "line 15: unknown key 'sessions'"),
            ("num_sessions=5", "write_only=yes", "line 15: 'yes' for write_only"),
            ("num_sessions=5", "num_sessions", "line 15: 'num_sessions' is neither"),
            ("buffer_data=1", "buffer=1", "line 6: unknown key 'buffer'"),
            ("replay_io=1", "replay_io=yes", "line 16: 'yes' for replay_io"),
            ("filename=\"Hist.d%.nc\"", "filename=\"*.nc\"", "line 9: '*.nc' is no name"),
            ("filename=\"Hist.d%.nc\"\n", "", "line 8: no file name"),
        ] {
            let error = parse(&INI.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
