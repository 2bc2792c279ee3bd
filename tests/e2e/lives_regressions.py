"""Calls whose failure once lost something, left something behind or never ended. Each is tried in every run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from injecting import Fault
from lives import LIVES
from lives_trial import Lived, Lives


@dataclass(frozen=True)
class Regression:
    """A call that failed in a life, and what was wrong then."""

    what: str
    life: str
    victim: str
    call: str
    about: str
    """Pattern of what the call is about."""
    before: int
    """How many such calls come before it."""
    action: str
    """How it fails."""
    is_unnoticed: bool = False
    """Another try succeeds, and nobody is told of anything."""

    def lived(self, lives: Lives) -> Lived:
        life = next(life for life in LIVES if life.name == self.life)
        calls = lives.calls(life, self.victim)
        calls = [one for one in calls if one.name == self.call and re.search(self.about, one.about)]
        lived = lives.live(life, Fault(life.victim(self.victim), calls[self.before], self.action))
        if self.is_unnoticed and (lived.codes or lived.code != 0):
            lived.wrong.append(f"TOLD: exit code {lived.code}, {', '.join(lived.codes)}")
        return lived


REGRESSIONS = [
    Regression(
        "a link to a staged file took it along", "pnetcdf, staged", "launcher", "unlink", "set-aside", 0, "kill"
    ),
    Regression("a copy took the staged file along", "pnetcdf, staged", "launcher", "unlink", "/image$", 0, "EBUSY"),
    Regression("a staged file was waited for", "serial, staged", "launcher", "openat", "TOP/tier$", -1, "EMFILE+"),
    Regression("a staged spool stayed", "pnetcdf, staged", "launcher", "fchmod", "knarr[.]json", 0, "EIO"),
    Regression("a failed put discarded the file", "pnetcdf", "rank 0", "fallocate", "/values", 0, "EINTR"),
    Regression("rank 0 waited for rank 1", "pnetcdf, two ranks", "rank 0", "read", "libknarr_mpi", 0, "EIO"),
    Regression("rank 1 waited for rank 0", "pnetcdf, two ranks", "rank 0", "openat", "/header[.]nc", -1, "ENOSPC"),
    Regression("a reader was not answered", "pnetcdf, read again", "launcher", "rename", "outcome[.]json", 0, "ENOSPC"),
    Regression("older values stayed", "pnetcdf, created twice", "worker", "pread", "/header[.]nc", 0, "EIO"),
    Regression("older values were read", "pnetcdf, changed again", "worker", "fdatasync", "TOP/work/", 1, "ENOSPC"),
    Regression(
        "draining twice lost some", "pnetcdf, stopped", "launcher", "unlinkat", "/dev/shm/.*/values", 0, "ENOMEM"
    ),
    Regression("a spool without puts stayed", "pnetcdf", "rank 0", "openat", "/values", 0, "kill"),
    Regression("a log that was begun was damaged", "pnetcdf", "rank 0", "flock", "/log[.]", 0, "kill"),
    Regression("half a spool stayed", "pnetcdf", "launcher", "mkdir", "/free", 0, "ENOSPC"),
    Regression("a header without a copy was lost", "serial", "rank 0", "rename", "header[.]new", 0, "ENOSPC+"),
    Regression(
        "a link that was not read left its file", "serial, small memory", "launcher", "readlink", "more$", 0, "EIO"
    ),
    Regression("half a spool stayed on a disk", "pnetcdf, spilled", "launcher", "mkdir", "/free", 0, "kill"),
    Regression("an unread record was none", "pnetcdf", "launcher", "openat", "handed-over", 0, "EMFILE+"),
    Regression("signals were not read", "pnetcdf", "launcher", "recvfrom", "socket", 3, "ENOMEM"),
    Regression("the end was not heard of", "pnetcdf", "launcher", "sendto", "launcher.sock", 0, "ENOBUFS"),
    Regression("a worker could not answer", "pnetcdf", "worker", "sendto", "socket", 2, "ENOBUFS"),
    Regression("a complete file was refused", "pnetcdf", "worker", "fsync", "TOP/work$", 0, "EIO"),
    Regression("a thread of the launcher was a panic", "pnetcdf", "launcher", "clone3", "new thread", 2, "EAGAIN"),
    Regression("a thread of the worker was a panic", "pnetcdf", "worker", "clone3", "new thread", 2, "EAGAIN"),
    Regression("spilled values stayed", "pnetcdf, spilled", "launcher", "unlink", "[.]knarr/knarr-spool", 0, "EBUSY"),
    Regression("a program in wait was awaited", "pnetcdf, created twice", "launcher", "clone3", "thread", 2, "EAGAIN+"),
    Regression("a dataset was unknown", "hdf5, created twice", "rank 0", "openat", "/header[.]new", 1, "EMFILE+"),
    Regression("ranks did not agree on a flush", "netcdf, two ranks", "rank 0", "pwrite", "/header[.]#", -2, "ENOSPC"),
    Regression("a packed file was newer", "hdf5, created twice", "rank 0", "openat", "libknarr_mpi", 0, "EDQUOT"),
    Regression("half a plan stayed", "pnetcdf", "launcher", "fsync", "knarr[.]json", 0, "kill"),
    Regression("a lost session was no failure", "pnetcdf, transferred", "rank 0 w", "pwrite", "/values", 4, "EDQUOT"),
    Regression("no thread for S3 was a panic", "pnetcdf, in a bucket", "launcher", "clone3", "thread", 1, "EAGAIN"),
    Regression("values had no header", "hdf5, two ranks", "rank 0", "rename", "/header[.]nc", 0, "kill"),
    Regression("values had no header on their node", "hdf5, two nodes", "rank 0", "rename", "/header[.]nc", 0, "kill"),
    Regression("a part was removed and missed", "pnetcdf, two nodes", "rank 1", "fallocate", "/values", 0, "kill"),
    Regression("an unread record was forgotten", "pnetcdf, fits nowhere", "launcher", "openat", "/names", 0, "ENOSPC+"),
    Regression("the first part was missed", "pnetcdf, two nodes", "rank 0", "fallocate", "/values", 0, "kill"),
    Regression(
        "a writer of this node was on another",
        "pnetcdf, kept, too",
        "launcher r",
        "read",
        "spool-#-#/launcher$",
        2,
        "EIO",
        True,
    ),
    Regression(
        "a file in its place was missed", "pnetcdf", "launcher", "statx", "TOP/work/hist_#.nc$", 0, "ENOMEM", True
    ),
    Regression(
        "a part of a whole file stayed",
        "pnetcdf, two nodes",
        "launcher a",
        "unlink",
        "/#-#/handed-over.json$",
        0,
        "kill",
    ),
    Regression(
        "a rank opened a file alone", "hdf5, reopened by ranks", "rank 0", "openat", "/datasets[.]json$", 0, "EROFS+"
    ),
    Regression(
        "a worker that crashed left its file",
        "hdf5, reopened by ranks",
        "worker",
        "pwrite",
        "TOP/[.]knarr/",
        5,
        "ENOSPC",
    ),
    Regression("what was not so was told", "pnetcdf, kept, too", "launcher r", "openat", "/#-#/made", 1, "ENOSPC+"),
    Regression(
        "a part that was not begun was missed", "hdf5, two nodes", "rank 1", "pwrite", "/open.json.new$", 0, "kill"
    ),
    Regression("a part without a first one stayed", "pnetcdf, two nodes", "rank 0", "openat", "TOP/work$", 0, "kill"),
    Regression("a mark stayed", "hdf5, two nodes", "rank 0", "unlink", "/header-#-#-#[.]begin$", 0, "kill"),
    Regression("a note stayed", "hdf5, two nodes", "launcher b", "unlink", "/made-#-#-#[.]#$", 0, "EIO"),
    Regression("the mark of a store stayed", "pnetcdf, in a bucket", "worker", "writev", "socket", -1, "EINTR"),
    Regression("logs on the disk stayed", "output library", "rank 0", "pwrite", "/log$", 0, "ENOSPC+"),
    Regression("a node was not told", "pnetcdf, nodes, twice", "launcher a", "openat", "handed-over", 0, "EMFILE+"),
    Regression(
        "a file that was replaced was owed", "pnetcdf, nodes, twice", "launcher a", "openat", "/packed/#-#$", 0, "kill"
    ),
    Regression(
        "values had no list on their node",
        "hdf5, two nodes",
        "rank 0",
        "ftruncate",
        "/datasets[.]json[.]new$",
        0,
        "ENOSPC+",
    ),
    Regression("an earlier header was gone", "pnetcdf", "rank 0", "pwrite", "/header[.]nc$", -1, "short"),
]
