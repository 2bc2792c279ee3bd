//! What the parser of the command line says of mistakes, in the form of all other errors.

use clap::CommandFactory;
use clap::error::{Error as ClapError, ErrorKind as ClapKind};
use knarr_array::Error;

use crate::arguments::args::Knarr;

/// A mistake on the command line; `None` for help and versions, which are none.
pub(crate) fn misread(error: &ClapError) -> Option<Error> {
    if !error.use_stderr() || error.kind() == ClapKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return None;
    }
    if error.kind() == ClapKind::InvalidUtf8 {
        return Some(not_utf8());
    }
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    Some(in_words(&error.render().to_string(), &command_of(words)))
}

/// The command and subcommands that these words begin with.
fn command_of(words: impl Iterator<Item = String>) -> String {
    let (mut command, mut name) = (Knarr::command(), "knarr".to_owned());
    for word in words {
        let Some(inner) = command.find_subcommand(&word).cloned() else { break };
        name = format!("{name} {word}");
        command = inner;
    }
    name
}

/// The parser's text has paragraphs: what is wrong, tips, the usage, and where help is.
fn in_words(text: &str, command: &str) -> Error {
    let mut paragraphs = text.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let what = paragraphs.next().unwrap_or_default();
    // What the standard library says of numbers is about digits in strings.
    let what = what.replace("invalid digit found in string", "it is no whole number");
    let what = what.replace("invalid float literal", "it is no number");
    let tips = paragraphs.filter_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
    let mut tips: Vec<String> =
        tips.flat_map(|said| said.split(" tip: ").map(str::to_owned).collect::<Vec<_>>()).collect();
    tips.push(format!("see '{command} --help'"));
    Error::usage(what.strip_prefix("error: ").unwrap_or(&what)).hint(tips.join("; "))
}

/// Names the word of the command line that clap refused without saying which.
fn not_utf8() -> Error {
    let word = std::env::args_os().find(|word| word.to_str().is_none()).unwrap_or_default();
    Error::usage(format!("the name is not UTF-8: {word:?}")).hint("rename the file, or make a link to it and give that")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_read_like_all_other_errors() {
        let told = |words: &[&str]| {
            let all = ["knarr"].iter().chain(words);
            let error = Knarr::command().try_get_matches_from(all).unwrap_err();
            misread(&error)?;
            let command = command_of(words.iter().map(|&word| word.to_owned()));
            Some(in_words(&error.render().to_string(), &command).to_string())
        };
        let many = ["repack", "a.nc", "-o", "b.nc", "--forse"];
        assert_eq!(
            told(&many).unwrap(),
            "unexpected argument '--forse' found; hint: a similar argument exists: '--force'; see 'knarr repack --help'"
        );
        for (words, said) in [
            (&["repack"][..], "not provided: --output <OUT> <IN>...; hint: see 'knarr repack --help'"),
            (
                &["repack", "a.nc", "-o"],
                "a value is required for '--output <OUT>' but none was supplied; hint: see 'knarr repack --help'",
            ),
            (
                &["train", "a.nc", "--samples", "x"],
                "invalid value 'x' for '--samples <N>': it is no whole number; hint: see 'knarr train --help'",
            ),
            (&["checkpoint", "pack", "--frobnicate"], "see 'knarr checkpoint pack --help'"),
            (&["repak"], "unrecognized subcommand 'repak'; hint: a similar subcommand exists: 'repack'"),
            (
                &["train", "a.nc", "--samples", "0"],
                "invalid value '0' for '--samples <N>': 0 is not in 1..=1000; hint:",
            ),
        ] {
            let told = told(words).unwrap();
            assert!(told.contains(said), "{words:?}: {told}");
            assert!(!told.contains('\n') && !told.contains("error:") && !told.contains("Usage"), "{told}");
        }
        assert_eq!((told(&["--help"]), told(&["--version"]), told(&[])), (None, None, None));
    }
}
