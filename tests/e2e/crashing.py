"""Makes processes crash that Knarr has for its work: a library that, preloaded, acts where they open certain files."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# Aborts at files whose name begins with "crash"; if a file called "once" lies beside them, only the first time.
# Waits at all files as long as one called "held" lies beside them.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_worker(void) {
  char words[64] = {0};
  FILE *file = fopen("/proc/self/cmdline", "r");
  size_t len = file ? fread(words, 1, sizeof words - 1, file) : 0;
  if (file) fclose(file);
  return len > 6 && strcmp(words + strlen(words) + 1, "worker") == 0;
}

static void look(const char *path) {
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  char held[4096];
  snprintf(held, sizeof held, "%.*sheld", (int)(name - path), path);
  if (access(held, F_OK) == 0 && is_worker())
    while (access(held, F_OK) == 0) usleep(10000);
  if (strncmp(name, "crash", 5) != 0 || !is_worker()) return;
  char once[4096];
  snprintf(once, sizeof once, "%.*sonce", (int)(name - path), path);
  if (access(once, F_OK) == 0) {
    snprintf(once, sizeof once, "%.*scrashed", (int)(name - path), path);
    if (mkdir(once, 0700) != 0) return;
  }
  abort();
}

#define OPEN(NAME)                                                                  \
  int NAME(const char *path, int flags, ...) {                                      \
    va_list list;                                                                   \
    va_start(list, flags);                                                          \
    int mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, int) : 0;             \
    va_end(list);                                                                   \
    look(path);                                                                     \
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #NAME);                  \
    return real(path, flags, mode);                                                 \
  }
OPEN(open)
OPEN(open64)
"""


def library(folder: Path) -> Path:
    """Builds it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler: run 'make setup' as root, or install gcc")
    (folder / "crashing.c").write_text(SOURCE)
    built = folder / "crashing.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", folder / "crashing.c", "-o", built, "-ldl"], check=True)
    return built


def workers(process: int) -> Iterator[int]:
    """Processes that `process` has for its work."""
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError, IndexError):
            continue
        if parent == process and words[1:2] == [b"worker"]:
            yield int(entry.name)
