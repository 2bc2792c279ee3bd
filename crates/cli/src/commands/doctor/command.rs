//! Other programs' answers, within a time limit.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Standard output of a program that ends well within `limit`; `None` if it is not there, fails or takes longer.
pub(super) fn answer(program: impl AsRef<OsStr>, arguments: &[&str], limit: Duration) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // The pipe is emptied beside the wait, so that a long answer cannot block the program.
    let mut pipe = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).map(|_| text)
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begin.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let text = reader.join().ok()?.ok()?;
    status.success().then(|| String::from_utf8_lossy(&text).trim().to_owned())
}

/// As [`answer`], for small tools that answer at once.
pub(super) fn quick(program: &str, arguments: &[&str]) -> Option<String> {
    answer(program, arguments, Duration::from_secs(3)).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_time_or_not_at_all() {
        assert_eq!(quick("echo", &["1.14"]), Some("1.14".to_owned()));
        assert_eq!(quick("false", &[]), None);
        assert_eq!(quick("no-such-program", &[]), None);
        assert_eq!(answer("sleep", &["60"], Duration::from_millis(30)), None);
    }
}
