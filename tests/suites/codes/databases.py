"""SQLite databases in all journal modes, written by one process or by several at once.

databases.py modes | writers | readers
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

MODES = ("delete", "truncate", "persist", "memory", "wal", "off")
SHARED = ("delete", "truncate", "wal")
"""Modes in which several processes write at once."""
ROWS = 40
WRITERS = 3


def opened(name: str, how: str = "rwc") -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(f"file:{name}?mode={how}", uri=True, timeout=60))


def ask(database: sqlite3.Connection, question: str) -> object:
    return database.execute(question).fetchone()


def modes() -> None:
    for mode in MODES:
        name = f"{mode}.db"
        with opened(name) as database:
            database.execute(f"pragma journal_mode={mode}")
            database.execute("create table t(i integer primary key, s text, b blob)")
            rows = [(number, f"row {number}", bytes(number % 50)) for number in range(20_000)]
            with database:
                database.executemany("insert into t values (?, ?, ?)", rows)
                database.execute("create index s on t(s)")
        with opened(name) as database:
            database.execute(f"pragma journal_mode={mode}")
            if mode != "off":
                database.execute("update t set s = 'never'")
                database.rollback()
            with database:
                database.execute("update t set s = 'new ' || i where i % 5 = 0")
                database.execute("delete from t where i % 7 = 0")
            database.execute("vacuum")
            database.execute(f"attach 'attached_{name}' as other")
            with database:
                database.execute("create table other.u as select * from t limit 100")
            with opened(f"backup_{name}") as backup:
                database.backup(backup)
        for each in (name, f"attached_{name}", f"backup_{name}"):
            with opened(each, "ro") as database:
                print(each, ask(database, "pragma integrity_check"), flush=True)
        dump = subprocess.run(["sqlite3", name, ".dump"], capture_output=True, check=True).stdout
        print(name, len(dump), flush=True)


def write(name: str, writer: int) -> None:
    """Opens the database anew for each row."""
    for row in range(ROWS):
        with opened(name) as database, database:
            database.execute("insert into t values (?, ?, zeroblob(500))", (writer, row))
        time.sleep(0.01)


def read(name: str) -> None:
    """Keeps the database open, and looks into it while others write."""
    seen = 0
    until = time.monotonic() + 20
    with opened(name, "ro") as database:
        while seen < ROWS * WRITERS and time.monotonic() < until:
            (count,) = ask(database, "select count(*) from t")
            if count < seen:
                raise SystemExit(f"{count} rows after {seen}")
            seen = count
            time.sleep(0.01)
    print("a reader has seen", seen, flush=True)


def at_once(roles: list[str]) -> None:
    for mode in SHARED:
        name = f"{mode}.db"
        with opened(name) as database:
            database.execute(f"pragma journal_mode={mode}")
            database.execute("create table t(writer, row, b)")
        started = [subprocess.Popen([sys.executable, __file__, name, role]) for role in roles]
        codes = [process.wait() for process in started]
        with opened(name) as database:
            count = ask(database, "select count(*), count(distinct writer * 1000 + row) from t")
            print(mode, codes, ask(database, "pragma integrity_check"), count, flush=True)


def main() -> None:
    what, *role = sys.argv[1:]
    writers = [str(number) for number in range(WRITERS)]
    if role == ["reader"]:
        read(what)
    elif role:
        write(what, int(role[0]))
    elif what == "modes":
        modes()
    else:
        at_once(writers if what == "writers" else [*writers, "reader"])


if __name__ == "__main__":
    main()
