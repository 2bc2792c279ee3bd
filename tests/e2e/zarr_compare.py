"""Are two Zarr hierarchies the same to zarr-python, or to another implementation?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zarr
from xarray.backends.zarr import FillValueCoder


def arrays(path: Path) -> dict[str, zarr.Array]:
    """Every array below `path` by its name, groups joined with `/`."""

    def walk(group: zarr.Group, prefix: str) -> Iterator[tuple[str, zarr.Array]]:
        for name, item in group.members():
            if isinstance(item, zarr.Group):
                yield from walk(item, f"{prefix}{name}/")
            else:
                yield f"{prefix}{name}", item

    return dict(walk(zarr.open_group(path, mode="r"), ""))


def native(values: np.ndarray) -> np.ndarray:
    return np.asarray(values).astype(values.dtype.newbyteorder("="), order="C", copy=False)


def require_same(left_path: Path, right_path: Path) -> None:
    """Names, shapes, types (byte order apart, which is storage), values to the bit, attributes."""
    left, right = arrays(left_path), arrays(right_path)
    assert left.keys() == right.keys()
    for name in left:
        before, after = native(left[name][...]), native(right[name][...])
        assert before.dtype == after.dtype, name
        assert before.shape == after.shape, name
        assert before.tobytes() == after.tobytes(), f"{name}: values differ"
        attributes = dict(left[name].attrs)
        formats = [array.metadata.zarr_format for array in (left[name], right[name])]
        if formats == [2, 3] and before.dtype.kind in "iuf":
            # In version 2 the fill value means 'missing' (to xarray, too); in version 3 an attribute says so.
            fill = left[name].fill_value
            if fill is not None:
                attributes["_FillValue"] = FillValueCoder.encode(fill, before.dtype)
        assert attributes == dict(right[name].attrs), name
        fills = [np.asarray(array.fill_value).astype(before.dtype).tobytes() for array in (left[name], right[name])]
        assert fills[0] == fills[1], f"{name}: fill value differs"
        if left[name].metadata.zarr_format == 3:
            assert left[name].metadata.dimension_names == right[name].metadata.dimension_names, name
    assert dict(zarr.open_group(left_path, mode="r").attrs) == dict(zarr.open_group(right_path, mode="r").attrs)


def read_with_zarrs(path: Path) -> dict[str, bytes]:
    """Bits of every array as decoded by the Rust implementation `zarrs`."""
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "codec_pipeline.strict": True}):
        return {name: native(array[...]).tobytes() for name, array in arrays(path).items()}
