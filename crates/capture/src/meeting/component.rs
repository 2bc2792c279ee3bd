//! Which components there are, and which launchers each of them has: one on each node of its program.
//!
//! The directory lies on a file system that all nodes share, where each question takes long. So nobody looks at every launcher:
//! each looks whether the next one lives, and what it finds is marked in the directory ([`Component::look_after_next`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use knarr_array::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::names::{ADDRESS, ENDED, NODE, RUNNING, in_directory, name_of, numbers};
use crate::document::get;
use crate::settled::settled;
use knarr_array::path_bytes;

/// Locked for a moment by launchers that come and go. Empty unless one of them was killed: on a network file system what a file
/// has that is opened is new, while a file of a new name may not be seen for a minute.
const DOOR: &str = "door";
/// A launcher that goes may still be there so long.
const MOMENT: Duration = Duration::from_millis(200);
/// How long others may come and go, one after the other.
const DOOR_OPENS_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Launchers whose looks a file system bears: some hundred questions a second.
const FEW: usize = 64;

/// A launcher that enters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Launcher {
    /// Launchers of one run are one component together.
    pub run: String,
    /// Its node, which no other launcher of the run has.
    pub node: String,
    /// The spool of its node; empty if it has none.
    #[serde(with = "path_bytes", default)]
    pub spool: PathBuf,
    /// No other spool has this, on whatever node.
    #[serde(default)]
    pub token: String,
    /// Launchers that say the same here reach each other at the loopback.
    #[serde(default)]
    pub network: Option<String>,
    /// The addresses of its node.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
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
    let file = settled(|| File::open(&path)).ok()?;
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
    knarr_link::number_of(node.as_bytes())
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

/// Makes the directory in which components meet if it is not there. It is refused if others than this user could change what is
/// in it: programs believe it.
fn make_rendezvous(rendezvous: &Path) -> Result<()> {
    let place = |error: Error| error.at(rendezvous.display().to_string());
    match fs::DirBuilder::new().mode(0o700).create(rendezvous) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let what = "the directory in which 'rendezvous' is to be made is not there";
            return Err(place(Error::new(ErrorKind::Config, what).hint("correct 'rendezvous', or make the directory")));
        }
        Err(error) => return Err(Error::write(rendezvous, &error)),
    }
    let found = match fs::metadata(rendezvous) {
        // The last one that was there has removed it at this moment.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return make_rendezvous(rendezvous),
        found => found.map_err(|error| Error::read(rendezvous, &error))?,
    };
    if !found.is_dir() {
        let what = "'rendezvous' is no directory";
        return Err(place(Error::new(ErrorKind::Config, what).hint("name a directory that is not there yet")));
    }
    if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & 0o022 != 0 {
        let what = "'rendezvous' belongs to another user, or others may write to it";
        let hint = "name a directory of your own that others cannot write to, or one that is not there yet";
        return Err(place(Error::new(ErrorKind::Config, what).hint(hint)));
    }
    Ok(())
}

/// Refuses to be a component of which there are launchers on other nodes, where nobody can tell whether these live.
fn refuse_local_locks(directory: &Path, who: &Launcher) -> Result<()> {
    let launcher = |number| get::<Launcher>(directory, &name_of(RUNNING, number)).ok().flatten();
    let mut others = numbers(directory, RUNNING).into_iter().filter_map(launcher);
    match others.find(|other| other.node != who.node) {
        Some(other) if super::locks::has_local_locks(directory) => {
            let what = format!(
                "the file system keeps locks on one node only, so nobody can tell whether the 'knarr run' of node '{}' lives",
                other.node
            );
            let hint = "mount it with locks that all nodes share (flock), or let 'rendezvous' be on another file system; what \
                        a run has left that is gone may be removed";
            Err(Error::new(ErrorKind::Config, what).hint(hint).at(directory.display().to_string()))
        }
        _ => Ok(()),
    }
}

/// Locks the door of a component, whose directory is made if it is not there.
fn lock_door(rendezvous: &Path, directory: &Path) -> Result<File> {
    let write_error = |error: std::io::Error| Error::write(directory, &error);
    let begin = Instant::now();
    let path = directory.join(DOOR);
    let open = || {
        match fs::create_dir(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        File::options().create(true).truncate(false).write(true).open(&path)
    };
    loop {
        match open() {
            // Who was there removes the directory at this moment, and perhaps that in which it is.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => make_rendezvous(rendezvous)?,
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
        if begin.elapsed() > DOOR_OPENS_WITHIN {
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
    /// `Exists` if another run is that component; `Config` if others may change what is in the directory; `Write`.
    pub fn enter(rendezvous: &Path, name: &str, who: &Launcher) -> Result<Self> {
        let directory = rendezvous.join(name);
        let begin = Instant::now();
        make_rendezvous(rendezvous)?;
        loop {
            let door = lock_door(rendezvous, &directory)?;
            let living = living(&directory);
            let is_with = |number: u64| {
                let other = get::<Launcher>(&directory, &name_of(RUNNING, number)).ok().flatten();
                other.is_some_and(|other| other.run == who.run)
            };
            let node = number_of(&who.node);
            refuse_local_locks(&directory, who)?;
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

    /// True if the launcher with this number has not left.
    pub fn is_there(rendezvous: &Path, name: &str, number: u64) -> bool {
        rendezvous.join(name).join(name_of(RUNNING, number)).exists()
    }

    /// True if the launcher with this number was killed; one that leaves takes its file along.
    pub fn was_killed(rendezvous: &Path, name: &str, number: u64) -> bool {
        let (directory, begin) = (rendezvous.join(name), Instant::now());
        // Locks of one that ends go one after the other.
        while lives(&directory, number) == Some(true) && begin.elapsed() < MOMENT {
            std::thread::sleep(Duration::from_millis(1));
        }
        lives(&directory, number) == Some(false)
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
    let _ = fs::remove_dir_all(super::published_sessions::files(directory));
    let _ = fs::remove_dir_all(super::sessions_read::taken(directory));
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
        let _door = lock_door(&self.rendezvous, &self.directory);
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Presence {
    /// No run is that component, or one of its launchers was killed.
    #[default]
    Absent,
    /// Its program runs.
    Running,
    /// Its program has ended, and its launchers wait for those that read its files.
    Ended,
}

/// What the directory of a component says of its launchers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Those that are there, by their numbers.
    pub launchers: BTreeMap<u64, Launcher>,
    /// Those whose program has ended.
    pub ended: BTreeSet<u64>,
    /// Those that answer other nodes.
    pub answering: BTreeSet<u64>,
    /// One of them was killed.
    pub is_lost: bool,
    /// It lives, of those that were asked.
    pub lives: bool,
}

impl Listed {
    /// What that of the component `name` in the directory `rendezvous` says. Launchers that are `known` are not read again: they
    /// stay as they are, and no other one has their numbers; so does all if nobody can tell what is there. `lives` says of a launcher whether it lives, if that can be told
    /// without the file system that all nodes share.
    pub fn read(rendezvous: &Path, name: &str, known: &Self, lives: impl Fn(&Launcher) -> Option<bool>) -> Self {
        let directory = rendezvous.join(name);
        let mut found = Self::default();
        let mut running = Vec::new();
        let names = match in_directory(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return known.clone(),
            names => names.unwrap_or_default(),
        };
        for name in names {
            let split = name.to_str().and_then(|name| name.split_once('.'));
            let Some((what, Ok(number))) = split.map(|(what, number)| (what, number.parse::<u64>())) else { continue };
            match what {
                RUNNING => running.push(number),
                ENDED => drop(found.ended.insert(number)),
                ADDRESS => drop(found.answering.insert(number)),
                _ => {}
            }
        }
        running.sort_unstable();
        for number in running {
            let read = || get::<Launcher>(&directory, &name_of(RUNNING, number)).ok().flatten();
            // What cannot be read has gone, or says nothing that is of use now.
            let known = known.launchers.get(&number).filter(|known| **known != Launcher::default());
            let launcher = known.cloned().or_else(read).unwrap_or_default();
            found.launchers.insert(number, launcher);
        }
        // One that goes has taken its file along. The others look after each other.
        let asked =
            |(number, launcher): (&u64, &Launcher)| lives(launcher).or_else(|| self::lives(&directory, *number));
        found.lives = found.launchers.iter().find_map(asked) == Some(true);
        found.is_lost = found.lives && fs::metadata(directory.join(DOOR)).is_ok_and(|door| door.len() > 0);
        found
    }

    /// Whether the component is there.
    pub fn presence(&self) -> Presence {
        let has_ended = || self.launchers.keys().all(|number| self.ended.contains(number));
        match self.lives && !self.is_lost {
            false => Presence::Absent,
            true if has_ended() => Presence::Ended,
            true => Presence::Running,
        }
    }
}

impl Presence {
    /// That of the component `name` in the directory `rendezvous`.
    pub fn of(rendezvous: &Path, name: &str) -> Self {
        Listed::read(rendezvous, name, &Listed::default(), |_| None).presence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(run: &str, node: &str) -> Launcher {
        Launcher { run: run.to_owned(), node: node.to_owned(), ..Launcher::default() }
    }

    #[test]
    fn a_component_is_there_as_long_as_its_run() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-component-{}", std::process::id())).join("meet");
        fs::create_dir_all(rendezvous.parent().unwrap()).unwrap();
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
        fs::create_dir_all(rendezvous.parent().unwrap()).unwrap();
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
        let was_killed = |number: u64| Component::was_killed(&rendezvous, "a", number);
        assert_eq!([three.number + 1, three.number, three.number - 1].map(was_killed), [true, false, false]);
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
    fn what_could_not_be_read_is_read_again() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-read-again-{}", std::process::id()));
        let running = rendezvous.join("a").join(name_of(RUNNING, 3));
        fs::create_dir_all(&running).unwrap();
        let read = |known: &Listed| Listed::read(&rendezvous, "a", known, |_| Some(true));
        let unread = read(&Listed::default());
        assert_eq!(unread.launchers, BTreeMap::from([(3, Launcher::default())]));
        fs::remove_dir(&running).unwrap();
        fs::write(&running, serde_json::to_vec(&launcher("1", "n")).unwrap()).unwrap();
        let known = read(&unread);
        assert_eq!(known.launchers, BTreeMap::from([(3, launcher("1", "n"))]));
        fs::write(&running, "{}").unwrap();
        assert_eq!(read(&known), known);
        // A directory that cannot be listed has as many as before, one that is gone has none.
        fs::remove_dir_all(rendezvous.join("a")).unwrap();
        fs::write(rendezvous.join("a"), "").unwrap();
        assert_eq!(read(&known), known);
        fs::remove_file(rendezvous.join("a")).unwrap();
        assert_eq!(read(&known), Listed::default());
        fs::remove_dir_all(rendezvous).unwrap();
    }

    #[test]
    fn many_that_come_and_go_at_once_do_not_get_in_each_others_way() {
        let rendezvous = std::env::temp_dir().join(format!("knarr-door-{}", std::process::id())).join("meet");
        fs::create_dir_all(rendezvous.parent().unwrap()).unwrap();
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

    #[test]
    fn a_rendezvous_is_ones_own_and_no_name_is_made_by_mistake() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("knarr-rendezvous-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let enter = |rendezvous: &Path| Component::enter(rendezvous, "a", &launcher("1", "n")).map(drop);
        let refused = |rendezvous: &Path, said: &str| {
            let error = enter(rendezvous).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(said) && error.advice().is_some(), "{error}");
        };
        refused(&folder.join("misspelt/meet"), "is not there");
        fs::write(folder.join("file"), b"").unwrap();
        refused(&folder.join("file"), "no directory");
        let open = folder.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        refused(&open, "others may write");
        std::os::unix::fs::symlink(&open, folder.join("link")).unwrap();
        refused(&folder.join("link"), "others may write");
        enter(&folder.join("own")).unwrap();
        // Others may read what is in it, but for secrets.
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        enter(&folder.join("link")).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
