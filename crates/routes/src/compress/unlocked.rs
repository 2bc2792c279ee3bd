//! Files that a program may open meanwhile: they are looked at, or packed to take their own place.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_array::model::Variable;
use knarr_array::quality::Quality;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::pipeline::advise;
use knarr_flow::provenance;
use knarr_flow::settings::{Rule, Settings};
use knarr_flow::store::{Sink, Source};
use knarr_formats::classic::{self, ClassicSource};
use knarr_formats::hdf5::{AsMade, Hdf5Sink, SinkOptions, StoredAs};
use knarr_formats::output::{self, ChunkedOutput};
use knarr_formats::{Watched, open_hdf5_unlocked};

use super::error_context::{blamed, in_file};
use super::forecast::Forecast;
use super::options::RepackOptions;
use super::repack::RepackJob;
use super::repacked::Repacked;

/// True if it begins as a classic netCDF file does.
pub fn is_classic(file: &File) -> bool {
    let mut begin = [0; 4];
    file.read_exact_at(&mut begin, 0).is_ok() && matches!(begin, [b'C', b'D', b'F', 1 | 2 | 5])
}

/// Writes what the file `input` holds to a new file `output`: HDF5 of HDF5, and netCDF-4 of any netCDF, whatever the names.
/// The file is not locked: a program may open it for writing meanwhile, and who puts the output in its place checks
/// before that it has not changed. No plan is saved: the output has not got its final name yet.
///
/// # Errors
/// As for [`repack`]; `Corrupt` if the input is no such file; `Unsupported` if it holds more than would be read.
pub fn pack(
    engine: &Engine,
    input: &Path,
    output: &Path,
    settings: &Settings,
    options: &RepackOptions,
    progress: &dyn Progress,
) -> Result<Repacked> {
    let begin = std::time::Instant::now();
    // Objects that only HDF5 has are copied as they are.
    let (source, kind, in_place) = open_unlocked(engine, input)?;
    let settings = &spare_rounded(source.as_ref(), settings.clone());
    let target = kind.limits(settings.portable)?;
    let job = RepackJob { engine, input, output, kind, target, settings, options, in_place };
    let done = job.run_in_any_case(source.as_ref(), progress, begin)?;
    done.ok_or_else(|| Error::internal("an output that may be of any size is too large"))
}

/// The other way round: the variables of `input` that are named are stored as a program has made them, for its library to write.
/// False if they are, and then nothing is written.
///
/// # Errors
/// As for [`pack`].
pub fn unpack(engine: &Engine, input: &Path, output: &Path, as_made: &AsMade) -> Result<bool> {
    let source = open_hdf5_unlocked(input, &engine.codecs)?;
    let is_other =
        |variable: &Variable| as_made.get(&variable.path).is_some_and(|made| *made != StoredAs::of(variable));
    if !source.model().variables.iter().any(is_other) {
        return Ok(false);
    }
    source.limit_cache(usize::try_from(engine.max_mem / 4).unwrap_or(usize::MAX));
    let (replaces, as_made) = (Replaces::Anything, as_made.clone());
    let options = SinkOptions { replaces, in_place: true, as_made, ..SinkOptions::default() };
    let mut sink = Hdf5Sink::create(output, source.model(), &[], options)?;
    sink.copy_from(&source).map_err(|error| blamed(error, input))?;
    engine.check_cancelled()?;
    Box::new(sink).commit().map(|_| true)
}

/// What [`pack`] is expected to give, and to take, for the file `input`. Nothing is written.
///
/// # Errors
/// As for [`pack`].
pub fn forecast(engine: &Engine, input: &Path, settings: &Settings, progress: &dyn Progress) -> Result<Forecast> {
    let (source, kind, _) = open_unlocked(engine, input)?;
    let target = kind.limits(settings.portable)?;
    let (source, settings) = (source.as_ref(), spare_rounded(source.as_ref(), settings.clone()));
    let plan = advise(engine, source, &settings, target, progress).map_err(|error| in_file(error, input))?;
    source.unchanged()?;
    Ok(Forecast::of(plan, source, kind, &settings))
}

/// The file, the kind of output that may take its place, and whether it is an HDF5 file.
fn open_unlocked(engine: &Engine, input: &Path) -> Result<(Box<dyn Source>, &'static dyn ChunkedOutput, bool)> {
    if is_classic(&File::open(input).map_err(|error| Error::read(input, &error))?) {
        let source = Watched::open(input, || {
            if classic::holds_more(input)? {
                return Err(Error::unsupported("it has bytes that belong to no variable"));
            }
            Ok(Box::new(ClassicSource::open(input)?))
        })?;
        let kind = output::NETCDF4;
        kind.check(source.as_ref())?;
        return Ok((kind.view(source), kind, false));
    }
    let source = Watched::open(input, || Ok(Box::new(open_hdf5_unlocked(input, &engine.codecs)?)))?;
    let kind = output::of_hdf5(input, source.as_ref());
    Ok((source, kind, true))
}

/// Settings that keep variables lossless that were rounded within a bound before: two errors could add up to more.
fn spare_rounded(source: &dyn Source, mut settings: Settings) -> Settings {
    for variable in &source.model().variables {
        if provenance::promised(variable) != Quality::LOSSLESS {
            let pattern = variable.path.clone();
            settings.rules.push(Rule { pattern, quality: Some(Quality::LOSSLESS), ..Rule::default() });
        }
    }
    settings
}
