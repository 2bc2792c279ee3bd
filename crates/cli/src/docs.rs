//! Pages of `docs/` that the program generates. `KNARR_WRITE_DOCS=1 cargo test -p knarr-cli docs` writes them anew.

use clap::CommandFactory;
use std::path::PathBuf;

const BEGIN: &str = "<!-- generated from the command line: begin -->\n";
const END: &str = "<!-- generated from the command line: end -->\n";
/// Help is wrapped here whatever terminal the test runs in.
const COLUMNS: usize = 100;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Compares a page with what it should be, or writes it.
fn check(name: &str, wanted: &str) {
    if std::env::var_os("KNARR_WRITE_DOCS").is_some() {
        std::fs::write(file(name), wanted).unwrap();
    }
    let found = std::fs::read_to_string(file(name)).unwrap_or_default();
    assert!(found == wanted, "docs/{name} is out of date: run KNARR_WRITE_DOCS=1 cargo test -p knarr-cli docs");
}

#[test]
fn the_page_of_codecs_is_what_the_program_prints() {
    check("chains.md", &crate::chains::page().unwrap());
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
    let mut knarr = crate::args::Knarr::command().term_width(COLUMNS);
    knarr.build();
    let mut text = String::new();
    let names: Vec<String> = knarr
        .get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .map(|command| command.get_name().to_owned())
        .collect();
    for name in names {
        let command = knarr.find_subcommand_mut(&name).unwrap();
        let help = command.clone().term_width(COLUMNS).render_long_help().to_string();
        let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        text.push_str(&format!("\n### knarr {name}\n\n```text\n{}\n```\n", help.join("\n")));
    }
    text.push('\n');
    text
}
