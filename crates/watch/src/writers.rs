//! Who writes restart files, as far as `/proc` of this machine tells: a file whose process was killed while it was open is
//! not whole, however long it rests.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::steps::{Found, State};
use knarr_capture::processes::{Identity, Stage, end_of, stage, writers_of, writes};

/// What became of the processes that were seen with a file open for writing.
#[derive(Default)]
pub struct Writers {
    open: Vec<Writer>,
    /// Files in their last state, with what their process did.
    ended: HashMap<Identity, (State, Ended)>,
    /// Files as they were when their writers were looked for.
    seen: HashMap<Identity, State>,
}

/// A process that has a file open for writing.
struct Writer {
    file: Identity,
    path: PathBuf,
    process: u32,
    /// Stands for the process when its number is another one's; `None` where the kernel has no such thing.
    handle: Option<OwnedFd>,
}

/// How a process ended that had a file open when it was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    /// It was killed, or failed.
    Badly(String),
    /// The kernel does not say how.
    Somehow,
}

/// Where a writer is.
enum Now {
    Writing,
    /// It closed the file and went on, or ended in order.
    Done,
    Ended(Ended),
}

impl Writers {
    /// Looks again after those who were seen with a file open. At once when one was closed: a process that lives on was
    /// done with its file, and one that was seen neither alive nor ended between its last two looks could be either.
    pub(crate) fn look_again(&mut self) {
        let Self { open, ended, .. } = self;
        open.retain(|writer| match writer.now() {
            Now::Writing => true,
            Now::Done => false,
            Now::Ended(how) => {
                // It writes no more: what is there is its last state.
                if let Ok(metadata) = writer.path.symlink_metadata() {
                    ended.insert(writer.file, (State::of(&metadata), how));
                }
                false
            }
        });
    }

    /// Takes note of who has which of the files open.
    pub(crate) fn look(&mut self, found: &[Found]) {
        self.look_again();
        let Self { open, ended, seen } = self;
        let states: HashMap<Identity, State> = found.iter().map(|file| (file.state.identity, file.state)).collect();
        // Who wrote to it since is another one.
        ended.retain(|file, (state, _)| {
            states.get(file).is_none_or(|now| now == state || now.modified < state.modified)
        });
        let new: HashSet<Identity> =
            states.iter().filter(|(file, state)| seen.get(*file) != Some(*state)).map(|(file, _)| *file).collect();
        for (process, file) in writers_of(&new) {
            let is_known = open.iter().any(|writer| (writer.process, writer.file) == (process, file));
            let path = found.iter().find(|found| found.state.identity == file).map(|found| found.path.clone());
            if let Some(path) = path.filter(|_| !is_known) {
                open.push(Writer { file, path, process, handle: handle_of(process) });
            }
        }
        *seen = states;
    }

    /// Why the file in this state cannot be whole.
    pub(crate) fn torn(&self, file: &State) -> Option<String> {
        match self.ended.get(&file.identity) {
            Some((state, Ended::Badly(how))) if state == file => Some(how.clone()),
            _ => None,
        }
    }

    /// True if the process that wrote the file ended, and nothing says how.
    pub(crate) fn ended_somehow(&self, file: &State) -> bool {
        matches!(self.ended.get(&file.identity), Some((state, Ended::Somehow)) if state == file)
    }
}

impl Writer {
    fn now(&self) -> Now {
        let writes = writes(self.process, &HashSet::from([self.file]));
        let stage = stage(self.process);
        let has_ended = match &self.handle {
            Some(handle) => is_readable(handle),
            None => stage == Stage::Ended,
        };
        match (has_ended, stage) {
            (true, _) => self.end(),
            (false, Stage::Alive) if !writes => Now::Done,
            // One that is ending closes its files first.
            (false, _) => Now::Writing,
        }
    }

    fn end(&self) -> Now {
        let told = || self.handle.as_ref().and_then(|handle| knarr_native::wait_status(handle.as_fd()));
        // Its parent may ask at any moment; from then on the other one says it.
        match told().or_else(|| end_of(self.process)).or_else(told) {
            Some(0) => Now::Done,
            Some(status) => Now::Ended(Ended::Badly(match (status & 0x7F, status >> 8) {
                (0, code) => format!("process {} failed with exit code {code}", self.process),
                (signal, _) => format!("process {} was killed by signal {signal}", self.process),
            })),
            None => Now::Ended(Ended::Somehow),
        }
    }
}

fn handle_of(process: u32) -> Option<OwnedFd> {
    let process = Pid::from_raw(i32::try_from(process).ok()?)?;
    pidfd_open(process, PidfdFlags::empty()).ok()
}

/// True if a process has ended, whether or not its parent knows.
fn is_readable(handle: &OwnedFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    /// A process that has written to a file and does as it is told.
    struct Program(Child, PathBuf);

    impl Program {
        fn start(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("knarr-writers-{name}-{}", std::process::id()));
            let text = format!("exec 3>'{}'; echo half >&3; echo; read line; eval \"$line\"", path.display());
            let mut child = Command::new("sh");
            let mut child = child.args(["-c", &text]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
            Self(child, path)
        }

        fn found(&self) -> Vec<Found> {
            let state = State::of(&self.1.metadata().unwrap());
            vec![Found { step: 1, rank: 0, path: self.1.clone(), state, age: Duration::ZERO, created: None }]
        }

        /// Has it do something, and returns what is known of the file then: why it is torn, if it is.
        fn does(mut self, words: &str, reaped: bool) -> Option<String> {
            use std::io::Write;
            let mut writers = Writers::default();
            writers.look(&self.found());
            assert_eq!(writers.open.len(), 1);
            writeln!(self.0.stdin.take().unwrap(), "{words}").unwrap();
            if reaped {
                self.0.wait().unwrap();
            } else {
                std::thread::sleep(Duration::from_millis(300));
            }
            writers.look(&self.found());
            let state = self.found().remove(0).state;
            // An older kernel does not say how a process ended that its parent has asked for.
            let torn = writers.torn(&state).or_else(|| writers.ended_somehow(&state).then(|| "somehow".to_owned()));
            let _ = self.0.kill();
            let _ = self.0.wait();
            std::fs::write(&self.1, "another one wrote it").unwrap();
            writers.look(&self.found());
            assert_eq!(writers.torn(&self.found()[0].state), None);
            std::fs::remove_file(&self.1).unwrap();
            torn
        }
    }

    #[test]
    fn a_file_is_torn_if_its_process_was_killed_or_failed() {
        assert!(Program::start("killed").does("kill -9 $$", false).unwrap().contains("signal 9"));
        assert!(Program::start("failed").does("exit 3", false).unwrap().contains("exit code 3"));
        assert_eq!(Program::start("ended").does("exit 0", false), None);
        assert_eq!(Program::start("closed").does("exec 3>&-; sleep 5", false), None);
        assert!(Program::start("reaped").does("kill -9 $$", true).is_some());
    }

    #[test]
    fn a_file_that_is_closed_before_the_end_is_whole() {
        let program = Program::start("then");
        let mut writers = Writers::default();
        writers.look(&program.found());
        let mut child = program.0;
        use std::io::Write;
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "exec 3>&-; read line").unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let state = State::of(&program.1.metadata().unwrap());
        let found = Found { step: 1, rank: 0, path: program.1.clone(), state, age: Duration::ZERO, created: None };
        writers.look(std::slice::from_ref(&found));
        assert!(writers.open.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        writers.look(&[found]);
        assert_eq!(writers.torn(&state), None);
        std::fs::remove_file(&program.1).unwrap();
    }
}
