//! Translates errors of the TOML parser, which name types of this program, into words for users.

use knarr_array::error::{Error, ErrorKind};

/// The parser's `error` about the configuration `text`, in words for users and with the line.
pub(super) fn misread(text: &str, error: toml::de::Error) -> Error {
    const WORDS: [(&str, &str); 10] = [
        ("unknown variant", "unknown value"),
        ("a sequence", "a list"),
        ("a nonzero u32", "a nonzero whole number"),
        ("a nonzero u64", "a nonzero whole number"),
        ("f64", "a number"),
        ("f32", "a number"),
        ("usize", "a whole number from 0 on"),
        ("u64", "a whole number from 0 on"),
        ("u32", "a whole number from 0 on"),
        ("u8", "a whole number from 0 on"),
    ];
    let plain = WORDS.iter().fold(error.message().to_owned(), |said, (name, words)| said.replace(name, words));
    let hint = match error.message() {
        "invalid type: map, expected a sequence" => "write [[file]], in double brackets: there may be several",
        _ => "the keys are described in docs/cli.md",
    };
    located(text, error, &plain).hint(hint)
}

/// An error of the configuration.
pub(super) fn refuse(what: &str) -> Error {
    Error::new(ErrorKind::Config, what)
}

/// An error with the message `what` at the line of `error`.
pub(super) fn located(text: &str, mut error: toml::de::Error, what: &str) -> Error {
    error.set_input(Some(text));
    let said = error.to_string().replace(error.message(), what);
    Error::new(ErrorKind::Config, said.trim_end().to_owned())
}
