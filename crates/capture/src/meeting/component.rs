//! Which components there are, and which launchers each of them has: one on each node of its program.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::names::{ADDRESS, ENDED, RUNNING, name_of, numbers};
use crate::document::get;

/// Locked for a moment by launchers that come and go.
const DOOR: &str = "door";
/// A launcher that goes may still be there so long.
const MOMENT: Duration = Duration::from_millis(200);
/// How long others may come and go, one after the other.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    /// Of this launcher.
    number: u64,
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

fn living(directory: &Path) -> Vec<u64> {
    let lives = |number: &u64| lives(directory, *number) == Some(true);
    numbers(directory, RUNNING).into_iter().filter(lives).collect()
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
            let is_with = |other: Launcher| other.run == who.run && other.node != who.node;
            let is_other = |number: &&u64| {
                let other = get::<Launcher>(&directory, &name_of(RUNNING, **number));
                !other.ok().flatten().is_some_and(is_with)
            };
            if living.iter().any(|number| is_other(&number)) {
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
            if living.is_empty() {
                clear(&directory);
            }
            let number = numbers(&directory, RUNNING).last().map_or(1, |last| last + 1);
            let running = run(&directory, number, who).map_err(|error| Error::write(&directory, &error))?;
            return Ok(Self { rendezvous: rendezvous.to_owned(), directory, number, _running: running });
        }
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

    fn path(&self, what: &str) -> PathBuf {
        self.directory.join(name_of(what, self.number))
    }
}

/// Removes what an earlier run has left.
fn clear(directory: &Path) {
    for what in [RUNNING, ENDED, ADDRESS] {
        for number in numbers(directory, what) {
            let _ = fs::remove_file(directory.join(name_of(what, number)));
        }
    }
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
        for what in [ADDRESS, ENDED, RUNNING] {
            let _ = fs::remove_file(self.path(what));
        }
        if living(&self.directory).is_empty() {
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
        let mut presence = None;
        for number in numbers(&directory, RUNNING) {
            match lives(&directory, number) {
                None => {}
                Some(false) => return Self::Absent,
                Some(true) if directory.join(name_of(ENDED, number)).exists() => {
                    presence = presence.or(Some(Self::Ended));
                }
                Some(true) => presence = Some(Self::Running),
            }
        }
        presence.unwrap_or(Self::Absent)
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
        fs::write(rendezvous.join("a").join("running.9"), serde_json::to_vec(&launcher("1", "w")).unwrap()).unwrap();
        assert_eq!(of(), Presence::Absent);
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
