//! The plan of an output, saved beside it for `knarr explain`.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_choose::plan::{FileState, Plan, VERSION};
use knarr_flow::output::AtomicFile;
use serde::Deserialize;

/// Where the plan of an output is saved: beside it, `NAME.knarr.json`.
pub fn plan_path(output: &Path) -> PathBuf {
    let mut name = output.file_name().map(std::ffi::OsStr::to_os_string).unwrap_or_default();
    name.push(".knarr.json");
    output.with_file_name(name)
}

/// What the plans of every version have.
#[derive(Deserialize)]
struct Any {
    version: u32,
    program: String,
}

/// Refuses an output whose plan would replace a file that is no plan, unless by `force`.
///
/// # Errors
/// `Exists` with the name of the file; `Write` if the plan cannot have its name.
pub fn refuse_other_plan(output: &Path, force: bool) -> Result<()> {
    let path = plan_path(output);
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename => {
            return Err(Error::new(ErrorKind::Write, "the name of the plan beside the output would be too long")
                .hint("choose a shorter name for the output")
                .at(path.display().to_string()));
        }
        Err(_) => return Ok(()),
        Ok(_) if force => return Ok(()),
        Ok(_) => {}
    }
    let held = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Any>(&text).ok());
    if held.is_some_and(|plan| plan.version > 0 && plan.program.starts_with("knarr ")) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Exists, "the plan of the output goes there, and what is there is no plan of Knarr's")
        .hint("move it away, choose another name for the output, or replace both with --force")
        .at(path.display().to_string()))
}

/// The plan that is meant by `file`: an output, or the plan beside it.
pub fn named_plan(file: &Path) -> PathBuf {
    if file.to_string_lossy().ends_with(".json") { file.to_owned() } else { plan_path(file) }
}

/// Reads a plan.
///
/// # Errors
/// `NotFound` or `Read` if the file cannot be read, `Corrupt` if it is no plan, `Unsupported` if it is of a later version.
pub fn read_plan(path: &Path) -> Result<Plan> {
    let here = |error: Error| error.at(path.display().to_string());
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::read(path, &error)
            .hint("give an output of 'knarr repack', which saves its plan beside it, or 'knarr advise' the file")
    })?;
    let any: Any =
        serde_json::from_str(&text).map_err(|error| {
            here(Error::corrupt(format!("not a plan: {error}")).hint(
                "give an output of 'knarr repack' or the NAME.knarr.json beside it; 'knarr advise' makes a new plan",
            ))
        })?;
    if any.version > VERSION {
        return Err(here(Error::unsupported(format!("a plan of version {}", any.version)).hint("use a newer Knarr")));
    }
    serde_json::from_str(&text).map_err(|error| {
        here(Error::corrupt(format!("a damaged plan: {error}")).hint("make it again by repacking the file"))
    })
}

/// True if `output` is there and its plan says that it was made from the file `input` as it is now.
pub fn is_made_from(output: &Path, input: &Path) -> bool {
    /// What plans say of their input.
    #[derive(Deserialize)]
    struct Made {
        input_file: FileState,
    }
    let made = || serde_json::from_slice::<Made>(&std::fs::read(plan_path(output)).ok()?).ok();
    output.exists() && FileState::of(input).is_some_and(|now| made().is_some_and(|made| made.input_file == now))
}

/// Saves the plan beside the output, in place of an older one.
///
/// # Errors
/// `Write` if it cannot be written.
pub fn save_plan(plan: &Plan, output: &Path) -> Result<()> {
    PlanFile::start(plan, output)?.written()?.publish(output)
}

/// A plan on its way to its place. Its own thread writes and syncs it, so that who makes the output meanwhile does not
/// wait for the disk. Dropped, it leaves nothing.
pub(crate) struct PlanFile {
    temporary: AtomicFile,
    written: JoinHandle<std::io::Result<()>>,
    path: PathBuf,
}

/// A plan that is on the disk, and has not got its name yet.
pub(crate) struct WrittenPlan(AtomicFile);

impl WrittenPlan {
    /// Puts the plan in its place. It holds names and ranges of the data of `output`, and so has the permissions of that.
    ///
    /// # Errors
    /// `Write`.
    pub(crate) fn publish(mut self, output: &Path) -> Result<()> {
        if let Ok(output) = output.metadata() {
            self.0.set_mode(output.permissions().mode() & 0o666);
        }
        self.0.publish_synced()
    }
}

impl PlanFile {
    /// # Errors
    /// `Write` if there cannot be a file.
    pub(crate) fn start(plan: &Plan, output: &Path) -> Result<Self> {
        let path = plan_path(output);
        if path.is_dir() {
            return Err(Error::new(ErrorKind::Write, "the plan of the output goes there, and it is a directory")
                .hint("remove it, or choose another name for the output")
                .at(path.display().to_string()));
        }
        let text = serde_json::to_vec_pretty(plan).map_err(|error| Error::internal(error.to_string()))?;
        let mut temporary = AtomicFile::create(&path, true)?;
        if let Ok(replaced) = output.metadata() {
            temporary.limit_mode(replaced.permissions().mode() | 0o600)?;
        }
        let write = |error: std::io::Error| Error::write(&path, &error);
        let mut file = temporary.file().try_clone().map_err(write)?;
        let written = std::thread::Builder::new()
            .name("knarr-plan".to_owned())
            .spawn(move || file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(write)?;
        Ok(Self { temporary, written, path })
    }

    /// Waits until it is written: it is to be put in its place when the output is in its own.
    ///
    /// # Errors
    /// `Write` if it could not be written.
    pub(crate) fn written(self) -> Result<WrittenPlan> {
        let stopped = || std::io::Error::other("the thread that writes stopped");
        let written = self.written.join().unwrap_or_else(|_| Err(stopped()));
        written.map_err(|error| Error::write(&self.path, &error))?;
        Ok(WrittenPlan(self.temporary))
    }
}
