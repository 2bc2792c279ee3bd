//! Routes: where the values of a family of files go. All that programs and the launcher ask of a route beforehand is one row of
//! a table here; what is done with the files themselves lies with those who do it.

use serde::{Deserialize, Serialize};

/// Where the values of a family of files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// A standard file with chosen chains.
    #[default]
    Compress,
    /// Untouched; it is told what `compress` would make of the file.
    Estimate,
    /// Untouched.
    File,
    /// Packed with those of other ranks into a set.
    Checkpoint,
    /// Into the memory of programs that read the file.
    Transfer,
    /// A standard file, which waits in fast tiers on its way to its place.
    Stage,
}

/// What distinguishes a route.
#[derive(Debug)]
pub struct Traits {
    /// Its name in `knarr.toml`.
    pub word: &'static str,
    /// What it does with files, behind its name.
    pub(super) does: &'static str,
    /// Programs tell the launcher when they open such a file for writing and when they close it.
    pub is_told: bool,
    /// The launcher does something with the file once it is closed, by itself.
    pub is_done_when_closed: bool,
    /// Another file may take its place, so programs that open it wait at the gate.
    pub may_be_replaced: bool,
    /// Values of MPI programs are handed over in place of a file.
    pub is_handed_over: bool,
    /// Why `knarr repack` leaves such a file alone, behind the name of the route; `None` if it does not.
    pub not_repacked: Option<&'static str>,
    /// What to tell of a file that PnetCDF writes; `None` if there is nothing to tell.
    pub classic_is_left: Option<&'static str>,
}

/// Nobody hears of the file, and it stays.
const UNTOUCHED: Traits = Traits {
    word: "file",
    does: "leaves files as they are",
    is_told: false,
    is_done_when_closed: false,
    may_be_replaced: false,
    is_handed_over: false,
    not_repacked: Some("it is to stay untouched"),
    classic_is_left: None,
};

const COMPRESS: Traits = Traits {
    word: "compress",
    does: "makes one compressed file of each",
    is_told: true,
    is_done_when_closed: true,
    may_be_replaced: true,
    is_handed_over: true,
    not_repacked: None,
    ..UNTOUCHED
};

const STAGE: Traits = Traits {
    word: "stage",
    does: "makes one compressed file of each in a fast tier, and moves it to its place",
    ..COMPRESS
};

const ESTIMATE: Traits = Traits {
    word: "estimate",
    does: "writes no file, and tells what compressing would give",
    is_told: true,
    is_done_when_closed: true,
    not_repacked: Some("it is to stay untouched, and 'knarr run' tells what compressing it would give"),
    classic_is_left: Some("estimates are made of HDF5 and netCDF-4 files; 'knarr advise' reads this one, too"),
    ..UNTOUCHED
};

const CHECKPOINT: Traits = Traits {
    word: "checkpoint",
    does: "packs every byte into sets once files are written",
    is_told: true,
    not_repacked: Some("it is for 'knarr checkpoint pack' and 'knarr run'"),
    ..UNTOUCHED
};

/// Components hand over what a rule says that they transfer: see `Snapshot::part`.
const TRANSFER: Traits = Traits {
    word: "transfer",
    does: "hands values to the programs that read them",
    not_repacked: Some("it is for 'knarr run'"),
    ..UNTOUCHED
};

impl Route {
    /// All of them.
    pub(super) const ALL: [Self; 6] =
        [Self::Compress, Self::Estimate, Self::File, Self::Checkpoint, Self::Transfer, Self::Stage];

    /// The row of this route.
    pub fn traits(self) -> &'static Traits {
        match self {
            Self::Compress => &COMPRESS,
            Self::Estimate => &ESTIMATE,
            Self::File => &UNTOUCHED,
            Self::Checkpoint => &CHECKPOINT,
            Self::Transfer => &TRANSFER,
            Self::Stage => &STAGE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Route;

    #[test]
    fn rows_have_the_names_that_rules_have() {
        for route in Route::ALL {
            let row = route.traits();
            assert_eq!(serde_json::to_value(route).unwrap(), row.word);
            // Only what is told of can be done when it is closed, and only that can be replaced.
            assert!(row.is_told || !row.is_done_when_closed, "{route:?}");
            assert!(row.is_done_when_closed || !row.may_be_replaced, "{route:?}");
        }
    }
}
