"""What a run says of its energy, and what a site pays for the bytes that it saved."""

from __future__ import annotations

import h5py
import netCDF4
import numpy as np
import pytest

from values import smooth_field

PHASES = ["read", "decode", "choose", "encode", "prove", "write"]


@pytest.fixture
def gzip_file(tmp_path):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        field = smooth_field((16, 200, 300)).astype("f4")
        file.create_dataset("t", data=field, chunks=(1, 200, 300), compression="gzip")
    return path


def repacked(knarr, source, target, *options):
    return knarr.json("repack", source, "-o", target, "--force", *options)


def test_energy_is_given_per_phase_with_its_source(knarr, gzip_file, tmp_path):
    energy = repacked(knarr, gzip_file, tmp_path / "out.h5")["files"][0]["energy"]
    assert energy["source"] in ("model", "counter")
    assert list(energy["phases"]) == PHASES and list(energy["seconds"]) == PHASES
    assert sum(energy["phases"].values()) == pytest.approx(energy["joules"])
    raw = 16 * 200 * 300 * 4
    assert energy["joules_per_gb"] == pytest.approx(energy["joules"] / (raw / 1e9))
    # Every phase did something: chunks were compressed, candidates tried, results proven.
    assert all(seconds > 0 for seconds in energy["seconds"].values()), energy
    assert all(joules > 0 for joules in energy["phases"].values()), energy


def test_without_proof_and_choice_these_phases_take_little(knarr, gzip_file, tmp_path):
    options = ("--no-verify", "--chain", "shuffle | zstd:19")
    seconds = repacked(knarr, gzip_file, tmp_path / "out.h5", *options)["files"][0]["energy"]["seconds"]
    assert seconds["prove"] == 0
    assert seconds["encode"] > seconds["choose"]


def test_the_table_says_it_too(knarr, gzip_file, tmp_path):
    text = knarr("repack", gzip_file, "-o", tmp_path / "out.h5").stdout
    line = next(line for line in text.splitlines() if line.startswith("Energy: "))
    assert "J/GB" in line and "encode" in line and ("(model)" in line or "(counter)" in line)


def test_a_site_turns_saved_bytes_into_kwh_and_euro(knarr, gzip_file, tmp_path):
    config = tmp_path / "knarr.toml"
    config.write_text('[site]\nwatts_per_pb = 1e15\neur_per_kwh = 0.5\n[[file]]\npattern = "*"\n')
    answer = repacked(knarr, gzip_file, tmp_path / "out.h5", "--config", config)
    saved = answer["files"][0]["input_bytes"] - answer["files"][0]["output_bytes"]
    assert saved > 0
    yearly = answer["saved_per_year"]
    assert yearly["kwh"] == pytest.approx(saved * 8.766)
    assert yearly["eur"] == pytest.approx(saved * 8.766 * 0.5)
    text = knarr("repack", gzip_file, "-o", tmp_path / "out2.h5", "--config", config).stdout
    assert "kWh" in text and "€" in text
    assert repacked(knarr, gzip_file, tmp_path / "out.h5")["saved_per_year"] is None


def test_a_file_that_grows_saves_nothing(knarr, tmp_path):
    with netCDF4.Dataset(tmp_path / "in.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 9)
        for number in range(30):
            file.createVariable(f"v{number}", "f4", ("x",))[:] = np.arange(9)
    config = tmp_path / "knarr.toml"
    config.write_text('[site]\nwatts_per_pb = 1e6\neur_per_kwh = 0.5\n[[file]]\npattern = "*"\n')
    done = knarr("repack", tmp_path / "in.nc", "-o", tmp_path / "out.nc", "--config", config)
    assert "larger than the input" in done.stderr
    assert "kWh" in done.stdout and "-0.000" not in done.stdout


def test_figures_of_a_site_are_checked(knarr, gzip_file, tmp_path):
    config = tmp_path / "knarr.toml"
    for text, words in (("years = 0", ["years"]), ("eur_per_kwh = -1", ["eur_per_kwh"]), ("price = 1", ["price"])):
        config.write_text(f'[site]\n{text}\n[[file]]\npattern = "*"\n')
        knarr.fails(2, "repack", gzip_file, "-o", tmp_path / "out.h5", "--config", config, names=(*words, "knarr.toml"))
        assert not (tmp_path / "out.h5").exists()


def test_goal_energy_chooses_otherwise_than_ratio(knarr, tmp_path):
    path = tmp_path / "in.h5"
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        file["t"] = smooth_field((32, 200, 300)).astype("f4") + random.normal(0, 1e-4, (32, 200, 300)).astype("f4")
    out = tmp_path / "out.h5"
    answers = {goal: repacked(knarr, path, out, "--goal", goal)["files"][0] for goal in ("energy", "ratio")}
    chains = {goal: answer["variables"][0]["chain"] for goal, answer in answers.items()}
    assert chains["energy"] != chains["ratio"]
    assert answers["energy"]["energy"]["seconds"]["encode"] < answers["ratio"]["energy"]["seconds"]["encode"]
