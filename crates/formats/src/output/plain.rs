//! Outputs that hold nothing but values: CSV, raw files and classic netCDF. There is no chain to choose, and nothing to prove.

use super::kind::{OutputKind, PlainOutput};
use crate::classic::{self, Version};
use crate::{csv, raw};

/// Text: one table, with commas or tabs.
pub(super) const CSV: &dyn OutputKind = &PlainOutput {
    noun: "CSV",
    suffixes: &["csv", "tsv"],
    check: csv::check,
    write: csv::write,
    needs: |_| Some("nothing but text".to_owned()),
};

/// The bytes of one variable and nothing else.
pub(super) const RAW: &dyn OutputKind = &PlainOutput {
    noun: "a raw file",
    suffixes: &["bin", "raw"],
    check: |source| raw::only(source).map(drop),
    write: raw::write,
    needs: |variable| {
        variable.map(|variable| format!("to be told what the bytes mean: --raw {}", raw::RawLayout::of(variable)))
    },
};

/// Classic netCDF, which no name asks for: programs whose library writes it get such files.
pub fn classic(version: Version) -> &'static PlainOutput {
    macro_rules! of {
        ($version:expr) => {
            &PlainOutput {
                noun: "classic netCDF",
                suffixes: &[],
                check: |source| classic::check(source.model(), $version),
                write: |engine, source, file, clocks, progress| {
                    classic::write(engine, source, file, $version, clocks, progress)
                },
                needs: |_| None,
            }
        };
    }
    match version {
        Version::Cdf1 => of!(Version::Cdf1),
        Version::Cdf2 => of!(Version::Cdf2),
        Version::Cdf5 => of!(Version::Cdf5),
    }
}
