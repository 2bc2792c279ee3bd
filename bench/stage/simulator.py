"""A simulation of one of n equal nodes: ranks, cores, tiers, a mover, and encoding in the caller or behind the program.

Discrete events. All ranks write their tasks of a step side by side, then compute; all nodes do the same at the same
time, so that a tier which nodes share gives each an equal part of its rate. A device takes one thing after another,
as the token buckets of the measured runs do. Raw memory has the rate of a copy. Encoding behind the program runs on
idle cores; on a core that computes only if it is urgent, and then computing loses that time.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from . import prices
from .codecs import NONE, Codec
from .hcompress import Rule, Weights


@dataclass(frozen=True)
class Machine:
    ranks: int
    cores: int
    copy_rate: float
    """Bytes a second that all ranks together copy to memory."""
    names: tuple[str, ...]
    capacity: tuple[float, ...]
    """Of each tier, a node's part; the last one is not asked."""
    rate: tuple[float, ...]


@dataclass(frozen=True)
class Load:
    steps: int
    tasks: int
    """Of a rank and step."""
    task_bytes: int
    compute_s: float

    def step_bytes(self, machine: Machine) -> int:
        return self.tasks * self.task_bytes * machine.ranks


@dataclass
class Outcome:
    blocked_s: float = 0.0
    durable_s: float = 0.0
    total_s: float = 0.0
    stored_bytes: float = 0.0
    taken_s: float = 0.0
    """Core-seconds that computing has lost."""
    in_tier: dict[str, float] = field(default_factory=dict)
    """The most that lay in each tier."""


@dataclass
class Job:
    raw: float
    codec: Codec
    held: list[tuple[int, float]]
    left: float
    """Core-seconds."""


class Node:
    """Devices, what lies where, and what goes on behind the program."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.last = machine, len(machine.rate) - 1
        self.now, self.free_at = 0.0, [0.0] * len(machine.rate)
        self.used, self.most = [0.0] * len(machine.rate), [0.0] * len(machine.rate)
        self.jobs: deque[Job] = deque()
        self.waits: deque[tuple[int, float, float]] = deque()
        self.moving: tuple[float, int, float, float] | None = None
        self.stored, self.placed_at = 0.0, 0.0
        self.taken = 0.0

    def room(self, tier: int) -> float:
        return self.machine.capacity[tier] - self.used[tier] if tier < self.last else float("inf")

    def hold(self, tier: int, count: float) -> None:
        self.used[tier] += count
        self.most[tier] = max(self.most[tier], self.used[tier])

    def device(self, tier: int, count: float, begin: float) -> float:
        rate = self.machine.copy_rate if tier == 0 and self.last > 0 else self.machine.rate[tier]
        self.free_at[tier] = max(self.free_at[tier], begin) + count / rate
        return self.free_at[tier]

    def direct(self, count: float, begin: float) -> float:
        """To the last tier, past the others."""
        self.stored += count
        self.placed_at = max(self.placed_at, self.device(self.last, count, begin))
        return self.free_at[self.last]

    def advance(self, until: float, cores: float) -> None:
        """Lets the mover and the encoders go on, these on so many cores."""
        while self.now < until:
            if self.moving is None and self.waits:
                tier, count, reserved = self.waits.popleft()
                read = self.device(tier, count, self.now) if tier > 0 else self.now
                self.moving = (max(read, self.device(self.last, count, self.now)), tier, count, reserved)
            job = self.jobs[0] if self.jobs and cores > 0 else None
            ends = [until, self.moving[0] if self.moving else until, self.now + job.left / cores if job else until]
            at = max(min(ends), self.now)
            if job:
                job.left -= (at - self.now) * cores
            self.now = at
            if self.moving and self.moving[0] <= at:
                _, tier, count, reserved = self.moving
                self.used[tier] -= reserved
                self.stored += count
                self.placed_at, self.moving = max(self.placed_at, at), None
            if job and job.left <= 1e-9:
                self.encoded(self.jobs.popleft())

    def encoded(self, job: Job) -> None:
        for tier, count in job.held:
            self.used[tier] -= count
            if tier > 0:
                self.device(tier, count, self.now)
        stored = job.raw / job.codec.ratio
        for tier in range(1, self.last):
            if stored <= self.room(tier):
                self.hold(tier, stored)
                self.device(tier, stored, self.now)
                self.waits.append((tier, stored, stored))
                return
        self.direct(stored, self.now)

    def next_change(self) -> float:
        """When something is done behind the program, if all cores encode."""
        ends = [self.moving[0]] if self.moving else []
        ends += [self.now + self.jobs[0].left / self.machine.cores] if self.jobs else []
        return min(ends, default=self.now + 1e-3) + 1e-9


class Policy:
    """What a rank does with a task at a time, and when it may go on."""

    def write(self, node: Node, count: float, begin: float) -> float:
        raise NotImplementedError

    def begin_step(self, node: Node, count: float) -> None:
        """So many bytes are to be written."""

    def share(self, node: Node, computing: bool) -> float:
        return 0.0


class Direct(Policy):
    """BASE without a codec, STWC with one: the program encodes and writes to the last tier."""

    def __init__(self, codec: Codec = NONE) -> None:
        self.codec = codec

    def write(self, node: Node, count: float, begin: float) -> float:
        return node.direct(count / self.codec.ratio, begin + count * self.codec.encode)


class Placed(Policy):
    """Placed by the uncompressed size, as Hermes does: MTNC without a codec; with one, the caller encodes first."""

    def __init__(self, codec: Codec = NONE) -> None:
        self.codec = codec

    def parts(self, node: Node, count: float) -> list[tuple[float, int, Codec]]:
        parts, left = [], count
        for tier in range(node.last + 1):
            part = min(left, node.room(tier))
            if part > 0:
                parts.append((part, tier, self.codec))
                left -= part
        return parts

    def reserved(self, part: float, _stored: float) -> float:
        """As if nothing had shrunk: this is what the paper shows of Hermes."""
        return part

    def write(self, node: Node, count: float, begin: float) -> float:
        end = begin
        for part, tier, codec in self.parts(node, count):
            stored, begin = part / codec.ratio, begin + part * codec.encode
            if tier == node.last:
                end = max(end, node.direct(stored, begin))
                continue
            reserved = self.reserved(part, stored)
            node.hold(tier, reserved)
            node.waits.append((tier, stored, reserved))
            end = max(end, node.device(tier, stored, begin))
        return max(end, begin)


class HCompress(Placed):
    """The paper's recursion, for each task."""

    def __init__(self, codecs: list[Codec], weights: Weights, machine: Machine) -> None:
        rates = [machine.copy_rate, *machine.rate[1:]] if len(machine.rate) > 1 else list(machine.rate)
        self.rule = Rule([NONE, *codecs], [rate / machine.ranks for rate in rates], weights)

    def reserved(self, _part: float, stored: float) -> float:
        return stored

    def parts(self, node: Node, count: float) -> list[tuple[float, int, Codec]]:
        found = self.rule.decide(int(count), [node.room(tier) for tier in range(node.last + 1)])
        return [(part.raw_bytes, part.tier, self.rule.codecs[part.codec]) for part in found]


class Behind(Policy):
    """Ranks copy to memory, and a process encodes: one codec (fixed), or what Knarr's rule chooses for each step."""

    def __init__(self, levels: list[Codec], objective: str = "blocked") -> None:
        self.levels, self.objective, self.cadence = levels, objective, prices.Cadence()
        self.codec, self.choosing = levels[0], 0.0

    def begin_step(self, node: Node, count: float) -> None:
        """The level of a file is chosen when it is begun, and its parts are encoded as they come if ranks wait."""
        self.cadence.came(count, node.now)
        index = 0
        if len(self.levels) > 1:
            idle = min(max(node.machine.cores - node.machine.ranks, 0), 1)
            index = prices.level(self.levels, count, self.outlook(node, idle), self.objective)
        self.codec = self.levels[index]
        self.choosing = self.codec.choosing

    def write(self, node: Node, count: float, begin: float) -> float:
        left, at, written, held = count, begin, 0.0, []
        while left > 1e-6:
            for tier in range(node.last):
                codec = self.spilled(node, tier)
                part = min(left, node.room(tier) * codec.ratio)
                if part > 0:
                    node.hold(tier, part / codec.ratio)
                    held.append((tier, part / codec.ratio))
                    written += part
                    at = node.device(tier, part / codec.ratio, at + part * codec.encode)
                    left -= part
            if left > 1e-6 and not node.jobs and node.moving is None and not node.waits:
                at, left = node.direct(left / self.codec.ratio, at + left * self.codec.encode), 0.0
            if left > 1e-6:
                node.advance(max(node.next_change(), at), node.machine.cores)
                at = max(at, node.now)
        node.jobs.append(Job(written, self.codec, held, written * self.codec.encode + self.choosing))
        self.choosing = 0.0
        return at

    def spilled(self, node: Node, tier: int) -> Codec:
        """What a rank does to values that find no memory: it encodes them if that takes less time than writing them."""
        light, rank_rate = self.levels[0], node.machine.rate[tier] / node.machine.ranks
        saved = (1 - 1 / light.ratio) / rank_rate if tier > 0 else 0.0
        return light if saved > light.encode else NONE

    def outlook(self, node: Node, idle: float) -> prices.Outlook:
        machine = node.machine
        room = sum(machine.capacity[1 : node.last])
        queued = sum(count for _, count, _ in node.waits) + (node.moving[2] if node.moving else 0.0)
        come = self.cadence.to_come(node.now, machine.rate[-1])
        memory = machine.capacity[0] if node.last else 0.0
        return prices.Outlook(
            queued, **come, memory=memory, room=room, drain=machine.rate[-1], idle_cores=idle, cores=machine.cores
        )

    def share(self, node: Node, computing: bool) -> float:
        """Cores that encode now."""
        machine = node.machine
        if not computing:
            return machine.cores
        idle = max(machine.cores - machine.ranks, 0)
        waiting = sum(job.raw for job in node.jobs)
        urgent = bool(node.jobs) and prices.is_urgent(waiting, self.outlook(node, idle), self.objective)
        return max(min(idle, 1), 1.0 if urgent else 0.0)


def simulate(machine: Machine, load: Load, policy: Policy) -> Outcome:
    node, outcome = Node(machine), Outcome()
    idle = max(machine.cores - machine.ranks, 0)
    for _ in range(load.steps):
        begin = node.now
        policy.begin_step(node, load.step_bytes(machine))
        ranks = [(begin, rank, load.tasks) for rank in range(machine.ranks)]
        heapq.heapify(ranks)
        end = begin
        while ranks:
            at, rank, left = heapq.heappop(ranks)
            # A rank that copies leaves no core to those behind the program; one that waits does, in `write`.
            node.advance(at, 0.0)
            done = policy.write(node, load.task_bytes, at)
            end = max(end, done)
            if left > 1:
                heapq.heappush(ranks, (done, rank, left - 1))
        node.advance(end, 0.0)
        outcome.blocked_s += end - begin
        until = end + load.compute_s
        while node.now < until - 1e-9:
            share = policy.share(node, computing=True)
            before, busy = node.now, bool(node.jobs)
            node.advance(min(until, node.now + max(load.compute_s / 20, 1e-3)), share)
            if busy:
                outcome.taken_s += max(share - idle, 0.0) * (node.now - before)
    outcome.total_s = node.now
    while node.jobs or node.waits or node.moving:
        node.advance(node.next_change(), policy.share(node, computing=False))
    outcome.durable_s = max(node.placed_at, outcome.total_s - load.compute_s)
    outcome.stored_bytes = node.stored
    outcome.in_tier = dict(zip(machine.names, node.most, strict=True))
    return outcome
