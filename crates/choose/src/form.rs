//! Forms of chains: how an output records the codecs of its chunks. HDF5 and Zarr have one form each. Several kinds of outputs
//! may share a form.

use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::codec::{CodecList, Loss, ReaderLevel};
use serde::{Deserialize, Serialize};

/// How an output records the chain of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Filter pipelines of datasets of HDF5, and of netCDF-4.
    #[default]
    Hdf5,
    /// `codecs` of arrays of Zarr v3.
    Zarr,
    /// Not at all: the output holds nothing but values.
    Values,
}

impl Form {
    /// What has this form, with an article.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Hdf5 => "an HDF5 or netCDF-4 file",
            Self::Zarr => "a Zarr store",
            Self::Values => "a file of plain values",
        }
    }
}

/// What an output can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatLimits {
    /// How it records the chains of its chunks.
    pub form: Form,
    /// What its readers have at most.
    pub allowed: ReaderLevel,
}

impl FormatLimits {
    /// A file that holds nothing but values, which every reader can read.
    pub const VALUES: Self = Self { form: Form::Values, allowed: ReaderLevel::Core };

    /// An HDF5 or netCDF-4 file.
    pub const fn hdf5(allowed: ReaderLevel) -> Self {
        Self { form: Form::Hdf5, allowed }
    }

    /// A Zarr v3 store.
    pub const fn zarr(allowed: ReaderLevel) -> Self {
        Self { form: Form::Zarr, allowed }
    }

    /// True for datasets of HDF5, which need not be chunked.
    pub fn is_hdf5(self) -> bool {
        self.form == Form::Hdf5
    }

    /// `chain` in the words of this form: what h5repack and h5py call gzip is deflate.
    pub fn chain_asked_for(self, chain: &ChainSpec) -> ChainSpec {
        let mut chain = chain.clone();
        if self.is_hdf5() {
            chain.0.iter_mut().filter(|step| step.name == "gzip").for_each(|step| "deflate".clone_into(&mut step.name));
        }
        chain
    }

    /// The same form for readers that have at most `thread_limit`.
    #[must_use]
    pub fn for_reader(self, allowed: ReaderLevel) -> Self {
        Self { allowed, ..self }
    }

    /// Whether an output of this form can hold what `chain` writes.
    pub fn holds(self, chain: &Chain) -> bool {
        match self.form {
            Form::Hdf5 => self.allowed == ReaderLevel::Knarr || chain.reader() <= self.allowed,
            Form::Zarr => chain.zarr_codecs().is_some_and(|codecs| ReaderLevel::of_zarr(&codecs) <= self.allowed),
            Form::Values => chain.spec().is_raw(),
        }
    }

    /// For a `chain` that the output cannot hold: which limit it exceeds, and what would allow it.
    pub fn exceeded(self, chain: &Chain) -> (&'static str, &'static str) {
        let held_for = |reader| self.for_reader(reader).holds(chain);
        match (self.form, self.allowed) {
            (Form::Hdf5, ReaderLevel::Core) => {
                ("every HDF5 build can read (--portable core)", "allow plugins with --portable standard")
            }
            (Form::Hdf5, _) => {
                ("a standard HDF5 filter pipeline can hold", "allow Knarr's own filter with --portable knarr")
            }
            (Form::Zarr, ReaderLevel::Core) if held_for(ReaderLevel::Standard) => {
                ("every Zarr v3 library has (--portable core)", "allow those of numcodecs with --portable standard")
            }
            (Form::Zarr, _) if held_for(ReaderLevel::Knarr) => {
                ("Zarr readers other than Knarr decode", "allow Knarr's own codecs with --portable knarr")
            }
            (Form::Zarr, _) => ("Zarr v3 codecs can hold", "choose another chain"),
            (Form::Values, _) => ("a file of plain values can hold", "write .nc, .h5 or .zarr"),
        }
    }

    /// What readers of an output of this form with what `chain` writes need.
    pub fn reader(self, chain: &Chain) -> ReaderLevel {
        match (self.form, chain.zarr_codecs()) {
            (Form::Zarr, Some(codecs)) => ReaderLevel::of_zarr(&codecs),
            _ => chain.reader(),
        }
    }

    /// The chain that chunks of a lossy variable fall back to, if `chain` is lossy: `chain` without its value-changing steps, or
    /// stored.
    pub fn fallback(self, codecs: &CodecList, chain: &Chain) -> Option<ChainSpec> {
        if chain.loss() == Loss::Lossless {
            return None;
        }
        let lossless = chain.spec().0.iter().filter(|step| {
            let one = ChainSpec(vec![(*step).clone()]);
            Chain::prepare(codecs, &one, chain.input()).is_ok_and(|chain| chain.loss() == Loss::Lossless)
        });
        Some(ChainSpec(lossless.cloned().collect()))
    }
}
