//! The page of names, by the launcher's side and by that of programs.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use knarr_names::{Began, Call, Came, Directory, End, Keeper, Key, Kind, Names, OtherNodes, Over, SpoolName};

/// A folder with a page, removed at the end.
struct Run {
    folder: PathBuf,
    keeper: Option<Keeper>,
}

impl Run {
    fn new(name: &str, limit: Duration) -> Self {
        let folder = std::env::temp_dir().join(format!("knarr-names-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let keeper = Keeper::create(&folder.join("names"), limit, None).unwrap();
        Self { folder, keeper: Some(keeper) }
    }

    fn keeper(&self) -> &Keeper {
        self.keeper.as_ref().unwrap()
    }

    fn names(&self) -> Names {
        self.keeper().names()
    }

    fn here(&self) -> Directory {
        Directory::of(rustix::fs::CWD, self.folder.as_os_str().as_encoded_bytes()).unwrap()
    }

    fn key<'n>(&self, last: &'n str) -> Key<'n> {
        Key::new(last.as_bytes(), self.here())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.keeper.take());
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

const LONG: Duration = Duration::from_secs(60);
const NEW: Kind = Kind { replaces: false, may_be_given_up: true, is_directory: false, is_whole: false };
const OLD: Kind = Kind { replaces: true, ..NEW };

fn place(name: &str) -> SpoolName<'_> {
    SpoolName::new(name.as_bytes()).unwrap()
}

#[test]
fn a_file_in_a_tier_can_be_read_there_until_it_is_in_its_place() {
    let run = Run::new("staged", LONG);
    let (names, keeper, image) = (run.names(), run.keeper(), run.folder.join("0-1.image"));
    for place_of in ["1-0", "1-1"] {
        names.enter(&run.key("a.nc"), place(place_of), NEW);
    }
    let find = || names.find(&run.key("a.nc"), u64::MAX).unwrap();
    keeper.begin(place("1-0"));
    keeper.stage(place("1-0"), &image).unwrap();
    assert!(!names.is_newest(find(), &run.key("a.nc"), u64::MAX) && names.is_newest(find(), &run.key("a.nc"), 1));
    keeper.end(place("1-0"), End::Delivered);
    keeper.begin(place("1-1"));
    let found = find();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| names.wait(found, Call::Open, true));
        std::thread::sleep(Duration::from_millis(50));
        keeper.stage(place("1-1"), &image).unwrap();
        assert_eq!(reader.join().unwrap(), Over::Staged);
        assert_eq!(names.staged(found).unwrap().as_c_str().to_bytes(), image.as_os_str().as_encoded_bytes());
        assert!(names.is_newest(found, &run.key("a.nc"), u64::MAX));
        // Who changes the file waits until it is in its place.
        let writer = scope.spawn(|| names.wait(found, Call::Open, false));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!writer.is_finished());
        keeper.end(place("1-1"), End::Delivered);
        assert_eq!(writer.join().unwrap(), Over::Free);
    });
    assert!(names.staged(found).is_none() && !names.any());
    assert_eq!(std::fs::read_dir(run.folder.join("staged")).unwrap().count(), 0);
}

#[test]
fn a_name_is_pending_from_its_entry_until_it_is_delivered() {
    let run = Run::new("pending", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    assert!(!names.any() && names.find(&run.key("a.nc"), u64::MAX).is_none());
    assert_eq!(names.enter(&run.key("a.nc"), place("1-0"), OLD), Some(1));
    assert_eq!(names.enter(&run.key("b.nc"), place("1-1"), NEW), Some(2));
    assert!(names.any() && names.any_replaces() && names.may_have(b"a.nc") && !names.may_have(b"c.nc"));
    assert!(names.find(&run.key("a.nc"), u64::MAX).is_some() && names.find(&run.key("a.nc"), 0).is_none());
    let elsewhere = Directory::of(rustix::fs::CWD, b"/").unwrap();
    assert!(names.find(&Key::new(b"a.nc", elsewhere), u64::MAX).is_none(), "another directory");
    assert!(
        names.find_in(Some(run.here()), true, u64::MAX).is_some()
            && names.find_in(Some(elsewhere), true, u64::MAX).is_none()
    );
    assert_eq!(keeper.begin(place("1-0")), Began::Yes);
    assert!(names.find(&run.key("a.nc"), u64::MAX).is_some());
    keeper.end(place("1-0"), End::Delivered);
    assert!(names.any() && !names.any_replaces() && !names.may_have(b"a.nc"));
    assert_eq!(names.settle(&run.key("a.nc"), Call::Look), Over::Free);
    names.withdraw(place("1-1"));
    assert!(!names.any() && names.find_in(None, true, u64::MAX).is_none());
}

#[test]
fn names_are_told_apart_to_their_last_byte() {
    let run = Run::new("bytes", LONG);
    let names = run.names();
    let long = "x".repeat(255);
    for (number, name) in [long.as_str(), "12345678", "1234567", ""].into_iter().enumerate() {
        names.enter(&run.key(name), place(&format!("1-{number}")), NEW).unwrap();
    }
    for (name, is_there) in [
        (long.as_str(), true),
        (&long[1..], false),
        ("12345678", true),
        ("123456", false),
        ("1234567", true),
        ("1234567\0", false),
    ] {
        assert_eq!(names.find(&run.key(name), u64::MAX).is_some(), is_there, "{name:?}");
    }
}

#[test]
fn who_waits_goes_on_when_the_file_is_there_and_is_seen_meanwhile() {
    let run = Run::new("waits", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    names.enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run.names().settle(&run.key("a.nc"), Call::Rename));
        let heard = keeper.listen(0, LONG);
        let waits = keeper.waits();
        assert_eq!(
            (waits[0].process, &waits[0].name[..], &waits[0].place[..]),
            (std::process::id(), &b"a.nc"[..], &b"1-0"[..])
        );
        keeper.begin(place("1-0"));
        // A later generation of the same name is another one: who waits for this one does not wait for it.
        names.enter(&run.key("a.nc"), place("1-1"), NEW).unwrap();
        assert!(!waiting.is_finished());
        keeper.end(place("1-0"), End::Delivered);
        assert_eq!(waiting.join().unwrap(), Over::Free);
        keeper.listen(heard, Duration::from_millis(1));
    });
    assert!(keeper.waits().is_empty());
    let waited = keeper.take_waited();
    assert_eq!((waited.len(), waited[0].call, &waited[0].name[..]), (1, Call::Rename, &b"a.nc"[..]));
    assert!(keeper.take_waited().is_empty() && names.any());
}

#[test]
fn what_could_not_be_made_is_an_error_until_something_else_has_the_name() {
    let run = Run::new("failed", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    names.enter(&run.key("a.nc"), place("1-0"), OLD).unwrap();
    keeper.begin(place("1-0"));
    keeper.end(place("1-0"), End::Failed);
    assert_eq!(names.settle(&run.key("a.nc"), Call::Open), Over::Failed);
    assert_eq!(names.settle_in(Some(run.here()), true), Over::Free, "a directory shows what is there");
    // It was tried again.
    keeper.end(place("1-0"), End::Delivered);
    assert!(!names.any());
    names.enter(&run.key("a.nc"), place("1-0"), OLD).unwrap();
    keeper.end(place("1-0"), End::Failed);
    // The program makes another one.
    names.forget(names.find(&run.key("a.nc"), u64::MAX).unwrap());
    assert!(!names.any());
    names.enter(&run.key("a.nc"), place("1-1"), OLD).unwrap();
    keeper.end(place("1-1"), End::Failed);
    names.enter(&run.key("a.nc"), place("1-2"), OLD).unwrap();
    keeper.end(place("1-2"), End::Delivered);
    assert!(!names.any(), "what is handed over later counts");
}

#[test]
fn what_could_not_be_made_does_not_matter_once_a_newer_file_is_there() {
    let run = Run::new("newer", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    for (at, name) in [("1", "a.nc"), ("2", "b.nc"), ("3", "a.nc")] {
        names.enter(&run.key(name), place(at), OLD).unwrap();
    }
    for at in ["1", "2"] {
        keeper.begin(place(at));
        keeper.end(place(at), End::Failed);
    }
    keeper.begin(place("3"));
    keeper.end(place("3"), End::Delivered);
    assert_eq!(names.settle(&run.key("a.nc"), Call::Open), Over::Free);
    assert_eq!(names.settle(&run.key("b.nc"), Call::Open), Over::Failed, "another name");
}

#[test]
fn a_file_is_given_up_or_begun_and_never_both() {
    let run = Run::new("given-up", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    for round in 0..2000 {
        let name = format!("1-{round}");
        names.enter(&run.key("a.nc"), place(&name), NEW).unwrap();
        let found = names.find(&run.key("a.nc"), u64::MAX).unwrap();
        let (began, is_given_up) = std::thread::scope(|scope| {
            let gives_up = scope
                .spawn(|| run.names().hold(found).map(|hold| hold.give_up(["record", "open"], "given-up")).is_some());
            let began = loop {
                match keeper.begin(place(&name)) {
                    Began::Held => std::thread::yield_now(),
                    began => break began,
                }
            };
            (began, gives_up.join().unwrap())
        });
        assert_eq!(is_given_up, began == Began::GivenUp, "round {round}");
        keeper.end(place(&name), End::Delivered);
        assert!(keeper.given_up().is_empty() && !names.any());
    }
    std::fs::create_dir(run.folder.join("1-0")).unwrap();
    std::fs::write(run.folder.join("1-0/record"), b"{}").unwrap();
    names.enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    let found = names.find(&run.key("a.nc"), u64::MAX).unwrap();
    names.hold(found).unwrap().give_up(["record", "open"], "given-up");
    assert!(run.folder.join("1-0/given-up").exists() && !run.folder.join("1-0/record").exists());
    keeper.end(place("1-0"), End::Delivered);
    names.enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    let found = names.find(&run.key("a.nc"), u64::MAX).unwrap();
    names.hold(found).unwrap().keep();
    assert_eq!(keeper.begin(place("1-0")), Began::Yes, "the call has failed");
    keeper.end(place("1-0"), End::Delivered);
    names.enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    let hold = names.hold(names.find(&run.key("a.nc"), u64::MAX).unwrap());
    assert_eq!(keeper.begin(place("1-0")), Began::Held);
    keeper.tidy(|_| false);
    assert_eq!(keeper.begin(place("1-0")), Began::Yes, "the process was killed");
    hold.unwrap().give_up(["record", "open"], "given-up");
    keeper.end(place("1-0"), End::Delivered);
    assert!(!names.any());
    let kept = Kind { may_be_given_up: false, ..NEW };
    names.enter(&run.key("a.nc"), place("1-0"), kept).unwrap();
    assert!(names.hold(names.find(&run.key("a.nc"), u64::MAX).unwrap()).is_none(), "other nodes have a part of it");
}

#[test]
fn a_launcher_that_is_gone_ends_every_wait() {
    let mut run = Run::new("gone", LONG);
    let names = run.names();
    names.enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    let (here, begin) = (run.here(), Instant::now());
    let waiting = std::thread::spawn({
        let names = run.names();
        move || (names.settle(&Key::new(b"a.nc", here), Call::Look), names.settle_in(None, true))
    });
    std::thread::sleep(Duration::from_millis(20));
    drop(run.keeper.take());
    assert_eq!(waiting.join().unwrap(), (Over::Gone, Over::Gone));
    assert!(begin.elapsed() < Duration::from_secs(5) && names.is_launcher_gone());
}

#[test]
fn a_launcher_that_does_not_get_on_is_waited_for_so_long_and_one_that_does_longer() {
    let limit = Duration::from_millis(300);
    let run = Run::new("limit", limit);
    let names = run.names();
    names.enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    let is_done = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 {
                run.keeper().beat();
                std::thread::sleep(limit / 3);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert_eq!(names.settle(&run.key("a.nc"), Call::Look), Over::Gone);
        assert!(is_done.load(Ordering::Relaxed) && begin.elapsed() > limit * 3);
    });
}

#[test]
fn who_finds_no_room_waits_for_it() {
    let run = Run::new("room", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    let mut number = 0;
    while number < 2048 {
        names.enter(&run.key(&format!("{number}.nc")), place(&format!("1-{number}")), NEW).unwrap();
        number += 1;
    }
    std::thread::scope(|scope| {
        let entering = scope.spawn(|| run.names().enter(&run.key("last.nc"), place("2-0"), NEW));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!entering.is_finished());
        keeper.end(place("1-77"), End::Delivered);
        assert_eq!(entering.join().unwrap(), Some(2049));
    });
    (0..number).for_each(|number| keeper.end(place(&format!("1-{number}")), End::Delivered));
    keeper.end(place("2-0"), End::Delivered);
    assert!(!names.any() && !names.may_have(b"0.nc"));
}

#[test]
fn a_file_that_is_no_page_is_none() {
    let run = Run::new("damaged", LONG);
    for bytes in [&b""[..], &[7; 100], &[0; 3 << 20]] {
        let path = run.folder.join("other");
        std::fs::write(&path, bytes).unwrap();
        knarr_names::attach(&path);
        assert!(knarr_names::here().is_none());
    }
    assert!(Keeper::create(&run.folder.join("names"), LONG, None).is_err(), "there is one");
    knarr_names::attach(&run.folder.join("names"));
    run.names().enter(&run.key("a.nc"), place("1-0"), NEW).unwrap();
    assert!(knarr_names::here().is_some_and(Names::any), "programs see what the launcher sees");
}

/// Two nodes that share a directory.
struct Nodes {
    a: Run,
    b: Run,
    shared: PathBuf,
}

impl Nodes {
    fn new(name: &str, limit: Duration) -> Self {
        let shared = std::env::temp_dir().join(format!("knarr-names-{}-{name}-shared", std::process::id()));
        std::fs::create_dir_all(&shared).unwrap();
        let [a, b] = ["a", "b"].map(|node| {
            let folder = std::env::temp_dir().join(format!("knarr-names-{}-{name}-{node}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::File::create(shared.join(format!("launcher-{node}"))).unwrap();
            let tails = [".nc".to_owned(), "x".to_owned()];
            let other_nodes =
                OtherNodes { directory: &shared, launcher: node, tails: &tails, has_stores: false, has_locks: true };
            let keeper = Keeper::create(&folder.join("names"), limit, Some(&other_nodes)).unwrap();
            Run { folder, keeper: Some(keeper) }
        });
        Self { a, b, shared }
    }

    /// As long as this is held, the launcher of the node lives.
    fn alive(&self, node: &str) -> std::fs::File {
        let file = std::fs::File::open(self.shared.join(format!("launcher-{node}"))).unwrap();
        file.lock().unwrap();
        file
    }

    fn notes(&self) -> usize {
        std::fs::read_dir(&self.shared).unwrap().count() - 2
    }

    fn key<'n>(&self, last: &'n str) -> Key<'n> {
        Key::new(last.as_bytes(), self.a.here())
    }

    /// Node a hands a file over.
    fn hand_over(&self, at: &str, kind: Kind) {
        let names = self.a.names();
        let generation = names.enter(&self.key("h.nc"), place(at), kind).unwrap();
        names.notes().unwrap().notify(&self.key("h.nc"), kind.replaces, generation, true).unwrap();
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.shared).unwrap();
    }
}

fn over(found: Result<Came, rustix::io::Errno>) -> (Over, bool) {
    let Came { over, replaces } = found.unwrap();
    (over, replaces)
}

#[test]
fn a_name_that_is_pending_on_another_node_is_waited_for() {
    let nodes = Nodes::new("apart", LONG);
    let _alive = nodes.alive("a");
    let (a, b) = (nodes.a.names(), nodes.b.names());
    let there = b.notes().unwrap();
    assert!(there.concerns(b"h.nc") && there.concerns(b"x") && !there.concerns(b"h.h5") && !there.has_stores());
    assert_eq!(over(there.settle(&nodes.key("h.nc"), Call::Look)), (Over::Free, false));
    nodes.hand_over("1-0", NEW);
    nodes.hand_over("1-1", NEW);
    assert_eq!(nodes.notes(), 1, "one for each name");
    assert!(a.notes().unwrap().find(&nodes.key("h.nc")).unwrap().is_none(), "the page of the node says more");
    assert!(there.find(&nodes.key("h.nc")).unwrap().is_some() && there.find(&nodes.key("i.nc")).unwrap().is_none());
    let elsewhere = Directory::of(rustix::fs::CWD, b"/").unwrap();
    assert!(there.find(&Key::new(b"h.nc", elsewhere)).unwrap().is_none(), "another directory");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| over(nodes.b.names().notes().unwrap().settle(&nodes.key("h.nc"), Call::Open)));
        nodes.b.keeper().listen(0, LONG);
        let waits = nodes.b.keeper().waits();
        assert_eq!((&waits[0].name[..], &waits[0].place[..]), (&b"h.nc"[..], &b""[..]));
        assert!(!waiting.is_finished());
        nodes.a.keeper().begin(place("1-0"));
        nodes.a.keeper().end(place("1-0"), End::Delivered);
        assert_eq!(waiting.join().unwrap(), (Over::Free, false), "the next version is another one");
    });
    assert!(there.find(&nodes.key("h.nc")).unwrap().is_some(), "which is pending yet");
    nodes.a.keeper().end(place("1-1"), End::Delivered);
    assert!(there.find(&nodes.key("h.nc")).unwrap().is_none() && nodes.notes() == 0);
    nodes.hand_over("1-2", NEW);
    a.withdraw(place("1-2"));
    assert_eq!(nodes.notes(), 0, "it is not handed over after all");
}

#[test]
fn what_another_node_could_not_make_is_an_error_until_something_else_has_the_name() {
    let nodes = Nodes::new("apart-failed", LONG);
    let _alive = nodes.alive("a");
    let b = nodes.b.names();
    let there = b.notes().unwrap();
    let settle = || over(there.settle(&nodes.key("h.nc"), Call::Open));
    nodes.hand_over("1-0", OLD);
    nodes.a.keeper().end(place("1-0"), End::Failed);
    assert_eq!(settle(), (Over::Failed, true));
    nodes.hand_over("1-1", OLD);
    nodes.a.keeper().end(place("1-1"), End::Delivered);
    assert_eq!((settle(), nodes.notes()), ((Over::Free, false), 0), "a newer one is there");
    for is_elsewhere in [false, true] {
        nodes.hand_over("1-2", OLD);
        nodes.a.keeper().end(place("1-2"), End::Failed);
        if is_elsewhere {
            there.forget(&nodes.key("h.nc"));
        } else {
            let names = nodes.a.names();
            names.forget(names.find(&nodes.key("h.nc"), u64::MAX).unwrap());
        }
        assert_eq!((settle(), nodes.notes()), ((Over::Free, false), 0), "{is_elsewhere}");
    }
}

#[test]
fn a_launcher_of_another_node_that_is_gone_or_does_not_get_on_ends_every_wait() {
    let limit = Duration::from_millis(300);
    let nodes = Nodes::new("apart-gone", limit);
    let b = nodes.b.names();
    let settle = || over(b.notes().unwrap().settle(&nodes.key("h.nc"), Call::Open));
    nodes.hand_over("1-0", OLD);
    let alive = nodes.alive("a");
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 {
                alive.set_modified(std::time::SystemTime::now()).unwrap();
                std::thread::sleep(limit / 3);
            }
        });
        assert_eq!(settle(), (Over::Gone, true));
    });
    assert!(begin.elapsed() > limit * 3, "it got on for so long");
    drop(alive);
    let begin = Instant::now();
    assert_eq!(settle(), (Over::Gone, true));
    assert!(begin.elapsed() < limit, "it was killed");
    std::fs::remove_file(nodes.shared.join("launcher-a")).unwrap();
    assert_eq!(settle(), (Over::Gone, true));
    std::fs::File::create(nodes.shared.join("launcher-a")).unwrap();
}

#[test]
fn of_two_nodes_that_hand_the_same_name_over_one_waits_for_the_other() {
    let nodes = Nodes::new("apart-both", LONG);
    let _alive = nodes.alive("a");
    nodes.hand_over("1-0", NEW);
    let names = nodes.b.names();
    let generation = names.enter(&nodes.key("h.nc"), place("2-0"), NEW).unwrap();
    // A launcher never waits.
    names.notes().unwrap().notify(&nodes.key("h.nc"), false, generation, false).unwrap();
    std::thread::scope(|scope| {
        let tells = scope
            .spawn(|| nodes.b.names().notes().unwrap().notify(&nodes.key("h.nc"), false, generation, true).is_ok());
        nodes.b.keeper().listen(0, LONG);
        assert!(!tells.is_finished());
        nodes.a.keeper().end(place("1-0"), End::Delivered);
        assert!(tells.join().unwrap());
    });
    assert!(nodes.a.names().notes().unwrap().find(&nodes.key("h.nc")).unwrap().is_some());
    nodes.b.keeper().end(place("2-0"), End::Delivered);
    assert_eq!(nodes.notes(), 0);
    // One that is gone is not waited for.
    drop(_alive);
    nodes.hand_over("1-1", NEW);
    let generation = names.enter(&nodes.key("h.nc"), place("2-1"), NEW).unwrap();
    names.notes().unwrap().notify(&nodes.key("h.nc"), false, generation, true).unwrap();
    nodes.a.keeper().end(place("1-1"), End::Delivered);
    assert_eq!(nodes.notes(), 1, "the note of the other node stays");
}

#[test]
fn a_note_that_could_not_be_taken_away_goes_later() {
    let nodes = Nodes::new("apart-stuck", LONG);
    let _alive = nodes.alive("a");
    nodes.hand_over("1-0", OLD);
    let keeper = nodes.a.keeper();
    assert!(keeper.beats().is_some());
    let note =
        std::fs::read_dir(&nodes.shared).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_symlink());
    let (note, away) = (note.unwrap(), nodes.a.folder.join("away"));
    std::fs::rename(&nodes.shared, &away).unwrap();
    // A link that leads to itself.
    std::os::unix::fs::symlink(&nodes.shared, &nodes.shared).unwrap();
    keeper.end(place("1-0"), End::Delivered);
    assert!(keeper.beats().is_none(), "others are not to wait for ever");
    std::fs::remove_file(&nodes.shared).unwrap();
    std::fs::rename(&away, &nodes.shared).unwrap();
    assert!(note.is_symlink());
    keeper.tidy(|_| true);
    assert!(!note.is_symlink() && keeper.beats().is_some());
}

/// A file that the program itself writes in a tier.
fn written(run: &Run, name: &str, at: &str) -> PathBuf {
    let image = run.folder.join(format!("{at}.image"));
    std::fs::create_dir_all(run.folder.join("staged")).unwrap();
    std::os::unix::fs::symlink(&image, run.folder.join("staged").join(at)).unwrap();
    run.names().enter_written(&run.key(name), place(at), false).unwrap();
    image
}

fn take_for_closed(run: &Run, at: &str) -> bool {
    let lock = run.keeper().lock_written().unwrap();
    run.keeper().take_for_closed(&lock, place(at));
    run.keeper().is_closed(&lock, place(at))
}

#[test]
fn a_file_that_the_program_writes_in_a_tier_is_used_there() {
    let run = Run::new("written", LONG);
    let (names, keeper) = (run.names(), run.keeper());
    let image = written(&run, "a.bin", "0-1");
    let find = || names.find(&run.key("a.bin"), u64::MAX).unwrap();
    let path = |path: &knarr_names::Path| path.as_c_str().to_str().unwrap().to_owned();
    assert!(names.is_whole(find()) && names.is_written(find()) && names.is_written_in(run.here()));
    assert_eq!(names.settle_in(None, true), Over::Free, "what is written is waited for by nobody");
    assert_eq!(names.wait(find(), Call::Open, true), Over::Staged, "it can be read");
    let writing = names.write(find()).unwrap().unwrap();
    assert_eq!(path(&writing.path), image.to_str().unwrap());
    assert!(keeper.lock_written().is_none(), "a process opens it");
    drop(writing);
    // The launcher takes it for closed, and the program opens it again.
    assert!(take_for_closed(&run, "0-1") && !names.is_written_in(run.here()));
    assert_eq!(names.wait(find(), Call::Open, true), Over::Staged);
    drop(names.write(find()).unwrap().unwrap());
    assert_eq!(keeper.begin(place("0-1")), Began::Written);
    assert!(take_for_closed(&run, "0-1"));
    assert_eq!(keeper.begin(place("0-1")), Began::Yes);
    assert!(names.write(find()).unwrap().is_none(), "it is too late");
    assert_eq!(names.wait(find(), Call::Open, true), Over::Staged, "it can be read all the same");
    keeper.stage(place("0-1"), &image).unwrap();
    assert_eq!(names.wait(find(), Call::Open, true), Over::Staged);
    keeper.end(place("0-1"), End::Delivered);
    assert!(!names.any() && !run.folder.join("staged/0-1").exists());
}

#[test]
fn a_file_that_is_written_in_a_tier_gets_another_name_or_is_given_up() {
    let run = Run::new("renamed", LONG);
    let names = run.names();
    written(&run, "a.tmp", "0-1");
    let find = |name: &str| names.find(&run.key(name), u64::MAX);
    let hold = names.hold(find("a.tmp").unwrap()).unwrap();
    assert!(!take_for_closed(&run, "0-1"), "the program uses it");
    assert!(hold.is_for(&run.key("a.tmp")) && hold.enter(&run.key("a.bin"), true).is_some());
    hold.leave();
    assert!(find("a.tmp").is_none() && names.is_written(find("a.bin").unwrap()) && names.any_replaces());
    // A process that is killed while it holds the file has it written.
    std::mem::forget(names.hold(find("a.bin").unwrap()).unwrap());
    run.keeper().tidy(|_| false);
    assert!(names.is_written(find("a.bin").unwrap()));
    // Below a directory that gets another name.
    let lock = names.lock_written().unwrap();
    let all = || names.hold_all(&lock, |path| path.as_c_str().to_bytes().ends_with(b"0-1.image"));
    let holds = all().unwrap();
    assert!(holds.len() == 1 && all().is_none(), "it is held");
    drop(holds);
    assert!(names.is_written(find("a.bin").unwrap()), "a hold that is dropped changes nothing");
    drop(lock);
    std::fs::create_dir(run.folder.join("0-1")).unwrap();
    std::fs::write(run.folder.join("0-1/open"), "").unwrap();
    names.hold(find("a.bin").unwrap()).unwrap().give_up(["record", "open"], "given-up");
    assert!(find("a.bin").is_none() && run.folder.join("0-1/given-up").exists());
    assert_eq!(run.keeper().given_up(), [b"0-1"]);
    run.keeper().end(place("0-1"), End::Delivered);
    assert!(run.keeper().given_up().is_empty() && !names.any() && !names.any_replaces());
}

#[test]
fn names_of_files_that_are_written_in_tiers_are_listed() {
    let run = Run::new("listed", LONG);
    written(&run, "a.bin", "0-1");
    run.names().enter(&run.key("b.nc"), place("1-0"), NEW).unwrap();
    let mut found = Vec::new();
    run.names().whole_in(run.here(), |name| found.push(name));
    assert_eq!(found, [b"a.bin"]);
    assert_eq!(run.names().longest_written(), None);
    run.keeper().closed_written(1);
    run.keeper().closed_written(5 << 20);
    assert_eq!(run.names().longest_written(), Some(5 << 20));
}
