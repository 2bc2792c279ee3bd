//! How a process ended that is not a child of this one.

use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct pidfd_info` of `linux/pidfd.h`, in the size that Linux 6.15 gave it.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    /// Process, thread group, parent, and the ids of user and group, real, effective, saved and of the file system.
    ids: [u32; 11],
    exit_code: i32,
    coredump: [u32; 2],
}

/// `PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)` of the size above.
const GET_INFO: libc::Ioctl = 0xC000_0000 | (size_of::<Info>() as libc::Ioctl) << 16 | 0xFF << 8 | 11;
/// `PIDFD_INFO_EXIT`.
const EXIT: u64 = 1 << 3;

/// The wait status of the process that `process`, a descriptor of `pidfd_open`, stands for: 0 if it ended in order.
/// `None` as long as its parent has not asked for it, and where the kernel (before Linux 6.15) keeps none.
pub fn wait_status(process: BorrowedFd<'_>) -> Option<i32> {
    let mut info = Info { mask: EXIT, ..Info::default() };
    // SAFETY: the descriptor is open, and the kernel writes no more than the size in the request, which is that of `info`.
    let done = unsafe { libc::ioctl(process.as_raw_fd(), GET_INFO, &raw mut info) };
    (done == 0 && info.mask & EXIT != 0).then_some(info.exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};
    use std::process::{Command, Stdio};

    #[test]
    fn processes_say_how_they_ended() {
        for (words, status) in [("exit 0", 0), ("exit 3", 3 << 8), ("kill -9 $$", 9)] {
            let mut shell = Command::new("sh");
            let mut child = shell.args(["-c", &format!("read line; {words}")]).stdin(Stdio::piped()).spawn().unwrap();
            let id = libc::pid_t::try_from(child.id()).unwrap();
            // SAFETY: the call takes two numbers, and returns a descriptor that nobody else has.
            let process = unsafe {
                let opened = libc::syscall(libc::SYS_pidfd_open, id, 0);
                OwnedFd::from_raw_fd(i32::try_from(opened).unwrap())
            };
            assert_eq!(wait_status(process.as_fd()), None);
            drop(child.stdin.take());
            child.wait().unwrap();
            let found = wait_status(process.as_fd());
            // Older kernels do not say.
            assert!(found == Some(status) || found.is_none(), "{words}: {found:?}");
        }
    }
}
