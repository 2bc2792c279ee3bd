//! Encodes or decodes one chunk, for tests against other implementations:
//! `chunk encode|decode|forms CHAIN DTYPE SHAPE [FILL...] < bytes > bytes`, shape as `4,5,6`.
//!
//! `forms` prints the HDF5 pipeline and the Zarr v3 codecs of the chain as JSON.

use knarr_array::array::{ArraySpec, DType};
use knarr_array::{Error, Result};
use knarr_codec::chain::{Chain, ChainSpec, Scratch};
use knarr_codec::codec::CodecList;
use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.kind().exit_code())
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [action, chain, dtype, shape, fills @ ..] = arguments.as_slice() else {
        return Err(Error::usage("give an action, a chain, a type and a shape"));
    };
    let number = |text: &String| Error::usage(format!("'{text}' is not a whole number"));
    let shape: Vec<usize> = shape
        .split(',')
        .filter(|extent| !extent.is_empty())
        .map(|extent| extent.parse().map_err(|_| number(&extent.to_owned())))
        .collect::<Result<_>>()?;
    let mut array = ArraySpec::new(parse_dtype(dtype)?, shape);
    array.fills = fills.iter().map(|fill| fill.parse().map_err(|_| number(fill))).collect::<Result<_>>()?;
    let chain = Chain::prepare(&CodecList::pure(), &chain.parse::<ChainSpec>()?, &array)?;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    if action != "forms" {
        std::io::stdin().read_to_end(&mut input).map_err(|error| Error::read("stdin".as_ref(), &error))?;
    }
    match action.as_str() {
        "encode" => chain.encode(&input, &mut Scratch::default(), &mut output)?,
        "decode" => chain.decode(&input, &mut Scratch::default(), &mut output)?,
        "forms" => {
            let forms = serde_json::json!({"hdf5": chain.hdf5_pipeline(), "zarr": chain.zarr_codecs()});
            output.extend_from_slice(forms.to_string().as_bytes());
        }
        other => return Err(Error::usage(format!("there is no action '{other}'"))),
    }
    std::io::stdout().write_all(&output).map_err(|error| Error::write("stdout".as_ref(), &error))
}

fn parse_dtype(name: &str) -> Result<DType> {
    DType::NUMBERS
        .into_iter()
        .find(|dtype| dtype.to_string() == name)
        .ok_or_else(|| Error::usage(format!("there is no type '{name}'")))
}
