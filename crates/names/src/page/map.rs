//! The page in the memory of a process. All unsafe code of this crate is here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::page::{MARK, Page};

/// Makes the file of a page. All its bytes are set aside: who touched one that finds no room would be killed.
pub(crate) fn create(path: &Path) -> io::Result<(File, &'static Page)> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let bytes = || rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size_of::<Page>() as u64);
    let made = bytes().map_err(io::Error::from).and_then(|()| map(file.as_fd()));
    let page = made.inspect_err(|_| drop(std::fs::remove_file(path)))?;
    Ok((file, page))
}

/// The page in a file, if it is one that a launcher has made.
pub(crate) fn open(file: BorrowedFd<'_>) -> io::Result<&'static Page> {
    if rustix::fs::fstat(file)?.st_size != size_of::<Page>() as i64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let page = map(file)?;
    if page.head.mark.load(Ordering::Acquire) != MARK {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(page)
}

fn map(file: BorrowedFd<'_>) -> io::Result<&'static Page> {
    let (access, length) = (ProtFlags::READ | ProtFlags::WRITE, size_of::<Page>());
    // SAFETY: new addresses are asked for, which nothing else uses.
    let address = unsafe { mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)? };
    // SAFETY: so many bytes are mapped there, and stay so as long as the process lives; the beginning of a page of memory
    // suits every type. A page consists of atomic numbers, for which any bytes are right, whoever changes them. The file is in a
    // directory of this user, and nobody makes it shorter.
    Ok(unsafe { &*address.cast::<Page>() })
}
