//! What calls do with names.

use knarr_names::Call;

/// What a call does with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// It has nothing to do with what is pending.
    Nothing,
    /// It prepares another call that will open the file.
    Prepares,
    /// It asks about the file.
    Looks,
    /// It opens it, to read or to change what is in it.
    Opens,
    /// The same, and makes one if there is none.
    OpensOrMakes,
    /// It changes its access, its times, its length.
    Changes,
    /// It makes the file if there is none; it is to be new.
    Makes,
    /// It makes the file, or empties one that is there.
    Empties,
    /// It removes the file.
    Removes,
    /// The same, or an empty directory.
    RemovesAny,
    /// It takes the name from the file.
    MovesFrom,
    /// It gives the name to another file.
    MovesTo,
    /// It lists the directory, or removes it.
    Lists,
    /// It lists the directory, all of it at once.
    Scans,
    /// It lists what is below the directory.
    Walks,
}

impl Does {
    pub(super) fn call(self) -> Call {
        match self {
            Self::Nothing | Self::Looks => Call::Look,
            Self::Opens | Self::OpensOrMakes | Self::Prepares => Call::Open,
            Self::Changes => Call::Change,
            Self::Makes | Self::Empties => Call::Create,
            Self::Removes | Self::RemovesAny => Call::Remove,
            Self::MovesFrom | Self::MovesTo => Call::Rename,
            Self::Lists | Self::Scans | Self::Walks => Call::List,
        }
    }

    /// It needs what is in the file. Without that, older values must not pass for it.
    pub(super) fn needs_file(self) -> bool {
        matches!(self, Self::Looks | Self::Opens | Self::OpensOrMakes | Self::Changes | Self::MovesFrom)
    }

    /// After it, something else has the name, or nothing.
    pub(super) fn takes_name(self) -> bool {
        self.removes() || matches!(self, Self::Empties | Self::Makes | Self::MovesTo)
    }

    pub(super) fn removes(self) -> bool {
        matches!(self, Self::Removes | Self::RemovesAny)
    }

    /// After it, what was pending is gone.
    pub(super) fn gives_up(self) -> bool {
        self.removes() || matches!(self, Self::Empties | Self::MovesTo)
    }
}
