"""The models of scale in `bench/`: bytes are conserved, limits are right, errors are those that the documents say."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import output_scale
import scale_sources
import scale_tables
import transfer_scale
from output_scale import RANKS, WAYS, cost

KEPT = {"io": "2026-11-27", "transfer": "2026-11-26", "write": "2026-11-25"}
"""The runs that the documents speak of: what is measured later must not fail tests."""


def kept(kind: str) -> tuple[Path, dict]:
    path = scale_sources.RUNS / f"{KEPT[kind]}-x86_64-2core-{kind}.json"
    return path, json.loads(path.read_text())


newest, scale_sources.newest = scale_sources.newest, kept
MEASURED = scale_sources.measured_output()
MACHINE = output_scale.machine(MEASURED)
FOUND = transfer_scale.simulate()
WIDTH = 80


def owners(side: tuple[int, int], grid: tuple[int, int]) -> np.ndarray:
    """The rank of each cell."""
    axes = [
        np.repeat(np.arange(n), np.diff(transfer_scale.divided(cells, n))) for cells, n in zip(side, grid, strict=True)
    ]
    return axes[0][:, None] * grid[1] + axes[1][None, :]


@pytest.mark.parametrize(
    ("side", "writers", "readers"),
    [((8, 8), (2, 2), (2, 2)), ((8, 8), (2, 2), (1, 3)), ((7, 11), (3, 4), (5, 2)), ((5, 6), (2, 3), (8, 1))],
)
def test_an_exchange_is_that_of_single_cells(
    side: tuple[int, int], writers: tuple[int, int], readers: tuple[int, int]
) -> None:
    found = transfer_scale.exchange(side, writers, readers)
    cells = np.zeros((math.prod(writers), math.prod(readers)), int)
    np.add.at(cells, (owners(side, writers).ravel(), owners(side, readers).ravel()), 1)
    assert found.sent.tolist() == cells.sum(1).tolist()
    assert found.received.tolist() == cells.sum(0).tolist()
    assert found.messages_out.tolist() == (cells > 0).sum(1).tolist()
    assert found.messages_in.tolist() == (cells > 0).sum(0).tolist()
    assert found.sent.sum() == found.received.sum() == math.prod(side)


def test_both_programs_read_what_the_other_one_writes() -> None:
    volumes = transfer_scale.fitted_volumes()
    for members, table in scale_sources.DTF_TABLES.values():
        for processes in table:
            written, back, read = transfer_scale.amounts(processes, members, volumes)
            assert 0 < back < read < written


def test_three_ways_are_fitted_exactly() -> None:
    site = output_scale.fit(1000.0, 0.25, 2.0, 5.0, 9.0)
    assert output_scale.pnetcdf(site) == pytest.approx(2)
    assert output_scale.netcdf4(site) == pytest.approx(5)
    assert output_scale.gather_deflate(site) == pytest.approx(9)
    # A quarter of the bytes, the calls, and half of the 8.5 s that one core deflates.
    assert output_scale.netcdf4_deflate(site, 2) == pytest.approx(0.5 + 3 + 4.25)


def test_without_latency_and_with_infinite_rates_nothing_is_left() -> None:
    rates = ("plain_rate", "deflate_rate", "link", "copy_rate", "encode_rate")
    ideal = replace(MACHINE, calls=0, latency=0, surplus=0, record=0, **dict.fromkeys(rates, math.inf))
    for ranks in RANKS:
        for way in WAYS:
            assert cost(way, ranks, ideal).complete == 0
    # Of one term alone, the time is what its rate says.
    ranks = 8192
    only = replace(ideal, link=MACHINE.link)
    assert cost("I/O ranks", ranks, only).blocked == pytest.approx(128 * MACHINE.bytes_per_rank * 16 / MACHINE.link)
    assert cost("Knarr", ranks, only).complete == 0


@pytest.mark.parametrize("way", WAYS)
def test_more_ranks_and_slower_parts_never_take_less_time(way: str) -> None:
    times = [cost(way, ranks, MACHINE) for ranks in (256, 1024, 8192, 131072)]
    for less, more in itertools.pairwise(times):
        assert less.blocked <= more.blocked * (1 + 1e-12)
        assert less.complete < more.complete
    worse = {"plain_rate": 0.5, "deflate_rate": 0.5, "link": 0.5, "copy_rate": 0.5, "encode_rate": 0.5}
    worse |= {"latency": 2, "surplus": 2, "record": 2, "calls": 2, "bytes_per_rank": 2}
    base = cost(way, 8192, MACHINE)
    for name, factor in worse.items():
        other = cost(way, 8192, replace(MACHINE, **{name: factor * getattr(MACHINE, name)}))
        assert other.blocked >= base.blocked, name
        assert other.complete >= base.complete, name


def test_every_quantity_counts_somewhere() -> None:
    base = [cost(way, 8192, MACHINE) for way in WAYS]
    for name, value in asdict(MACHINE).items():
        changed = replace(MACHINE, **{name: 2 * value})
        assert [cost(way, 8192, changed) for way in WAYS] != base, name


@pytest.mark.parametrize("name", ["CESM_DEFLATE_S", "CESM_DEFLATE_AGAIN_S", "CESM_ASYNC_S", "FESOM_968_S"])
def test_published_numbers_are_predicted_without_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = output_scale.checks(MEASURED)
    monkeypatch.setattr(scale_sources, name, 10 * getattr(scale_sources, name))
    after = output_scale.checks(MEASURED)
    assert [row.model for row in before] == [row.model for row in after]
    assert sum(one.known != other.known for one, other in zip(before, after, strict=True)) == 1


def test_what_is_predicted_was_not_fitted() -> None:
    """The known number of a row may be anything: the model of the same row stays as it is."""
    held_out = [("memory", "deflate"), ("disk", "deflate"), ("disk", "knarr"), ("memory", "knarr4"), ("disk", "knarr4")]
    seconds = MEASURED.seconds | {key: 10 * MEASURED.seconds[key] for key in held_out}
    rows = output_scale.checks_here(MEASURED)
    others = output_scale.checks_here(replace(MEASURED, seconds=seconds))
    assert [row.model for row in rows] == [row.model for row in others]
    assert all(other.known == pytest.approx(10 * row.known) for row, other in zip(rows, others, strict=True))


def test_errors_are_within_what_the_documents_say() -> None:
    assert scale_sources.worst(output_scale.checks(MEASURED)).factor < 2.5
    assert scale_sources.worst(output_scale.checks_elsewhere(MEASURED)).factor < 20
    volumes = transfer_scale.fitted_volumes()
    assert scale_sources.worst(transfer_scale.checks_bytes(volumes)).factor < 1.02
    assert scale_sources.worst(transfer_scale.checks_knarr(FOUND.knarr)).factor < 1.4


def test_what_the_dtf_paper_says_holds() -> None:
    assert [row.says for row in FOUND.statements if not row.holds] == []
    last = {(one.site, one.scaling): one for one in FOUND.points}
    strong = last["Fugaku", "strong"]
    assert (strong.processes, 1 / strong.dtf, 1 / strong.file) == (5120, pytest.approx(10), pytest.approx(2))


def test_index_and_logs_of_today_grow_with_the_ranks_of_a_file() -> None:
    today = [one for one in FOUND.cycles if one.layout == "today"]
    assert [one.records for one in today] == [
        one.processes // 2 // one.members * (scale_sources.DTF_WRITTEN + scale_sources.DTF_BACK) for one in today
    ]
    assert len({one.records for one in FOUND.cycles if one.layout == "divided"}) == 1


def test_the_newest_results_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_sources, "RUNS", tmp_path)
    for name in ("2026-01-02-x-io", "2026-03-01-y-io", "2026-09-09-x-io-scale", "2026-09-09-x-audio"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name}))
    path, run = newest("io")
    assert path.name == "2026-03-01-y-io.json"
    assert run == {"name": "2026-03-01-y-io"}
    with pytest.raises(SystemExit, match=r"run\.py transfer"):
        newest("transfer")


def test_tables_fit_a_terminal_and_name_every_quantity() -> None:
    checks = [*output_scale.checks(MEASURED), *output_scale.checks_elsewhere(MEASURED), *FOUND.checks]
    tables = [
        output_scale.table(output_scale.costs(MACHINE)),
        scale_tables.table_of_checks(checks),
        transfer_scale.table(FOUND.cycles),
        transfer_scale.records_table(FOUND.cycles),
        transfer_scale.statements_table(FOUND.statements),
    ]
    assert [line for table in tables for line in table.markdown().splitlines() if len(line) > WIDTH] == []
    quantities = output_scale.quantities(MEASURED)
    assert set(quantities) == set(asdict(MACHINE))
    assert all(quantity.source for quantity in quantities.values())
