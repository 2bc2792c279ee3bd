//! Checkpoints of a program, and restarts from them. Everything here is safe; pointers end in [`crate::checkpoint_abi`].

use ::knarr_checkpoint::library::{Options, Restart, Session as Checkpoints};
use knarr_array::array::ArraySpec;
use knarr_array::comm::Comm;
use knarr_array::region::Region;
use knarr_array::{Error, Result};
use knarr_flow::engine::Engine;
use std::path::Path;

use crate::session::Session;
use crate::text;

/// The checkpoints of a program in a directory. Made by knarr_checkpoint_open(), freed by knarr_checkpoint_close(). One
/// thread at a time may use it: the one that calls MPI.
#[allow(non_camel_case_types, reason = "this is its name in the C interface")]
pub struct knarr_checkpoint {
    pub(crate) checkpoints: Checkpoints<Box<dyn Comm>>,
}

/// A checkpoint to restart from. Made by knarr_checkpoint_restart(), freed by knarr_restart_free(). Any number of threads
/// may use one at once.
#[allow(non_camel_case_types, reason = "this is its name in the C interface")]
pub struct knarr_restart {
    restart: Restart,
    ranks: (u64, u64),
}

/// The ranks of a program, as knarr_comm.h describes them.
#[allow(non_camel_case_types, reason = "this is its name in the C interface")]
pub struct knarr_comm {
    _of_the_program: [u8; 0],
}

impl Session for knarr_checkpoint {
    const NAMES: (&'static str, &'static str) = ("checkpoint", "directory");

    fn open(directory: &str, words: Result<&str>, ranks: Box<dyn Comm>) -> Result<Self> {
        let made = words.and_then(|words| {
            let mut options = Options {
                #[cfg(feature = "files")]
                find: knarr_formats::layout::read,
                ..Options::default()
            };
            text::each(words, |key, value| options.set(key, value))?;
            Ok((Engine::new(knarr_native::codecs()?), options))
        });
        Ok(Self { checkpoints: Checkpoints::open(ranks, Path::new(directory), made)? })
    }

    fn fail(&mut self, error: &Error) {
        self.checkpoints.fail(error);
    }

    fn close(self) -> Result<()> {
        self.checkpoints.close()
    }
}

impl knarr_checkpoint {
    pub(crate) fn begin(&mut self, step: i64) -> Result<()> {
        self.checkpoints.begin(counted(step)?)
    }

    pub(crate) fn add_file(&mut self, path: &str, name: Option<&str>) -> Result<()> {
        let path = Path::new(path);
        let own = path.file_name().and_then(|name| name.to_str());
        let name = name.or(own).ok_or_else(|| Error::usage(format!("'{}' has no file name", path.display())))?;
        self.checkpoints.add_file(path, name)
    }

    pub(crate) fn restart(&mut self, step: i64, is_verified: bool) -> Result<Option<knarr_restart>> {
        let step = if step == KNARR_LATEST { None } else { Some(counted(step)?) };
        let ranks = self.checkpoints.ranks();
        Ok(self.checkpoints.restart(step, is_verified)?.map(|restart| knarr_restart { restart, ranks }))
    }
}

/// The newest checkpoint that is whole, for knarr_checkpoint_restart().
pub const KNARR_LATEST: i64 = -1;

fn counted(step: i64) -> Result<u64> {
    u64::try_from(step).map_err(|_| Error::usage(format!("step {step}")).hint("steps are counted from 0"))
}

impl knarr_restart {
    /// Step, and number of ranks that made the checkpoint.
    pub(crate) fn about(&self) -> (u64, u64) {
        (self.restart.step(), self.restart.ranks())
    }

    /// Type and shape of an array, and whether it is global.
    pub(crate) fn describe(&self, name: &str) -> Result<(ArraySpec, bool)> {
        let described = self.restart.describe(name)?;
        let is_global = described.shape.is_some();
        let shape = match described.shape {
            Some(shape) => shape,
            None => self.restart.own_shape(name, self.ranks.0)?,
        };
        let shape = shape.into_iter().map(|n| usize::try_from(n).unwrap_or(usize::MAX)).collect::<Vec<_>>();
        Ok((ArraySpec::new(described.dtype, shape), is_global))
    }

    /// Reads a region that begins at `start`, or the array that this rank had of its own.
    pub(crate) fn read(&self, name: &str, wanted: &ArraySpec, start: Option<Vec<u64>>, out: &mut [u8]) -> Result<()> {
        let (stored, is_global) = self.describe(name)?;
        let refuse = |why: String| Error::usage(format!("array '{name}': {why}"));
        if stored.dtype != wanted.dtype {
            return Err(refuse(format!("its elements are {}, not {}", stored.dtype, wanted.dtype))
                .hint("ask knarr_restart_describe() for the type"));
        }
        let count: Vec<u64> = wanted.shape.iter().map(|&n| n as u64).collect();
        if is_global {
            let start = start.unwrap_or_else(|| vec![0; count.len()]);
            return self.restart.read(name, &Region { start, count }, out);
        }
        if start.is_some() || stored.shape != wanted.shape {
            return Err(refuse(format!("this rank had it of its own, of shape {:?}", stored.shape))
                .hint("pass no 'start', and the whole shape as 'count'"));
        }
        self.restart.read_own(name, self.ranks.0, out)
    }

    pub(crate) fn restore_files(&self, directory: &str, force: bool) -> Result<()> {
        self.restart.restore_files(Path::new(directory), self.ranks, force).map(drop)
    }
}
