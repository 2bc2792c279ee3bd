//! Which components there are, and which launchers each of them has: one on each node of its program.
//!
//! The directory lies on a file system that all nodes share, where each question takes long. So nobody looks at every launcher:
//! each looks whether the next one lives, and what it finds is marked in the directory ([`Component::look_after_next`]).

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use knarr_array::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::names::{ADDRESS, ENDED, NODE, RUNNING, name_of, numbers};
use crate::document::get;

/// Locked for a moment by launchers that come and go. Empty unless one of them was killed: on a network file system what a file
/// has that is opened is new, while a file of a new name may not be seen for a minute.
const DOOR: &str = "door";
/// A launcher that goes may still be there so long.
const MOMENT: Duration = Duration::from_millis(200);
/// How long others may come and go, one after the other.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Launchers whose looks a file system bears: some hundred questions a second.
const FEW: usize = 64;

/// A launcher that enters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launcher {
    /// Launchers of one run are one component together.
    pub run: String,
    /// Its node, which no other launcher of the run has.
    pub node: String,
}

/// A component of this run, or the part of it that is on this node. Dropping it takes it out of the directory, and with the
/// last part all that the component offered.
#[derive(Debug)]
pub struct Component {
    rendezvous: PathBuf,
    directory: PathBuf,
    /// Of this launcher. No other one has it, nor has had it in an earlier run.
    number: u64,
    node: u64,
    /// Locked as long as this lives.
    _running: File,
}

/// Whether a launcher lives; `None` if it has gone meanwhile.
fn lives(directory: &Path, number: u64) -> Option<bool> {
    let path = directory.join(name_of(RUNNING, number));
    let file = File::open(&path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(true),
        // One that leaves removes the file before it lets go of it.
        _ => path.exists().then_some(false),
    }
}

/// One that lives, if there is any.
fn living(directory: &Path) -> Option<u64> {
    numbers(directory, RUNNING).into_iter().find(|number| lives(directory, *number) == Some(true))
}

/// Names of nodes may have characters that names of files may not.
fn number_of(node: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    node.hash(&mut hasher);
    hasher.finish()
}

/// The number of the first launcher of a run: those of earlier runs are lower.
fn first_number() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(1)
}

/// True if something other than a directory has that name.
fn is_in_the_way(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|found| !found.is_dir())
}

/// Locks the door of a component, whose directory is made if it is not there.
fn lock_door(directory: &Path) -> Result<File> {
    let write_error = |error: std::io::Error| Error::write(directory, &error);
    let begin = Instant::now();
    let path = directory.join(DOOR);
    let open = || {
        fs::create_dir_all(directory)?;
        File::options().create(true).truncate(false).write(true).open(&path)
    };
    loop {
        match open() {
            // Who was there removes the directory at this moment.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && !is_in_the_way(directory) => {}
            Err(error) => return Err(write_error(error)),
            Ok(door) => match door.try_lock() {
                Ok(()) => {
                    let number = |found: fs::Metadata| (found.dev(), found.ino());
                    if door.metadata().ok().map(number) == fs::metadata(&path).ok().map(number) {
                        return Ok(door);
                    }
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(write_error(error)),
            },
        }
        if begin.elapsed() > PATIENCE {
            let what = format!("another 'knarr run' keeps {DOOR} locked");
            return Err(Error::new(ErrorKind::Write, what)
                .hint("it may be stopped: look for it with 'ps'")
                .at(directory.display().to_string()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Component {
    /// Enters the directory `rendezvous` as the component `name`, or as a part of it if other launchers of the run are there.
    /// What an earlier run of that name has left is removed.
    ///
    /// # Errors
    /// `Exists` if another run is that component; `Write`.
    pub fn enter(rendezvous: &Path, name: &str, who: &Launcher) -> Result<Self> {
        let directory = rendezvous.join(name);
        let begin = Instant::now();
        loop {
            let door = lock_door(&directory)?;
            let living = living(&directory);
            let is_with = |number: u64| {
                let other = get::<Launcher>(&directory, &name_of(RUNNING, number)).ok().flatten();
                other.is_some_and(|other| other.run == who.run)
            };
            let node = number_of(&who.node);
            match living {
                None => clear(&directory),
                Some(number) if is_with(number) && !directory.join(name_of(NODE, node)).exists() => {}
                Some(_) => {
                    drop(door);
                    if begin.elapsed() < MOMENT {
                        std::thread::sleep(LOOK_EVERY);
                        continue;
                    }
                    let what = format!("a program runs as component '{name}' already");
                    return Err(Error::new(ErrorKind::Exists, what)
                        .hint("wait until it has ended, or give each program a name of its own with --as")
                        .at(directory.display().to_string()));
                }
            }
            let number = numbers(&directory, RUNNING).last().map_or_else(first_number, |last| last + 1);
            let on_node = directory.join(name_of(NODE, node));
            let entered = fs::write(&on_node, b"").and_then(|()| run(&directory, number, who));
            let running = entered.map_err(|error| {
                let _ = fs::remove_file(&on_node);
                Error::write(&directory, &error)
            })?;
            return Ok(Self { rendezvous: rendezvous.to_owned(), directory, number, node, _running: running });
        }
    }

    /// Between two looks into the directory of a component with so many launchers, each of which does that, if few would do so
    /// after `period`: the file system gets no more questions from many.
    pub fn paced(period: Duration, launchers: usize) -> Duration {
        period.saturating_mul(u32::try_from(launchers / FEW).unwrap_or(u32::MAX).max(1))
    }

    /// The number of launchers that the component `name` has in the directory `rendezvous`.
    pub fn launchers(rendezvous: &Path, name: &str) -> usize {
        numbers(&rendezvous.join(name), RUNNING).len()
    }

    /// Says how other nodes reach the launcher.
    ///
    /// # Errors
    /// `Write`.
    pub fn announce(&self, address: &Address) -> Result<()> {
        address.save(&self.path(ADDRESS))
    }

    /// Directory in which it meets others.
    pub fn rendezvous(&self) -> &Path {
        &self.rendezvous
    }

    /// Notes that the program has ended here: it offers nothing more, and takes nothing more.
    ///
    /// # Errors
    /// `Write`.
    pub fn ended(&self) -> Result<()> {
        let path = self.path(ENDED);
        fs::write(&path, b"").map_err(|error| Error::write(&path, &error))
    }

    /// Looks whether the next launcher of the component lives, in the order of their numbers, and after the last one the first.
    /// All see what one of them has found. To be called again and again; returns the number of launchers.
    pub fn look_after_next(&self) -> usize {
        let numbers = numbers(&self.directory, RUNNING);
        let next = numbers.iter().find(|number| **number > self.number).or(numbers.first());
        if next.is_some_and(|next| lives(&self.directory, *next) == Some(false)) {
            // Where it cannot be written, the next look tries again.
            let _ = fs::write(self.directory.join(DOOR), b"lost");
        }
        numbers.len()
    }

    fn path(&self, what: &str) -> PathBuf {
        self.directory.join(name_of(what, self.number))
    }
}

/// Removes what an earlier run has left.
fn clear(directory: &Path) {
    for what in [RUNNING, ENDED, ADDRESS, NODE] {
        for number in numbers(directory, what) {
            let _ = fs::remove_file(directory.join(name_of(what, number)));
        }
    }
    let _ = File::options().write(true).open(directory.join(DOOR)).and_then(|door| door.set_len(0));
    let _ = fs::remove_dir_all(super::offers::files(directory));
}

/// Makes the file that says that a launcher runs. It is locked before it has its name.
fn run(directory: &Path, number: u64, who: &Launcher) -> std::io::Result<File> {
    let (path, beside) = (directory.join(name_of(RUNNING, number)), directory.join("running.new"));
    let mut running = File::create(&beside)?;
    running.lock()?;
    running.write_all(&serde_json::to_vec(who)?)?;
    fs::rename(beside, path)?;
    Ok(running)
}

impl Drop for Component {
    fn drop(&mut self) {
        // Nothing is left to report a failure to; the next run of that name removes what stays.
        let _door = lock_door(&self.directory);
        let _ = fs::remove_file(self.directory.join(name_of(NODE, self.node)));
        for what in [ADDRESS, ENDED, RUNNING] {
            let _ = fs::remove_file(self.path(what));
        }
        if living(&self.directory).is_none() {
            let _ = fs::remove_dir_all(&self.directory);
            // Only by the last one.
            let _ = fs::remove_dir(&self.rendezvous);
        }
    }
}

/// Whether a component is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// No run is that component, or one of its launchers was killed.
    Absent,
    /// Its program runs.
    Running,
    /// Its program has ended, and its launchers wait for those that read its files.
    Ended,
}

impl Presence {
    /// That of the component `name` in the directory `rendezvous`.
    pub fn of(rendezvous: &Path, name: &str) -> Self {
        let directory = rendezvous.join(name);
        let running = numbers(&directory, RUNNING);
        // One that goes has taken its file along. The others look after each other.
        let lives = running.iter().find_map(|number| lives(&directory, *number));
        let door = || File::open(directory.join(DOOR)).and_then(|door| door.metadata());
        if lives != Some(true) || door().is_ok_and(|door| door.len() > 0) {
            return Self::Absent;
        }
        let ended = numbers(&directory, ENDED);
        if running.iter().all(|number| ended.contains(number)) { Self::Ended } else { Self::Running }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(run: &str, node: &str) -> Launcher {
        Launcher { run: run.to_owned(), node: node.to_owned() }
    }

    #[test]
    fn a_component_is_there_as_long_as_its_run() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-component-{}", std::process::id())).join("meet");
        let of = |name: &str| Presence::of(&rendezvous, name);
        let enter = |name: &str, run: &str| Component::enter(&rendezvous, name, &launcher(run, "n"));
        assert_eq!(of("a"), Presence::Absent);
        let a = enter("a", "1").unwrap();
        assert_eq!((of("a"), of("A"), of("a b")), (Presence::Running, Presence::Absent, Presence::Absent));
        assert_eq!(enter("a", "2").unwrap_err().kind(), ErrorKind::Exists);
        let b = enter("a b", "2").unwrap();
        a.ended().unwrap();
        assert_eq!((of("a"), of("a b")), (Presence::Ended, Presence::Running));
        drop(a);
        assert_eq!((of("a"), of("a b")), (Presence::Absent, Presence::Running));
        drop(b);
        assert!(!rendezvous.exists());
        fs::remove_dir_all(rendezvous.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_launchers_of_a_run_are_one_component() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-launchers-{}", std::process::id())).join("meet");
        let of = || Presence::of(&rendezvous, "a");
        let enter = |run: &str, node: &str| Component::enter(&rendezvous, "a", &launcher(run, node));
        let [one, two, three] = ["x", "y", "z"].map(|node| enter("1", node).unwrap());
        for (run, node) in [("1", "y"), ("2", "y"), ("2", "w")] {
            assert_eq!(enter(run, node).unwrap_err().kind(), ErrorKind::Exists, "{run} {node}");
        }
        one.ended().unwrap();
        two.ended().unwrap();
        assert_eq!(of(), Presence::Running);
        drop(two);
        three.ended().unwrap();
        assert_eq!(of(), Presence::Ended);
        // One that was killed leaves its files, which nobody locks.
        let killed = rendezvous.join("a").join(name_of(RUNNING, three.number + 1));
        fs::write(&killed, serde_json::to_vec(&launcher("1", "w")).unwrap()).unwrap();
        one.look_after_next();
        assert_eq!(of(), Presence::Running, "the next one of this one lives");
        three.look_after_next();
        assert_eq!(of(), Presence::Absent);
        one.look_after_next();
        assert_eq!(of(), Presence::Absent, "what was found stays");
        drop(three);
        assert!(rendezvous.exists());
        drop(one);
        assert!(!rendezvous.exists(), "the last one that lives takes all along");
        // What a run has left of which nobody lives is of no account for the next one.
        fs::create_dir_all(rendezvous.join("a")).unwrap();
        for left in ["running.3", "ended.3", "address.3"] {
            fs::write(rendezvous.join("a").join(left), "{}").unwrap();
        }
        assert_eq!(of(), Presence::Absent);
        let next = enter("2", "x").unwrap();
        assert_eq!(of(), Presence::Running);
        drop(next);
        assert!(!rendezvous.exists());
        fs::remove_dir_all(rendezvous.parent().unwrap()).unwrap();
    }

    #[test]
    fn many_that_come_and_go_at_once_do_not_get_in_each_others_way() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-door-{}", std::process::id())).join("meet");
        std::thread::scope(|scope| {
            for node in 0..8 {
                let rendezvous = &rendezvous;
                scope.spawn(move || {
                    for _ in 0..20 {
                        drop(Component::enter(rendezvous, "a", &launcher("1", &node.to_string())).unwrap());
                    }
                });
            }
        });
        assert!(!rendezvous.exists());
        fs::remove_dir_all(rendezvous.parent().unwrap()).unwrap();
    }
}
