//! `knarr generate`: test data from named patterns.

use std::str::FromStr;

use knarr_array::error::{Error, Result};
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::OptionDoc;
use knarr_flow::generate::{FieldSpec, Generated, PATTERNS, parse_shape, seed_for};
use knarr_flow::settings::{glob_matches, nearest};
use knarr_routes::compress::notes;
use knarr_routes::compress::{RepackOptions, repack_source};

use crate::arguments::args::{CompressionOptions, Generate};
use crate::arguments::bounds::split_variable;
use crate::arguments::request::Request;
use crate::printing::progress::Bar;

pub(crate) fn run(arguments: &Generate) -> Result<u8> {
    if arguments.list {
        list();
        return Ok(0);
    }
    let output = arguments.output.as_deref().ok_or_else(|| Error::usage("an output is needed").hint("add -o OUT"))?;
    let source = Box::new(Generated::new(&fields(arguments)?)?);
    let request = Request::new(&arguments.compression)?;
    let engine = crate::session::engine(&arguments.resources, &request.machine())?;
    let mut settings = request.settings(output)?;
    // Values as they are, unless something is said of how to store them.
    let is_plain = asks_for_nothing(&arguments.compression);
    if is_plain {
        settings.chain = Some(ChainSpec::raw());
    }
    let options = RepackOptions {
        replaces: arguments.force.into(),
        command: crate::report::command_line(),
        when: knarr_flow::provenance::today(),
        save_plan: !is_plain,
        ..RepackOptions::default()
    };
    let progress = Bar::new(output.display().to_string());
    let done = repack_source(&engine, source, output, &settings, &options, &progress)
        .map_err(|error| request.blame(error, output))?;
    drop(progress);
    crate::printing::terminal::print_notes(notes::limits_missed([&done.plan]));
    if arguments.json {
        println!("{}", crate::report::json(&done));
    } else {
        crate::commands::repack::print(&done, &engine.codecs, settings.verify);
    }
    Ok(0)
}

/// True if nothing is said of how to store values.
fn asks_for_nothing(compression: &CompressionOptions) -> bool {
    // Chunks and the form of objects are how raw values are stored, too.
    let CompressionOptions { config, goal, portable, chain, chunks: _, low: _, high: _, bounds } = compression;
    config.is_none() && goal.is_none() && portable.is_none() && chain.is_empty() && bounds.is_empty()
}

/// The variables that are asked for.
fn fields(arguments: &Generate) -> Result<Vec<FieldSpec>> {
    let mut fields: Vec<FieldSpec> =
        arguments.fields.iter().map(|text| FieldSpec::parse(text)).collect::<Result<_>>()?;
    fields.iter_mut().for_each(|field| field.seed = seed_for(0, &field.name));
    each(&mut fields, "shape", &arguments.shape, |field, text, _| {
        field.shape = Some(parse_shape(text)?);
        Ok(())
    })?;
    each(&mut fields, "dims", &arguments.dims, |field, text, _| {
        field.dimensions = Some(text.split(',').map(|name| name.trim().to_owned()).collect());
        Ok(())
    })?;
    each(&mut fields, "type", &arguments.dtype, |field, text, _| put(&mut field.dtype, text))?;
    each(&mut fields, "range", &arguments.range, |field, text, _| put(&mut field.range, text))?;
    each(&mut fields, "noise", &arguments.noise, |field, text, _| put(&mut field.noise, text))?;
    each(&mut fields, "fill", &arguments.fill, |field, text, _| put(&mut field.fill, text))?;
    each(&mut fields, "fill-value", &arguments.fill_value, |field, text, _| {
        field.fill_value = Some(text.parse().map_err(|_| Error::usage(format!("'{text}' is not a number")))?);
        Ok(())
    })?;
    each(&mut fields, "seed", &arguments.seed, |field, text, is_named| {
        let seed = text.parse().map_err(|_| Error::usage(format!("'{text}' is not a whole number from 0 on")))?;
        // A seed of the file gives each variable one of its own; one of a variable is its seed.
        field.seed = if is_named { seed } else { seed_for(seed, &field.name) };
        Ok(())
    })?;
    Ok(fields)
}

fn put<T: FromStr<Err = Error>>(slot: &mut Option<T>, text: &str) -> Result<()> {
    *slot = Some(text.parse()?);
    Ok(())
}

/// Calls `set` for each text `[VAR=]VALUE` of an option and each variable it is about: those of all first.
fn each(
    fields: &mut [FieldSpec],
    option: &str,
    texts: &[String],
    set: impl Fn(&mut FieldSpec, &str, bool) -> Result<()>,
) -> Result<()> {
    let at_option = |error: Error| error.at(format!("--{option}"));
    let split: Vec<(Option<&str>, &str)> = texts
        .iter()
        .map(|text| split_variable(text, &[':']).map_or((None, text.trim()), |(name, value)| (Some(name), value)))
        .collect();
    let (all, named): (Vec<_>, Vec<_>) = split.into_iter().partition(|(name, _)| name.is_none());
    for (name, value) in all.into_iter().chain(named) {
        let mut is_found = false;
        for field in fields.iter_mut().filter(|field| name.is_none_or(|name| glob_matches(name, &field.name))) {
            set(field, value, name.is_some()).map_err(at_option)?;
            is_found = true;
        }
        if let Some(name) = name.filter(|_| !is_found) {
            let names = nearest(name, fields.iter().map(|field| field.name.as_str()), 8);
            return Err(at_option(
                Error::usage(format!("there is no variable '{name}'")).hint(format!("there are: {names}")),
            ));
        }
    }
    Ok(())
}

fn list() {
    for pattern in PATTERNS {
        println!("{:<12}{}", pattern.name(), pattern.summary());
        for option in pattern.options() {
            let OptionDoc { name, doc, .. } = option;
            let (values, default) = crate::commands::chains::range(option);
            println!("{:<12}  {name}: {doc} ({}; default {})", "", values.replace('`', ""), default.replace('`', ""));
        }
    }
}
