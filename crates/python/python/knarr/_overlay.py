"""A Zarr store as zarr-python sees it while a part of it is written."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Hashable, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from . import _knarr

DESCRIPTION = "zarr.json"


class Overlay(Store):
    """Reads are those of the store; chunks are replaced in it at once. What is said of groups and arrays stays here:
    they change for other readers when all values are in their places.
    """

    def __init__(self, stored: _knarr.StoredZarr) -> None:
        super().__init__(read_only=False)
        self.stored = stored
        self.said: dict[str, bytes] = {}
        # Bytes of objects that zarr-python wrote.
        self.written = 0
        # Arrays whose codecs zarr-python does not know: it is told of plain ones, and gets their values.
        self.decoded: set[str] = set()
        # Who reads the consolidated metadata sees these. After a killed append those of single arrays say more.
        root = json.loads(stored.get(DESCRIPTION, None, None) or b"{}")
        self.consolidated: dict[str, Any] = (root.pop("consolidated_metadata", None) or {}).get("metadata") or {}
        self.said[DESCRIPTION] = json.dumps(root).encode()
        for path, node in self.consolidated.items():
            self._show(path, node)

    def _show(self, path: str, node: dict[str, Any]) -> bytes:
        """Keeps what zarr-python is to see of a node."""
        if '"knarr.' in json.dumps(node.get("codecs")):
            self.decoded.add(path)
            node = {
                **node,
                "codecs": [{"name": "bytes", "configuration": {"endian": sys.byteorder}}],
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": [max(length, 1) for length in node["shape"]]},
                },
                "chunk_key_encoding": {"name": "default"},
            }
        shown = json.dumps(node).encode()
        self.said[f"{path}/{DESCRIPTION}"] = shown
        return shown

    def settle(self, dim: Hashable) -> None:
        """Shows arrays that do not agree on the length of a dimension as long as the shortest: an append to a store
        without consolidated metadata was killed while it said how long they are.
        """
        nodes = {name: self.stored.get(f"{name}/{DESCRIPTION}", None, None) for name, _ in self.stored.list("")}
        arrays = {
            name: node
            for name, found in nodes.items()
            if found is not None and dim in ((node := json.loads(found)).get("dimension_names") or ())
        }
        lengths = {name: node["shape"][node["dimension_names"].index(dim)] for name, node in arrays.items()}
        if self.consolidated or len(set(lengths.values())) < 2:
            return
        for name, node in arrays.items():
            node["shape"][node["dimension_names"].index(dim)] = min(lengths.values())
            self._show(name, node)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = Store.__hash__

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        if key in self.said:
            return prototype.buffer.from_bytes(_cut(self.said[key], byte_range))
        if (path := _array_of(key)) in self.decoded:
            return prototype.buffer.from_bytes(_cut(self.stored.values(f"/{path}"), byte_range))
        if key.endswith(f"/{DESCRIPTION}"):
            whole = self.stored.get(key, None, None)
            shown = None if whole is None else self._show(key.removesuffix(f"/{DESCRIPTION}"), json.loads(whole))
            return None if shown is None else prototype.buffer.from_bytes(_cut(shown, byte_range))
        found = self.stored.get(key, *_bounds(byte_range))
        return None if found is None else prototype.buffer.from_bytes(found)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        return key in self.said or self.stored.has(key)

    async def set(self, key: str, value: Buffer) -> None:
        if key == DESCRIPTION or key.endswith(f"/{DESCRIPTION}"):
            self.said[key] = value.to_bytes()
        else:
            self.stored.put(key, value.to_bytes())
            self.written += len(value)

    async def delete(self, key: str) -> None:
        raise NotImplementedError(f"{key!r} is not removed while a part of its store is written")

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        folders = [prefix.rstrip("/")]
        while folders:
            folder = folders.pop()
            for name, is_folder in self.stored.list(folder):
                key = f"{folder}/{name}" if folder else name
                if is_folder:
                    folders.append(key)
                else:
                    yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name, _ in self.stored.list(prefix.rstrip("/")):
            yield name

    @property
    def supports_writes(self) -> bool:
        return True

    @property
    def supports_deletes(self) -> bool:
        return False

    @property
    def supports_listing(self) -> bool:
        return True

    def grown(self, shapes: dict[str, tuple[int, ...]]) -> list[tuple[str, bytes]]:
        """Objects that say that arrays have these shapes, by path, in the order in which they are to be written."""
        objects = []
        for path, shape in shapes.items():
            key = f"{path}/{DESCRIPTION}"
            node = json.loads(self.stored.get(key, None, None) or b"")
            objects.append((key, _document({**node, "shape": list(shape)})))
        if self.consolidated:
            root = json.loads(self.stored.get(DESCRIPTION, None, None) or b"")
            nodes = root["consolidated_metadata"]["metadata"]
            for path, shape in shapes.items():
                if path in nodes:
                    nodes[path]["shape"] = list(shape)
            objects.append((DESCRIPTION, _document(root)))
        return objects


def _array_of(key: str) -> str:
    """The array whose chunk a key is, of those that are shown with plain codecs."""
    return key.partition("/c/")[0].removesuffix("/c")


def _document(node: dict[str, Any]) -> bytes:
    return json.dumps(node, indent=2, ensure_ascii=False).encode()


def _bounds(byte_range: ByteRequest | None) -> tuple[int | None, int | None]:
    """Start and stop as of a slice."""
    match byte_range:
        case None:
            return None, None
        case RangeByteRequest(start, end):
            return start, end
        case OffsetByteRequest(offset):
            return offset, None
        case SuffixByteRequest(suffix):
            return -suffix, None
    raise TypeError(f"no part of an object: {byte_range!r}")


def _cut(held: bytes, byte_range: ByteRequest | None) -> bytes:
    return held[slice(*_bounds(byte_range))]
