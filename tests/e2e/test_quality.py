"""A promised bound holds at every element of the stored type; special values stay exact."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import h5py
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

from values import FILL, field_with_specials, integers, smooth_field

SHAPE = (40, 50, 60)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """Fields of both types with every special value, wide dynamic range, small values, integers."""
    path = tmp_path_factory.mktemp("quality") / "fields.nc"
    random = np.random.default_rng(5)
    wide = (random.standard_normal(SHAPE) * 10.0 ** random.integers(-30, 30, SHAPE)).astype("f4")
    near_zero = smooth_field(SHAPE) - np.float32(280)
    variables = {
        "f4": field_with_specials(SHAPE, "f4"),
        "f8": field_with_specials(SHAPE, "f8"),
        "wide": wide,
        "near_zero": near_zero,
        "huge": (smooth_field(SHAPE, "f8") * 1e300),
        "constant": np.full(SHAPE, 273.15, "f4"),
    }
    with netCDF4.Dataset(path, "w") as dataset:
        for name, length in zip("zyx", SHAPE, strict=True):
            dataset.createDimension(name, length)
        for name, values in variables.items():
            fill = FILL if name in ("f4", "f8") else None
            variable = dataset.createVariable(
                name, values.dtype, ("z", "y", "x"), fill_value=fill, chunksizes=(10, 50, 60)
            )
            variable.set_auto_maskandscale(False)
            variable[...] = values
        count = dataset.createVariable("count", "i4", ("z", "y", "x"))
        count[...] = integers(SHAPE, "i4")
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: item[...] for name, item in file.items() if item.ndim == 3}


def ordinary(values: np.ndarray) -> np.ndarray:
    """Where a bound applies: finite and not the fill value."""
    return np.isfinite(values) & (values != values.dtype.type(FILL))


def assert_specials_exact(before: np.ndarray, after: np.ndarray, name: str) -> None:
    special = ~ordinary(before)
    assert before[special].tobytes() == after[special].tobytes(), f"{name}: a NaN, infinity or fill value changed"
    assert np.isfinite(after[~special]).all(), f"{name}: an ordinary value became special"


def worst_excess(before: np.ndarray, after: np.ndarray, allowed: np.ndarray | float) -> float:
    """Largest amount by which an error exceeds what is allowed, in extended precision. <= 0 is kept."""
    places = ordinary(before)
    exact = before[places].astype(np.longdouble)
    error = np.abs(after[places].astype(np.longdouble) - exact)
    limit = allowed if np.isscalar(allowed) else np.asarray(allowed)[places].astype(np.longdouble)
    return float(np.max(error - limit, initial=-np.inf))


def require_bound(source: Path, target: Path, allowed: Callable[[np.ndarray], np.ndarray | np.longdouble]) -> None:
    """`allowed` gives the largest permitted error, for all elements or each; specials are exact."""
    before, after = read(source), read(target)
    for name, values in before.items():
        if values.dtype.kind != "f":
            assert values.tobytes() == after[name].tobytes(), f"{name}: integers changed"
            continue
        assert values.dtype == after[name].dtype
        assert_specials_exact(values, after[name], name)
        with np.errstate(invalid="ignore"):  # signalling NaNs, in places where no bound applies
            assert worst_excess(values, after[name], allowed(values)) <= 0, name


@pytest.mark.parametrize("bound", [10.0, 0.5, 0.01, 1e-5, 1e-12])
def test_absolute_bound(knarr, source, out, bound):
    target = knarr.repack(source, out / "a.nc", "--max-abs-error", repr(bound))
    require_bound(source, target, lambda values: np.longdouble(bound))


@pytest.mark.parametrize("bound", [0.1, 1e-3, 1e-6])
def test_relative_bound(knarr, source, out, bound):
    target = knarr.repack(source, out / "a.nc", "--max-rel-error", repr(bound))
    require_bound(source, target, lambda values: np.abs(values.astype(np.longdouble)) * np.longdouble(bound))


@pytest.mark.parametrize("bound", [0.05, 1e-4])
def test_range_bound(knarr, source, out, bound):
    def allowed(values):
        valid = values[ordinary(values)].astype(np.longdouble)
        return np.longdouble(bound) * (valid.max() - valid.min())

    require_bound(source, knarr.repack(source, out / "a.nc", "--max-range-error", repr(bound)), allowed)


@pytest.mark.parametrize("count", [1, 7, 12, 23])
def test_significant_bits(knarr, source, out, count):
    """n bits of the mantissa: an error of at most 2**-n of the value."""
    target = knarr.repack(source, out / "a.nc", "--significant-bits", count)
    require_bound(source, target, lambda values: np.abs(values.astype(np.longdouble)) * np.longdouble(2.0) ** -count)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_significant_digits(knarr, source, out, count):
    """n decimal digits: half a unit of the n-th digit of the value."""
    target = knarr.repack(source, out / "a.nc", "--significant-digits", count)

    def allowed(values):
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.floor(np.log10(np.abs(values.astype(np.longdouble))))
        exponent[~np.isfinite(exponent)] = -np.inf
        return np.longdouble(0.5) * np.longdouble(10) ** (exponent - count + 1)

    require_bound(source, target, allowed)


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_values_in_protected_ranges_stay_exact_and_none_enters_them(knarr, source, out, suffix):
    """Limits count in the type of the data: 280.1 is the nearest f32 there."""
    ranges = ("--exact-up-to", "-0.3", "--exact-from", "280.1")
    target = knarr.repack(source, out / f"a.{suffix}", "--max-abs-error", "0.05", *ranges)
    restored = knarr.repack(target, out / "back.nc")
    before, after = read(source), read(restored)
    changed = 0
    for name in ("f4", "f8", "near_zero"):
        x, y = before[name], after[name]
        low, high = x.dtype.type(-0.3), x.dtype.type(280.1)
        protected = (x <= low) | (x >= high) | (y <= low) | (y >= high)
        assert protected.any() and x[protected].tobytes() == y[protected].tobytes(), name
        changed += int(np.sum(x != y))
    assert changed > 1000
    require_bound(source, restored, lambda values: np.longdouble(0.05))
    verified = knarr.json("verify", source, target)
    promised = {variable["path"]: variable["promised"] for variable in verified["variables"]}
    assert promised["/f4"] == {"max_abs_error": 0.05, "exact_up_to": -0.3, "exact_from": 280.1}
    # A plan with bounds that are not asked for is read again.
    assert "exact_from=280.1" in knarr("explain", target).stdout


def test_a_protected_range_needs_a_bound_and_leaves_something(knarr, source, out):
    knarr.fails(2, "repack", source, "-o", out / "a.nc", "--exact-from", "5", names=("exact_from", "without a bound"))
    both = ("--max-abs-error", "1", "--exact-from", "5", "--exact-up-to", "5")
    knarr.fails(2, "repack", source, "-o", out / "a.nc", *both, names=("leave no value that may change",))


def test_all_bounds_of_a_combination_hold(knarr, source, out):
    target = knarr.repack(source, out / "a.nc", "--max-abs-error", "0.01", "--max-rel-error", "1e-4")

    def allowed(values):
        return np.minimum(np.longdouble("0.01"), np.abs(values.astype(np.longdouble)) * np.longdouble("1e-4"))

    require_bound(source, target, allowed)


def test_a_bound_for_one_variable_leaves_the_others(knarr, source, out):
    target = knarr.repack(source, out / "a.nc", "--max-abs-error", "near_zero=0.1")
    before, after = read(source), read(target)
    assert worst_excess(before["near_zero"], after["near_zero"], np.longdouble(0.1)) <= 0
    assert before["near_zero"].tobytes() != after["near_zero"].tobytes()
    for name in before.keys() - {"near_zero"}:
        assert before[name].tobytes() == after[name].tobytes(), name


@pytest.mark.parametrize(
    ("options", "promised"),
    [
        (
            ("--max-abs-error", "near_zero=0.01", "--significant-digits", "near*=4"),
            {"max_abs_error": 0.01, "significant_digits": 4},
        ),
        (
            ("--max-abs-error", "0.01", "--significant-digits", "near_zero=4"),
            {"max_abs_error": 0.01, "significant_digits": 4},
        ),
        (("--max-abs-error", "near_zero=0.001", "--max-abs-error", "near*=0.5"), {"max_abs_error": 0.001}),
        (
            ("--max-rel-error", "0.001", "--finest-abs-error", "near_zero=1e-6"),
            {"max_rel_error": 0.001, "finest_abs_error": 1e-6},
        ),
        (("--max-abs-error", "0.1", "--exact-from", "near_zero=40"), {"max_abs_error": 0.1, "exact_from": 40.0}),
    ],
)
def test_bounds_that_meet_one_variable_hold_together(knarr, source, out, options, promised):
    """Names win over patterns and patterns over what is said of all, each bound for itself."""
    target = knarr.repack(source, out / "a.nc", *options)
    found = {variable["path"]: variable for variable in knarr.json("verify", source, target)["variables"]}
    assert found["/near_zero"]["promised"] == promised
    if "max_abs_error" in promised:
        before, after = read(source)["near_zero"], read(target)["near_zero"]
        assert worst_excess(before, after, np.longdouble(promised["max_abs_error"])) <= 0


def test_a_variable_can_stay_lossless_under_a_bound_for_all(knarr, source, out, tmp_path):
    config = tmp_path / "knarr.toml"
    config.write_text('[[file]]\npattern = "*"\nvariables.near_zero.quality = "lossless"\n')
    before = read(source)
    for number, how in enumerate((("--lossless", "near_zero"), ("--lossless", "near*"), ("--config", config))):
        target = knarr.repack(source, out / f"{number}.nc", "--max-abs-error", "0.1", *how)
        after = read(target)
        assert before["near_zero"].tobytes() == after["near_zero"].tobytes()
        assert before["f4"].tobytes() != after["f4"].tobytes()
        assert "a rule of its own keeps it lossless" in knarr("explain", target).stdout
    contradiction = ("--lossless", "near_zero", "--max-abs-error", "near_zero=1")
    knarr.fails(2, "repack", source, "-o", out / "a.nc", *contradiction, names=("--lossless", "near_zero"))


def test_rules_of_the_configuration_and_of_the_command_hold_together(knarr, source, out, tmp_path):
    config = tmp_path / "knarr.toml"
    config.write_text(
        '[[file]]\npattern = "*"\nvariables."near*".max_abs_error = 0.5\nvariables.near_zero.max_rel_error = 0.1\n'
    )
    target = knarr.repack(source, out / "a.nc", "-c", config, "--max-abs-error", "near*=0.001")
    found = {variable["path"]: variable["promised"] for variable in knarr.json("verify", source, target)["variables"]}
    assert found["/near_zero"] == {"max_abs_error": 0.001, "max_rel_error": 0.1}


def test_a_looser_bound_is_smaller(knarr, source, out):
    sizes = [
        knarr.repack(source, out / f"{bound}.nc", "--max-abs-error", f"near_zero={bound}").stat().st_size
        for bound in ("1.0", "0.1", "0.001")
    ]
    lossless = knarr.repack(source, out / "lossless.nc").stat().st_size
    assert sizes == sorted(sizes) and sizes[0] < lossless


def test_lossy_results_say_what_was_done(knarr, source, out):
    target = knarr.repack(source, out / "a.nc", "--max-abs-error", "near_zero=0.1")
    with netCDF4.Dataset(target) as dataset:
        assert "knarr" in dataset.history
        text = " ".join(f"{name}={dataset['near_zero'].getncattr(name)}" for name in dataset["near_zero"].ncattrs())
        assert "0.1" in text and "knarr" in text.lower()
        assert not any("knarr" in name for name in dataset["wide"].ncattrs())


def test_lossless_adds_nothing(knarr, source, out):
    with netCDF4.Dataset(knarr.repack(source, out / "a.nc")) as dataset:
        assert "history" not in dataset.ncattrs()
        assert dataset["wide"].ncattrs() == []


def test_verify_accepts_within_the_bound_and_refuses_beyond(knarr, source, out):
    target = knarr.repack(source, out / "a.nc", "--max-abs-error", "near_zero=0.1")
    knarr("verify", source, target)
    with h5py.File(target, "r+") as file:
        file["near_zero"][0, 0, 0] += 5
    knarr.fails(1, "verify", source, target)


@pytest.mark.parametrize("bound", ["-1", "nan", "0.1.2", "inf", ""])
def test_a_senseless_bound_is_refused(knarr, source, out, bound):
    knarr.fails(2, "repack", source, "-o", out / "a.nc", f"--max-abs-error={bound}")
    assert not list(out.iterdir())


def test_a_bound_on_integers_only_is_refused(knarr, source, out):
    message = knarr.fails(5, "repack", source, "-o", out / "a.nc", "--max-rel-error", "count=0.1", names=("count",))
    assert "i4" in message or "int" in message


def rounded(path: Path, name: str) -> dict[str, object]:
    """What netCDF4-python says about the rounding of a variable, its container's attributes included."""
    with netCDF4.Dataset(path) as dataset:
        variable = dataset[name]
        found = {key: variable.getncattr(key) for key in variable.ncattrs() if key.startswith("quantization")}
        if "quantization" in found:
            container = dataset[found["quantization"]]
            assert container.ndim == 0 and container.dtype == "S1"
            found |= {key: container.getncattr(key) for key in container.ncattrs()}
        assert not any(key.startswith("_Quantize") for key in variable.ncattrs()), "that names netCDF-C"
        return found


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--significant-bits", "wide=9"), {"algorithm": "bitround", "quantization_nsb": 9}),
        (("--significant-digits", "wide=3"), {"algorithm": "granular_bitround", "quantization_nsd": 3}),
        (
            ("--significant-digits", "wide=3", "--chain", "wide=granular:3 | shuffle | zstd:3"),
            {"algorithm": "granular_bitround", "quantization_nsd": 3},
        ),
        (
            ("--significant-bits", "wide=9", "--chain", "wide=bitround:9 | shuffle | zstd:3"),
            {"algorithm": "bitround", "quantization_nsb": 9},
        ),
        (("--max-abs-error", "wide=1e-3"), {}),
        (("--significant-bits", "wide=9", "--max-abs-error", "wide=1e20"), {}),
    ],
)
def test_rounding_is_recorded_as_cf_wants(knarr, source, out, suffix, options, expected):
    """CF 1.12, section 8.4; bounds that it has no words for get only Knarr's own attributes."""
    target = knarr.repack(source, out / f"a{suffix}", *options)
    found = rounded(target, "wide")
    if expected:
        assert found.pop("quantization") == "quantization_info"
        assert re.fullmatch(r"Knarr version \d+\.\d+\.\d+( \(.*\))?", found.pop("implementation"))
    assert found == expected
    assert rounded(target, "huge") == {}


def test_ncdump_and_xarray_see_the_quantization_variable(knarr, source, out):
    target = knarr.repack(source, out / "a.nc", "--significant-bits", "wide=9")
    text = subprocess.run(["ncdump", "-h", target], capture_output=True, text=True, check=True).stdout
    for line in (
        "char quantization_info ;",
        'quantization_info:algorithm = "bitround" ;',
        'wide:quantization = "quantization_info" ;',
        "wide:quantization_nsb = 9 ;",
    ):
        assert line in text
    store = knarr.repack(source, out / "a.zarr", "--significant-bits", "wide=9")
    for dataset in (xarray.open_dataset(target), xarray.open_zarr(store)):
        assert dataset["quantization_info"].shape == ()
        assert dataset["quantization_info"].attrs["algorithm"] == "bitround"
        assert dataset["quantization_info"].attrs["implementation"].startswith("Knarr version ")
        assert dataset["wide"].attrs["quantization"] == "quantization_info"
        assert dataset["wide"].attrs["quantization_nsb"] == 9
        assert "quantization" not in dataset["huge"].attrs


@pytest.mark.parametrize("classic", [True, False])
def test_a_quantization_variable_takes_no_name_that_is_there(knarr, tmp_path, out, classic):
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w", format="NETCDF3_CLASSIC" if classic else "NETCDF4") as dataset:
        dataset.createDimension("quantization_info", 4000)
        dataset.createVariable("quantization_info_2", "i4")[...] = 5
        dataset.createVariable("v", "f4", ("quantization_info",))[:] = smooth_field((4000,))
        dataset.createVariable("w", "f4", ("quantization_info",))[:] = smooth_field((4000,), seed=2)
    options = ("--significant-bits", "v=5", "--significant-digits", "w=2")
    target = knarr.repack(path, out / "a.nc", *options)
    assert rounded(target, "v")["quantization"] == "quantization_info_3"
    assert rounded(target, "w")["quantization"] == "quantization_info_4"
    with netCDF4.Dataset(target) as dataset:
        assert dataset["quantization_info_2"][...] == 5
    again = knarr.repack(target, out / "again.nc", *options)
    assert rounded(again, "v")["quantization"] == "quantization_info_3", "the same record serves again"
    knarr("verify", path, target)


@pytest.mark.parametrize("suffix", [".nc", ".h5", ".zarr"])
def test_rounding_again_leaves_one_true_record(knarr, source, out, suffix):
    """Values keep no more than the coarser rounding left; what has no words in CF leaves no record."""

    def recorded(path: Path) -> dict[str, int]:
        attributes = (xarray.open_zarr(path) if suffix == ".zarr" else xarray.open_dataset(path))["wide"].attrs
        return {key: int(value) for key, value in attributes.items() if key.startswith(("quantization_", "_Quant"))}

    digits = knarr.repack(source, out / f"digits{suffix}", "--significant-digits", "wide=3")
    assert recorded(digits) == {"quantization_nsd": 3}
    for options, expected in (
        (("--significant-bits", "wide=5"), {"quantization_nsb": 5}),
        (("--significant-bits", "wide=15"), {"quantization_nsd": 3}),
        (("--significant-digits", "wide=2"), {"quantization_nsd": 2}),
        (("--max-rel-error", "wide=1e-2"), {}),
        ((), {"quantization_nsd": 3}),
    ):
        again = knarr.repack(digits, out / f"again{suffix}", "--force", *options)
        assert recorded(again) == expected, options
        assert knarr.json("verify", digits, again)["metadata"] == []


def test_rounding_again_what_netcdf_rounded(knarr, tmp_path, out):
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        dataset.createDimension("x", 4000)
        options = {"significant_digits": 4, "quantize_mode": "GranularBitRound"}
        dataset.createVariable("v", "f4", ("x",), zlib=True, **options)[:] = smooth_field((4000,))
    target = knarr.repack(tmp_path / "a.nc", out / "a.nc", "--significant-bits", "v=7")
    assert rounded(target, "v")["quantization_nsb"] == 7


def test_coordinates_and_their_kin_are_not_rounded_unless_named(knarr, tmp_path, out):
    """CF 8.4 forbids it for what `coordinates`, `formula_terms` and `cell_measures` name."""
    path = tmp_path / "a.nc"
    names = ("x", "lat", "area", "ps", "data")
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("x", 4000)
        for seed, name in enumerate(names):
            dataset.createVariable(name, "f4", ("x",))[:] = smooth_field((4000,), seed=seed)
        dataset["data"].setncatts({"coordinates": "lat", "cell_measures": "area: area"})
        dataset["x"].formula_terms = "ps: ps"
    target = knarr.repack(path, out / "a.nc", "--significant-bits", "7", "--significant-bits", "lat=7")
    assert {name for name in names if rounded(target, name)} == {"data"}
    with netCDF4.Dataset(path) as before, netCDF4.Dataset(target) as after:
        same = {name for name in names if before[name][:].tobytes() == after[name][:].tobytes()}
    assert same == {"x", "area", "ps"}


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_verify_and_hash_pass_over_the_quantization_variable(knarr, source, out, suffix):
    target = knarr.repack(source, out / f"a{suffix}", "--significant-bits", "wide=9")
    answer = knarr.json("verify", source, target)
    assert answer["equal"]
    assert "/quantization_info" not in {variable["path"] for variable in answer["variables"]}
    assert set(knarr.variable_hashes(target)) == set(knarr.variable_hashes(source))


def test_verify_tells_a_lost_quantization_variable(knarr, source, out):
    first = knarr.repack(source, out / "a.nc", "--significant-bits", "wide=9")
    second = knarr.repack(first, out / "b.nc")
    knarr("verify", first, second)
    with h5py.File(second, "r+") as file:
        file["quantization_info"].attrs["algorithm"] = np.bytes_("bitgroom")
    assert "bitgroom" in knarr("verify", first, second, ok=False).stdout
    with h5py.File(second, "r+") as file:
        del file["quantization_info"]
    done = knarr("verify", first, second, ok=False)
    assert done.returncode == 1 and "quantization_info" in done.stdout


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_what_was_rounded_before_is_recorded(knarr, source, out, suffix):
    def attributes(path: Path) -> dict:
        if suffix == ".nc":
            with netCDF4.Dataset(path) as file:
                return file["near_zero"].__dict__
        return dict(zarr.open_group(path, mode="r")["near_zero"].attrs)

    def error(path: Path) -> float:
        opened = xarray.open_dataset(path) if suffix == ".nc" else xarray.open_zarr(path)
        with opened as file:
            return float(np.abs(file["near_zero"].values.astype("f8") - read(source)["near_zero"]).max())

    paths = [out / f"{name}{suffix}" for name in "abc"]
    knarr.repack(source, paths[0], "--max-abs-error", "near_zero=0.03")
    assert "knarr_quality_before" not in attributes(paths[0])
    knarr.repack(paths[0], paths[1], "--max-abs-error", "near_zero=0.1")
    knarr.repack(paths[1], paths[2], "--significant-bits", "near_zero=3")
    first, second, third = map(attributes, paths)
    measured = "knarr_max_abs_error_measured"
    assert second["knarr_quality"] == "max_abs_error=0.1"
    assert second["knarr_quality_before"] == "max_abs_error=0.03"
    assert second["knarr_max_abs_error_total"] == pytest.approx(first[measured] + second[measured])
    assert third["knarr_quality_before"] == "max_abs_error=0.03; max_abs_error=0.1"
    assert error(paths[1]) <= second["knarr_max_abs_error_total"]
    assert error(paths[2]) <= third["knarr_max_abs_error_total"]
    for before, after in itertools.pairwise(paths):
        assert knarr.json("verify", before, after)["metadata"] == []
    done = knarr("verify", source, paths[2], "--values-only", ok=False)
    assert done.returncode == 1 and "rounded before (max_abs_error=0.03; max_abs_error=0.1)" in done.stdout


def test_rounding_by_others_is_recorded_too(knarr, tmp_path, out):
    source = tmp_path / "a.nc"
    with netCDF4.Dataset(source, "w") as file:
        file.createDimension("x", 3000)
        options = {"significant_digits": 3, "quantize_mode": "GranularBitRound", "zlib": True}
        file.createVariable("T", "f4", ("x",), **options)[:] = smooth_field((1, 3000))[0]
    options = ("--max-abs-error", "T=0.5", "--chain", "T=round:abs=0.5 | zstd:3")
    with netCDF4.Dataset(knarr.repack(source, out / "a.nc", *options)) as file:
        assert file["T"].knarr_quality_before == "significant_digits=3"
        assert "knarr_max_abs_error_total" not in file["T"].ncattrs(), "nobody has measured the first error"


def test_bounds_that_promise_nothing_are_refused(knarr, made, tmp_path, out):
    source, config = made("netcdf", "climate_history"), tmp_path / "knarr.toml"
    for name, value in (("max_rel_error", 1), ("max_rel_error", 1.5), ("max_range_error", 1), ("max_range_error", 20)):
        option = "--" + name.replace("_", "-")
        told = (name, "; hint: give a fraction below 1")
        knarr.fails(2, "repack", source, "-o", out / "a.nc", option, value, names=told)
        knarr.fails(2, "repack", source, "-o", out / "a.nc", option, f"tas={value}", names=told)
        knarr.fails(2, "hdf5-filter", option, value, names=told)
        config.write_text(f'[[file]]\npattern = "*"\nvariables.tas.{name} = {float(value)}\n')
        knarr.fails(2, "repack", source, "-o", out / "a.nc", "-c", config, names=told)
        knarr.fails(125, "run", "-c", config, "--", "true", names=told)
    for option, value in (("--max-abs-error", "inf"), ("--max-abs-error", "nan"), ("--significant-digits", 0)):
        knarr.fails(2, "repack", source, "-o", out / "a.nc", option, value, names=("; hint: give ",))
        knarr.fails(2, "hdf5-filter", option, value, names=("; hint: give ",))
    assert not list(out.iterdir())
