//! What calls do with names.

use knarr_names::Call;

/// What a call does with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// It has nothing to do with what is pending.
    Nothing,
    /// It prepares another call that will open the file, or gives it one more name: it has to be in its place.
    Prepares,
    /// It asks about the file.
    Looks,
    /// It asks about what is around the file: the file system.
    LooksAround,
    /// It asks where the path leads.
    Resolves,
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
    /// It lists the directory, entry by entry.
    Lists,
    /// It removes the directory, which is to be empty.
    RemovesDirectory,
    /// It lists the directory, all of it at once.
    Scans,
    /// It lists what is below the directory.
    Walks,
}

impl Does {
    pub(crate) fn call(self) -> Call {
        match self {
            Self::Nothing | Self::Looks | Self::LooksAround | Self::Resolves => Call::Look,
            Self::Opens | Self::OpensOrMakes | Self::Prepares => Call::Open,
            Self::Changes => Call::Change,
            Self::Makes | Self::Empties => Call::Create,
            Self::Removes | Self::RemovesAny => Call::Remove,
            Self::MovesFrom | Self::MovesTo => Call::Rename,
            Self::Lists | Self::RemovesDirectory | Self::Scans | Self::Walks => Call::List,
        }
    }

    /// It needs what is in the file. Without that, older values must not pass for it.
    pub(crate) fn needs_file(self) -> bool {
        matches!(
            self,
            Self::Looks | Self::Resolves | Self::Opens | Self::OpensOrMakes | Self::Changes | Self::MovesFrom
        )
    }

    /// After it, something else has the name, or nothing.
    pub(crate) fn takes_name(self) -> bool {
        self.removes() || matches!(self, Self::Empties | Self::Makes | Self::MovesTo)
    }

    /// It may change what is in the file, or what has the name.
    pub(crate) fn changes_file(self) -> bool {
        self.takes_name() || matches!(self, Self::OpensOrMakes | Self::Changes)
    }

    /// It may change a file that is there, or what has its name.
    pub(crate) fn may_change(self) -> bool {
        self.changes_file() || matches!(self, Self::Opens | Self::MovesFrom | Self::Prepares)
    }

    pub(crate) fn removes(self) -> bool {
        matches!(self, Self::Removes | Self::RemovesAny)
    }

    /// After it, what was pending is gone.
    pub(crate) fn gives_up(self) -> bool {
        self.removes() || matches!(self, Self::Empties | Self::MovesTo)
    }
}
