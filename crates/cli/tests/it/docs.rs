//! Pages of `docs/` that the program generates. `KNARR_WRITE_DOCS=1 cargo one -p knarr-cli docs` writes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests report by panicking")]

use std::path::PathBuf;
use std::process::Command;

const BEGIN: &str = "<!-- generated from the command line: begin -->\n";
const END: &str = "<!-- generated from the command line: end -->\n";
/// Help is wrapped here whatever terminal the test runs in.
const COLUMNS: &str = "100";

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Compares a page with what it should be, or writes it.
fn check(name: &str, wanted: &str) {
    if std::env::var_os("KNARR_WRITE_DOCS").is_some() {
        std::fs::write(file(name), wanted).unwrap();
    }
    let found = std::fs::read_to_string(file(name)).unwrap_or_default();
    assert!(found == wanted, "docs/{name} is out of date: run KNARR_WRITE_DOCS=1 cargo one -p knarr-cli docs");
}

#[test]
fn the_page_of_codecs_is_what_the_program_prints() {
    check("chains.md", &knarr(&["chains"]));
}

#[test]
fn the_page_of_commands_is_what_help_says() {
    let page = std::fs::read_to_string(file("cli.md")).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("docs/cli.md marks where the generated part begins");
    let (_, after) = rest.split_once(END).expect("docs/cli.md marks where the generated part ends");
    check("cli.md", &format!("{before}{BEGIN}{}{END}{after}", commands()));
}

/// Help of every command that is shown to people.
fn commands() -> String {
    let mut text = String::new();
    for name in listed(&knarr(&["--help"])) {
        add_help(&[&name], &mut text);
    }
    text.push('\n');
    text
}

/// Adds the help of a command, and of those it is made of.
fn add_help(words: &[&str], text: &mut String) {
    let printed = knarr(&[words, &["--help"]].concat());
    let help: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n### knarr {}\n\n```text\n{}\n```\n", words.join(" "), help.join("\n")));
    for name in listed(&printed) {
        add_help(&[words, &[&name]].concat(), text);
    }
}

/// Names under the heading of commands.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // What is described in more than one line goes on further to the right.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|rest| rest.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
}

/// What the program prints.
fn knarr(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_knarr")).args(arguments).env("COLUMNS", COLUMNS).output().unwrap();
    assert!(done.status.success(), "knarr {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
