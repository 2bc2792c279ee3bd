//! `knarr chains`: the list of codecs in Markdown, the source of `docs/chains.md`.

use knarr_array::array::{ArraySpec, DType};
use knarr_array::error::Result;
use knarr_codec::codec::{
    Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, OptionValue, Options, Provider, Stage, ZarrKind, registered,
};
use std::fmt::Write;

const HEAD: &str = "# Codecs and chains

This page is the output of `knarr chains`; a test keeps the two equal.

A *chain* is an ordered list of codecs, such as `lorenzo | shuffle | zstd:3`. Bars separate the codecs, and options
follow a colon. The first option may stand without its name: `zstd:3` means `zstd:level=3`. `raw` is the empty chain.
The option `--chain` accepts such a text. Without `--chain`, Knarr chooses a chain for each variable.

Each HDF5 filter plugin that is installed on a machine is also a codec, `plugin-NUMBER`. Its option `cd` holds the
client data values: `plugin-32017:cd=1/2/3`. `knarr doctor` lists the plugins. The plugin 32024 of the Python package
`hdf5plugin` adds the codec `sz3`. `sz3:abs,bound=0.01` bounds the absolute error. `sz3:rel,bound=0.001` bounds the
error as a fraction of the chunk's range of values.

The HDF5 and Zarr forms below are examples for chunks of 64x64 values of type f32, unless another type is named.

";

pub(crate) fn run() -> Result<u8> {
    print!("{}", page()?);
    Ok(0)
}

/// The whole page. It depends on the program alone: plugins of this machine are left out.
pub(crate) fn page() -> Result<String> {
    let codecs = knarr_native::codecs_with_plugins(&[])?;
    let mut text = HEAD.to_owned();
    text.push_str("| codec | kind | lossless | HDF5 filter | Zarr v3 codec |\n|---|---|---|---|---|\n");
    let shown: Vec<Example<'_>> = codecs.iter().map(|codec| Example::of(codec.as_ref())).collect();
    for example in &shown {
        let codec = example.codec;
        let name = codec.name();
        put(
            &mut text,
            format_args!(
                "| [{name}](#{name}) | {} | {} | {} | {} |\n",
                kind(codec.kind()),
                example.loss_in_a_word(),
                example.filter().map_or("–".to_owned(), |(id, _)| id.to_string()),
                example.zarr().map_or("–".to_owned(), |(name, _)| name)
            ),
        );
    }
    for example in &shown {
        example.section(&mut text);
    }
    Ok(text)
}

/// A codec with options that serve as an example.
struct Example<'a> {
    codec: &'a dyn Codec,
    options: Options,
    stage: Stage,
}

impl<'a> Example<'a> {
    fn of(codec: &'a dyn Codec) -> Self {
        let dtype =
            [DType::F32, DType::I32, DType::U8].into_iter().find(|dtype| codec.supports(*dtype)).unwrap_or(DType::F32);
        let stage = Stage { spec: ArraySpec::new(dtype, [64, 64]), is_array: true };
        let options = sample_options(codec, None).unwrap_or_default();
        Self { codec, options, stage }
    }

    fn section(&self, text: &mut String) {
        let codec = self.codec;
        put(text, format_args!("\n## {}\n\n{}.\n\n", codec.name(), sentence(codec.summary())));
        put(
            text,
            format_args!("- Kind: {}\n- Types: {}\n- Lossless: {}\n", kind(codec.kind()), types(codec), self.loss()),
        );
        match codec.hdf5(&self.options, &self.stage) {
            Hdf5Form::Filter(filter) => {
                put(text, format_args!("- HDF5: filter {}, cd_values {:?}{}\n", filter.id, filter.cd_values, self.on()))
            }
            Hdf5Form::Invisible => put(text, format_args!("- HDF5: no filter; only the values change\n")),
            Hdf5Form::None => put(
                text,
                format_args!(
                    "- HDF5: no registered filter; used only inside Knarr's own filter (`--portable knarr`)\n"
                ),
            ),
        }
        match self.zarr() {
            Some((_, entry)) => put(text, format_args!("- Zarr v3: {entry}\n")),
            None => put(text, format_args!("- Zarr v3: {}\n", self.without_zarr())),
        }
        put(text, format_args!("- A reader needs: {}\n", self.reader()));
        if codec.options().is_empty() {
            text.push_str("- Options: none\n");
            return;
        }
        text.push_str("\n| option | values | default | meaning |\n|---|---|---|---|\n");
        for option in codec.options() {
            let (values, default) = range(option);
            put(
                text,
                format_args!("| `{}` | {values} | {default} | {} |\n", option.name, option.doc.replace('|', "\\|")),
            );
        }
    }

    /// Type and options of the example, where they are not the ones of the page's head.
    fn on(&self) -> String {
        let dtype = self.stage.spec.dtype;
        let of_type = if dtype == DType::F32 { String::new() } else { format!(" for {dtype}") };
        let options: Vec<String> = self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if options.is_empty() { of_type } else { format!("{of_type} with `{}`", options.join(",")) }
    }

    fn filter(&self) -> Option<(u32, Vec<u32>)> {
        match self.codec.hdf5(&self.options, &self.stage) {
            Hdf5Form::Filter(filter) => Some((filter.id, filter.cd_values)),
            _ => None,
        }
    }

    fn zarr(&self) -> Option<(String, String)> {
        let entry = self.codec.zarr(&self.options, &self.stage)?;
        let name = entry.metadata.get("name").and_then(serde_json::Value::as_str).unwrap_or("").to_owned();
        let place = match entry.kind {
            ZarrKind::ArrayToArray => "array to array",
            ZarrKind::ArrayToBytes => "array to bytes",
            ZarrKind::BytesToBytes => "bytes to bytes",
        };
        Some((name, format!("`{}` ({place})", entry.metadata)))
    }

    fn without_zarr(&self) -> &'static str {
        match self.codec.hdf5(&self.options, &self.stage) {
            Hdf5Form::Invisible => "no codec; only the values change",
            _ => "no codec",
        }
    }

    fn reader(&self) -> String {
        match self.codec.hdf5(&self.options, &self.stage) {
            Hdf5Form::Invisible => "nothing; the values are stored plainly".to_owned(),
            Hdf5Form::Filter(filter) => match registered(filter.id).map(|known| known.provider) {
                Some(Provider::Hdf5) => "any build of HDF5".to_owned(),
                Some(provider) => format!("{} (HDF5)", provider.package()),
                None => "the plugin of that number (HDF5)".to_owned(),
            },
            Hdf5Form::None if self.codec.zarr(&self.options, &self.stage).is_some() => {
                "in HDF5, Knarr's filter plugin; in Zarr, a library with that codec".to_owned()
            }
            Hdf5Form::None => "Knarr's HDF5 filter plugin".to_owned(),
        }
    }

    /// Loss with each word of the first option that is a choice of modes.
    fn losses(&self) -> Vec<(Option<&'static str>, Loss)> {
        let modes = self.codec.options().iter().find_map(|option| match option.kind {
            OptionKind::Word(words) => Some((option.name, words)),
            _ => None,
        });
        let mut losses: Vec<(Option<&'static str>, Loss)> = Vec::new();
        if let Some((name, words)) = modes {
            for word in words {
                if let Some(options) = sample_options(self.codec, Some((name, word))) {
                    losses.push((Some(word), self.codec.loss(&options)));
                }
            }
        }
        if losses.is_empty() { vec![(None, self.codec.loss(&self.options))] } else { losses }
    }

    fn loss_in_a_word(&self) -> &'static str {
        let losses = self.losses();
        let lossy = losses.iter().filter(|(_, loss)| *loss == Loss::Lossy).count();
        match lossy {
            0 => "yes",
            some if some == losses.len() => "no",
            _ => "by option",
        }
    }

    fn loss(&self) -> String {
        let losses = self.losses();
        let words = |wanted: Loss| -> Vec<String> {
            losses
                .iter()
                .filter(|(_, loss)| *loss == wanted)
                .filter_map(|(word, _)| word.map(|word| format!("`{word}`")))
                .collect()
        };
        match self.loss_in_a_word() {
            "yes" => "yes".to_owned(),
            "no" => "no; every chunk is checked against the promised bound, and a chunk that misses it stays lossless"
                .to_owned(),
            _ => format!(
                "yes with {}; no with {}, where every chunk is checked against the promised bound",
                words(Loss::Lossless).join(", "),
                words(Loss::Lossy).join(", ")
            ),
        }
    }
}

/// Complete options: defaults, and something sensible where one is required.
fn sample_options(codec: &dyn Codec, word: Option<(&str, &str)>) -> Option<Options> {
    let mut options = Options::default();
    for option in codec.options() {
        options = match option.kind {
            OptionKind::Int { min, max, default: None } => options.with_int(option.name, 7.clamp(min, max)),
            OptionKind::Float => options.with(option.name, OptionValue::Float(0.01)),
            _ => options,
        };
    }
    if let Some((name, word)) = word {
        options = options.with(name, OptionValue::Word(word.to_owned()));
    }
    options.complete("codec", codec.options()).ok()
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Filter => "filter (array to array)",
        Kind::ArrayToBytes => "array to bytes",
        Kind::Compressor => "bytes to bytes",
    }
}

fn types(codec: &dyn Codec) -> String {
    use DType::{F16, F32, F64, I8, I16, I32, I64, Opaque, U8, U16, U32, U64};
    let numbers = [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64];
    let served: Vec<DType> = numbers.into_iter().filter(|dtype| codec.supports(*dtype)).collect();
    if served.len() == numbers.len() {
        let all = codec.supports(F16) && codec.supports(Opaque(3));
        return if all { "all".to_owned() } else { "integers, f32, f64".to_owned() };
    }
    served.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Allowed values and default of an option.
pub(crate) fn range(option: &OptionDoc) -> (String, String) {
    match option.kind {
        OptionKind::Int { min, max, default } => {
            (format!("{min} to {max}"), default.map_or("required".to_owned(), |default| default.to_string()))
        }
        OptionKind::Float => ("a number above 0".to_owned(), "required".to_owned()),
        OptionKind::FloatOr(default) => ("a number, 0 or above".to_owned(), default.to_string()),
        OptionKind::Optional => ("a number".to_owned(), "none".to_owned()),
        OptionKind::Word(words) => {
            let listed: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            (listed.join(", "), words.first().map_or(String::new(), |word| format!("`{word}`")))
        }
        OptionKind::Numbers => ("`1/2/3`".to_owned(), "none".to_owned()),
    }
}

/// A summary as a sentence without its full stop.
fn sentence(summary: &str) -> String {
    let summary = summary.trim_end_matches('.');
    let mut characters = summary.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + characters.as_str()
}

/// Writing to a `String` cannot fail.
fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}
