"""Runs the benchmarks, prints Markdown, and writes raw results to bench/runs/ when complete.

    run.py repack  [--repeats N] [--peers-only] [--goals balanced,...] [--inputs real.nc,...]
    run.py codecs  [--jobs N] [--knarr FILE...]
    run.py choice
    run.py model [--write]
    run.py pipeline [--threads N] [--repeats N]
    run.py rechunk [--repeats N]
    run.py s3 [--repeats N]
    run.py dataset [--repeats N]
    run.py many [--repeats N] [--datasets N] [--commands h5repack,...]
    run.py io [--repeats N]
    run.py io-computing [--repeats N]
    run.py io-slowed [--repeats N]
    run.py io-open [--repeats N]
    run.py io-nodes [--repeats N]
    run.py io-memory
    run.py io-s3 [--repeats N]
    run.py conversion [--repeats N]
    run.py transfer [--repeats N]
    run.py transfer-nodes [--repeats N]
    run.py stage [--repeats N]
    run.py io-scale
    run.py transfer-scale
    run.py memory  [--max-mem 128M]
    run.py plugin
    run.py lossy
    run.py green   [--repeats N]
    run.py library
    run.py auto    [--cases uneven,...]
    run.py checkpoint [--repeats N] [--cases lammps,...] [--goal GOAL] [--max-mem 96M]

No timing is asserted here: numbers are for people to judge, with machine, versions and commands.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import bounded_output
import checkpoint
import checkpoint_auto
import checkpoint_library
import checkpoint_limits
import checkpoint_model
import choices
import codecs_pool
import computing
import conversion
import dataset
import green
import green_plots
import lossy
import many
import model
import names
import object_store
import open_file
import output_page
import output_to_s3
import overhead
import parallel_output
import pipeline
import plugin
import rechunk
import repack
import scale_reports
import several_jobs
import several_nodes
import slowed
import transfer
import transfer_nodes
import writing
from data import INPUTS, write_inputs
from equality import require_equal
from measure import host_class, machine, run_measured
from stage import comparison as stage
from stage import page as stage_page

RUNS = Path(__file__).resolve().parent / "runs"
PACKAGES = (
    "h5py",
    "hdf5plugin",
    "netCDF4",
    "cmip7-repack",
    "numpy",
    "xarray",
    "dask",
    "zarr",
    "pcodec",
    "fpzip",
    "zstandard",
    "blosc2",
)


def version_of(*command: str) -> str:
    """The first thing that looks like a version in what a command prints."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "not installed"
    found = re.search(r"\d+\.\d+[\w.+-]*", answer.stdout + answer.stderr)
    return found.group() if found else "unknown"


def versions() -> dict[str, str]:
    import h5py

    found = {package: version(package) for package in PACKAGES}
    found["python"] = sys.version.split()[0]
    found["HDF5 of h5py"] = h5py.version.hdf5_version
    found["h5repack"] = version_of("h5repack", "--version")
    found["netCDF-C of nccopy"] = version_of("sh", "-c", "ncdump 2>&1 | tail -1")
    binary = os.environ.get("KNARR_BIN", str(repack.KNARR))
    found["knarr"] = version_of(binary, "--version")
    return found


def results_path(kind: str, suffix: str) -> Path:
    RUNS.mkdir(exist_ok=True)
    return RUNS / f"{datetime.date.today().isoformat()}-{host_class()}-{kind}.{suffix}"


def save(kind: str, results: object, facts: dict[str, object]) -> Path:
    path = results_path(kind, "json")
    path.write_text(json.dumps({**facts, "kind": kind, "results": results}, indent=1) + "\n")
    print(f"\nraw results: bench/runs/{path.name}")
    return path


def header(facts: dict[str, object]) -> str:
    host = facts["machine"]
    tools = ", ".join(f"{name} {value}" for name, value in facts["versions"].items())
    return f"{host['cpu']}, {host['cores']} cores, {host['memory_gb']} GB, {host['system']}\n\n{tools}\n"


def report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Comparison:
    """A kind whose results are one table."""

    help: str
    measure: Callable[[int], Any]
    """Takes how often to repeat each measurement."""
    table: Callable[[Any], Any]
    repeats: int | None = 3
    """None: `measure` looks after that itself."""
    needs_inputs: bool = True


COMPARISONS = {
    "rechunk": Comparison(
        "maps to series and back, against the tools that change chunks",
        lambda repeats: rechunk.measure_rechunk(INPUTS, repeats),
        rechunk.table,
    ),
    "io-computing": Comparison(
        "what output costs a program that computes on all cores meanwhile", computing.measure, computing.table
    ),
    "io-slowed": Comparison(
        "what output under way costs computing, as the kernel counts it", slowed.measure, slowed.table, repeats=5
    ),
    "io-open": Comparison("one file that is open for all steps", open_file.measure, open_file.table),
    "io-nodes": Comparison(
        "one file from several nodes, against a file of each", several_nodes.measure, several_nodes.table
    ),
    "io-memory": Comparison(
        "output of a job that may have little memory",
        lambda _: [bounded_output.measure()],
        lambda results: bounded_output.table(results[0]),
        repeats=None,
    ),
    "io-s3": Comparison(
        "how long output to S3 on the loopback blocks an MPI program", output_to_s3.measure, output_to_s3.table
    ),
    "conversion": Comparison(
        "repacks between netCDF-4 and Zarr, against those in one format",
        lambda repeats: conversion.measure([INPUTS / f"{name}.nc" for name in ("real", "cmip", "sim")], repeats),
        conversion.table,
    ),
    "s3": Comparison(
        "repacks to and from S3 on the loopback, against a plain upload",
        lambda repeats: object_store.compare(INPUTS / "real.nc", repeats, report),
        object_store.table,
    ),
    "transfer": Comparison("two programs coupled by a file", transfer.measure, transfer.table),
    "transfer-nodes": Comparison(
        "two programs on two nodes (emulated links), as root",
        lambda repeats: transfer_nodes.measure(INPUTS / "real.nc", repeats, report),
        transfer_nodes.table,
        repeats=1,
    ),
    "dataset": Comparison(
        "knarr.write against xarray's to_netcdf and to_zarr",
        lambda repeats: dataset.compare(INPUTS / "real.nc", repeats, report),
        dataset.table,
    ),
    "library": Comparison(
        "what a checkpoint costs the program that hands over its arrays",
        lambda _: checkpoint_library.measure_library(),
        checkpoint_library.table,
        repeats=None,
        needs_inputs=False,
    ),
    "plugin": Comparison(
        "the HDF5 filter against the chains it chooses",
        lambda _: plugin.measure_plugin(INPUTS / "real.nc"),
        plugin.table,
        repeats=None,
    ),
    "lossy": Comparison(
        "ratio under a bound, beside error-bounded compressors", lambda _: lossy.measure_lossy(), lossy.table, None
    ),
    "write": Comparison(
        "what writing costs one process under knarr run", lambda _: writing.measure_write(), writing.table, None, False
    ),
    "overhead": Comparison(
        "knarr run for a program with no file that matches",
        lambda _: overhead.measure_overhead(),
        overhead.table,
        None,
        False,
    ),
    "names": Comparison(
        "knarr run for a call that takes the name of a file", lambda _: names.measure_names(), names.table, None, False
    ),
    "several-jobs": Comparison(
        "knarr run for many small files, and for a file that is waited for",
        lambda _: several_jobs.measure(),
        several_jobs.table,
        None,
        False,
    ),
}


def run_comparison(options: argparse.Namespace, facts: dict[str, object]) -> None:
    comparison = COMPARISONS[options.kind]
    results = comparison.measure(options.repeats)
    table = comparison.table(results)
    print(header(facts))
    print(table.markdown() if hasattr(table, "markdown") else table)
    save(options.kind, [asdict(one) if is_dataclass(one) else one for one in results], facts)


def run_repack(options: argparse.Namespace, facts: dict[str, object]) -> None:
    inputs = [INPUTS / name for name in options.inputs.split(",")]
    contenders = repack.peers() + ([] if options.peers_only else repack.knarr_settings(options.goals.split(",")))
    results = repack.compare(inputs, contenders, options.repeats, report)
    print(header(facts))
    print(repack.table(results))
    if not options.peers_only:
        save("repack", [asdict(result) for result in results], facts)


def pool_results(jobs: int, tools: dict[str, str]) -> dict[str, dict[str, float]]:
    """The pool's ratios; taken from an earlier run if input and versions (Knarr's apart) are the same."""
    path = INPUTS / "pool.json"
    manifest = json.loads((INPUTS / "manifest.json").read_text())["variables.nc"]
    key = [
        manifest,
        {name: value for name, value in tools.items() if name != "knarr"},
        list(codecs_pool.POOL),
    ]
    if path.exists():
        earlier = json.loads(path.read_text())
        if earlier["key"] == key:
            return earlier["results"]
    results = codecs_pool.measure_pool(INPUTS / "variables.nc", jobs)
    path.write_text(json.dumps({"key": key, "results": results}))
    return results


def run_codecs(options: argparse.Namespace, facts: dict[str, object]) -> None:
    results = pool_results(options.jobs, facts["versions"])
    knarr_files = {path.name: codecs_pool.stored_ratios(path) for path in options.knarr}
    print(header(facts))
    print(codecs_pool.table(results, knarr_files))
    if knarr_files:
        save("codecs", {"pool": results, "knarr": knarr_files}, facts)


def run_choice(_options: argparse.Namespace, facts: dict[str, object]) -> None:
    print(header(facts))
    rows = []
    for name in ("variables.nc", "kinds.nc", "held-out.nc"):
        for reader in ("core", "standard"):
            found = choices.measure_choices(reader, INPUTS / name)
            print(f"\n{name}, readers: {reader}\n\n{choices.table(found)}")
            rows += [{"input": name, "reader": reader, **row} for row in found]
    save("choice", rows, facts)


def run_model(options: argparse.Namespace, facts: dict[str, object]) -> None:
    rows = model.measure_model(INPUTS)
    print(header(facts))
    print(model.table(rows))
    save("model", [row for row in rows if "model" not in row], facts)
    if options.write:
        model.write_model(rows)


def run_pipeline(options: argparse.Namespace, facts: dict[str, object]) -> None:
    paths = [INPUTS / f"{name}.nc" for name in ("real", "cmip", "sim")]
    rows = pipeline.measure_pipeline(paths, INPUTS / "pipeline.nc", options.threads, options.repeats)
    print(header(facts))
    print(pipeline.table(rows))
    save("pipeline", rows, facts)


def run_io(options: argparse.Namespace, facts: dict[str, object]) -> None:
    results, of_calls = parallel_output.measure(options.repeats), parallel_output.measure_calls(options.repeats)
    print(header(facts))
    for place in parallel_output.PLACES:
        print(f"\n## {place}\n\n{parallel_output.table(results, place).markdown()}")
    print(f"\n## Calls of other sizes, in memory\n\n{parallel_output.table_of_calls(of_calls).markdown()}")
    output_page.write_page(save("io", results + of_calls, facts).with_suffix(".html"), results, of_calls, header(facts))


def run_stage(options: argparse.Namespace, facts: dict[str, object]) -> None:
    results = stage.measure(options.repeats, report)
    print(header(facts))
    print(stage.table(results))
    page = save("stage", results, facts).with_suffix(".html")
    stage_page.write_page(page, results, header(facts))
    print(f"page: bench/runs/{page.name}")


def run_scale(options: argparse.Namespace, facts: dict[str, object]) -> None:
    page = results_path(options.kind, "html")
    text, results = options.report(page)
    print(text)
    save(options.kind, results, facts)
    print(f"page: bench/runs/{page.name}")


def run_many(options: argparse.Namespace, facts: dict[str, object]) -> None:
    wanted = [name for name in options.commands.split(",") if name]
    rows = many.measure_many(options.repeats, options.datasets, wanted)
    print(header(facts))
    print(many.table(rows))
    save("many", many.raw(rows), facts)


def run_green(options: argparse.Namespace, facts: dict[str, object]) -> None:
    rows = green.measure_green(options.repeats, report)
    print(header(facts))
    print(green.table(rows))
    results = [asdict(row) for row in rows]
    figures = save("green", results, facts).with_suffix(".svg")
    green_plots.plot(results, figures)
    print(f"figures: bench/runs/{figures.name}")


def run_memory(options: argparse.Namespace, facts: dict[str, object]) -> None:
    limit = int(options.max_mem.rstrip("M")) * 1_000_000
    write_inputs(large=10 * limit)
    source, target = INPUTS / "large.h5", INPUTS / "large-out.h5"
    binary = os.environ.get("KNARR_BIN", str(repack.KNARR))
    command = [binary, "repack", str(source), "-o", str(target), "--max-mem", options.max_mem, "--force"]
    measurement = run_measured(command)
    if measurement.exit_code != 0:
        raise SystemExit(f"knarr failed with exit code {measurement.exit_code}")
    require_equal(source, target)
    target.unlink()
    print(header(facts))
    print(f"large.h5: {source.stat().st_size / 1e6:.0f} MB with --max-mem {options.max_mem}")
    print(f"peak {measurement.peak_rss_mb:.0f} MB, {measurement.wall_s:.1f} s")
    save("memory", {"max_mem": options.max_mem, **asdict(measurement)}, facts)


def run_auto(options: argparse.Namespace, facts: dict[str, object]) -> None:
    names = options.cases.split(",") if options.cases else checkpoint.cases()
    rows = checkpoint_auto.measure_auto(names, report)
    print(header(facts))
    print(checkpoint_auto.table(rows))
    if not options.cases:
        save("auto", [asdict(row) for row in rows], facts)


def run_checkpoint(options: argparse.Namespace, facts: dict[str, object]) -> None:
    names = options.cases.split(",") if options.cases else checkpoint.cases("code")
    goal = ["--goal", options.goal] if options.goal else []

    sizes = [row for name in names for row in checkpoint.measure_sizes(name, goal, report)]
    peers = [row for name in names for row in checkpoint.measure_peers(name, goal, options.repeats, report)]
    jobs = [checkpoint_model.end_to_end(name, peers) for name in names]
    tried = [(name, scheme) for name in names for scheme in ("auto", "separate")]
    partial = [row for each in tried if (row := checkpoint_limits.measure_partial(*each, goal))]
    memory = checkpoint_limits.measure_memory(options.max_mem)
    checkpoint.remove(checkpoint.WORKING)
    print(header(facts))
    print(checkpoint.sizes_table(sizes), checkpoint.peers_table(peers), sep="\n\n", end="\n\n")
    print(checkpoint_model.table(jobs), checkpoint_limits.table(partial), sep="\n\n", end="\n\n")
    print(checkpoint_limits.memory_line(memory))
    rows = {"sizes": sizes, "peers": peers, "end to end": jobs, "partial": partial, "memory": [memory]}
    results = {name: [asdict(row) for row in found] for name, found in rows.items()}
    cases = {name: json.loads((checkpoint.CHECKPOINTS / name / "case.json").read_text()) for name in names}
    save("checkpoint", {"cases": cases, "goal": options.goal, **results}, facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(required=True)
    one = kinds.add_parser("repack", help="whole files against h5repack, nccopy, cmip7-repack and h5py loops")
    one.add_argument("--repeats", type=int, default=3)
    one.add_argument("--goals", default="balanced,speed,ratio,archive", help="goals of Knarr to run")
    one.add_argument("--peers-only", action="store_true", help="leave Knarr out; nothing is saved")
    one.add_argument("--inputs", default="real.nc,cmip.nc,sim.nc")
    one.set_defaults(run=run_repack)
    two = kinds.add_parser("codecs", help="ratio per real variable of every chain of the pool")
    two.add_argument("--jobs", type=int, default=1)
    two.add_argument("--knarr", type=Path, nargs="*", default=[], help="repacked copies of variables.nc to compare")
    two.set_defaults(run=run_codecs)
    three = kinds.add_parser("memory", help="peak memory on a file ten times --max-mem")
    three.add_argument("--max-mem", default="128M")
    three.set_defaults(run=run_memory)
    four = kinds.add_parser("choice", help="choices of each goal against the best of all candidates")
    four.set_defaults(run=run_choice)
    seven = kinds.add_parser("model", help="the predictor on families of data that it did not see")
    seven.add_argument(
        "--write", action="store_true", help="also replace the model that comes with the program; build again then"
    )
    seven.set_defaults(run=run_model)
    five = kinds.add_parser("pipeline", help="repack against its codecs alone in memory")
    five.add_argument("--threads", type=int, default=os.cpu_count())
    five.add_argument("--repeats", type=int, default=3)
    five.set_defaults(run=run_pipeline)
    output = kinds.add_parser("io", help="how long output blocks an MPI program")
    output.add_argument("--repeats", type=int, default=3)
    output.set_defaults(run=run_io)
    bursts = kinds.add_parser("stage", help="bursts of output through emulated tiers, and a simulation at scale")
    bursts.add_argument("--repeats", type=int, default=3)
    bursts.set_defaults(run=run_stage)
    larger = kinds.add_parser("io-scale", help="a model of output at 288, 8,192 and 100,000 ranks")
    larger.set_defaults(run=run_scale, kind="io-scale", report=scale_reports.output)
    wider = kinds.add_parser("transfer-scale", help="a model of coupled programs on up to 100,000 nodes")
    wider.set_defaults(run=run_scale, kind="transfer-scale", report=scale_reports.transfer)
    numerous = kinds.add_parser("many", help="a file of very many small datasets")
    numerous.add_argument("--repeats", type=int, default=3)
    numerous.add_argument("--datasets", type=int, default=many.DATASETS)
    numerous.add_argument("--commands", default="", help="only these, separated by commas")
    numerous.set_defaults(run=run_many)
    nine = kinds.add_parser("green", help="the green compression paper's table and figures again")
    nine.add_argument("--repeats", type=int, default=3)
    nine.set_defaults(run=run_green)
    alike = kinds.add_parser("auto", help="checkpoint sets: auto against the best of the fixed schemes")
    alike.add_argument(
        "--cases", help="names of cases in bench/inputs/checkpoint; all, and the result kept, by default"
    )
    alike.set_defaults(run=run_auto)
    nine = kinds.add_parser("checkpoint", help="sets of real codes' restart files: schemes, peers, limits")
    nine.add_argument("--repeats", type=int, default=3)
    nine.add_argument("--cases", help="names of cases in bench/inputs/checkpoint, those of codes by default")
    nine.add_argument("--goal", help="as of 'knarr checkpoint pack', whose default is the default here")
    nine.add_argument("--max-mem", default="96M", help="memory of the packer of a group ten times that large")
    nine.set_defaults(run=run_checkpoint)
    for kind, comparison in COMPARISONS.items():
        compared = kinds.add_parser(kind, help=comparison.help)
        if comparison.repeats is not None:
            compared.add_argument("--repeats", type=int, default=comparison.repeats)
        compared.set_defaults(run=run_comparison, kind=kind, repeats=comparison.repeats)
    options = parser.parse_args()
    own_inputs = (run_auto, run_checkpoint, run_scale, run_stage)
    if options.run is run_comparison:
        needs_inputs = COMPARISONS[options.kind].needs_inputs
    else:
        needs_inputs = options.run not in own_inputs
    if needs_inputs:
        write_inputs()
    options.run(options, {"machine": machine(), "versions": versions()})


if __name__ == "__main__":
    main()
