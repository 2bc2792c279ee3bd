"""Ranks of a program that are threads of one process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any


class Ranks:
    """A communicator whose ranks are threads, with the methods of mpi4py that Knarr uses."""

    def __init__(self, size: int, local: threading.local | None = None) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=120)
        self.slots: list[Any] = [None] * size
        self.queues: list[list[queue.Queue[Any]]] = [[queue.Queue() for _ in range(size)] for _ in range(size)]
        self.local = threading.local() if local is None else local
        self.is_free = False

    def Get_rank(self) -> int:  # noqa: N802
        return self.local.rank

    def Get_size(self) -> int:  # noqa: N802
        return self.size

    def Dup(self) -> Ranks:  # noqa: N802
        return self.allgather(Ranks(self.size, self.local))[0]

    def Free(self) -> None:  # noqa: N802
        self.is_free = True

    def allgather(self, value: Any) -> list[Any]:
        self.slots[self.local.rank] = value
        self.barrier.wait()
        values = list(self.slots)
        self.barrier.wait()
        return values

    def send(self, value: Any, dest: int) -> None:
        self.queues[self.local.rank][dest].put(value)

    def recv(self, source: int) -> Any:
        return self.queues[source][self.local.rank].get(timeout=120)


def on_ranks(size: int, work: Callable[[Ranks, int], Any], comm: Ranks | None = None) -> list[Any]:
    """What ``work`` returns or raises on each of so many ranks."""
    comm = Ranks(size) if comm is None else comm
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        comm.local.rank = rank
        try:
            results[rank] = work(comm, rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
