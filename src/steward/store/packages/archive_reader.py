"""Reader of untrusted packages: bounded, in one pass, with every value checked.

Only plain files that the manifest lists, under the folder of its kind, are written, and only below
the folder that is given. Each is compared with its digest; the first fault raises.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from steward.errors import StewardError
from steward.store.packages.keys import Signature
from steward.store.packages.kinds import PackageKind
from steward.store.packages.limits import (
    MOST_FILE_BYTES,
    MOST_FILES,
    MOST_MANIFEST_BYTES,
    MOST_PACKED_BYTES,
    MOST_RATIO,
    MOST_TOTAL_BYTES,
)
from steward.store.packages.locations import MANIFEST, SIGNATURE
from steward.store.packages.manifest import Manifest, PackedFile

__all__ = ["OpenedPackage", "open_package"]

_BLOCK = tarfile.BLOCKSIZE
_PIECE = 2**18
_FREE_BYTES = 2**20  # unpacked bytes below which the ratio is ignored
_HINT = "do not use it; ask whoever gave it to you for another one"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPackage:
    """A package whose files were compared with its manifest."""

    manifest: Manifest
    manifest_bytes: bytes
    signature: Signature | None  # verified with its key


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    name: str
    size: int


class _Unpacking:
    """Stream of unpacked bytes that raises beyond the size limits."""

    def __init__(self, file: BinaryIO, packed_bytes: int, where: str) -> None:
        self._stream = gzip.GzipFile(fileobj=file, mode="rb")
        self._most = min(MOST_TOTAL_BYTES, _FREE_BYTES + packed_bytes * MOST_RATIO)
        self._where = where
        self._read = 0

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, fewer at the end."""
        parts, missing = [], size
        while missing and (part := self._some(min(missing, _PIECE))):
            parts.append(part)
            missing -= len(part)
            self._read += len(part)
            if self._read > self._most:
                raise _bad(f"it unpacks to more than {self._most:,} bytes", self._where)
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except (OSError, EOFError, zlib.error) as fault:
            raise _bad(f"it is no package, or was cut: {fault}", self._where) from None


def open_package(file: Path, into: Path | None) -> OpenedPackage:
    """Read a package, check all of it, and write its files below `into`, if that is given."""
    size = file.stat().st_size
    where = str(file)
    if size > MOST_PACKED_BYTES:
        raise _bad(f"it has {size:,} bytes, and a package has at most {MOST_PACKED_BYTES:,}", where)
    with file.open("rb") as opened:
        unpacking = _Unpacking(opened, size, where)
        return _read(unpacking, into, where)


def _read(unpacking: _Unpacking, into: Path | None, where: str) -> OpenedPackage:
    members = _members(unpacking, where)
    first = next(members, None)
    if first is None or first.name != MANIFEST or first.size > MOST_MANIFEST_BYTES:
        raise _bad(f"it does not begin with {MANIFEST}: this is no package", where)
    data = _content(unpacking, first, where)
    manifest = Manifest.of(data, where=f"{where}: {MANIFEST}")
    wanted = _wanted(manifest, where)
    signature: Signature | None = None
    for member in members:
        if member.name == SIGNATURE and signature is None:
            signed = _content(unpacking, member, where)
            signature = Signature.of(signed, where=where)
            signature.check(data, where=where)
            continue
        _check_path(member.name, manifest.kind, where)
        packed = wanted.pop(member.name, None)
        if packed is None:
            raise _bad(f"'{member.name}' is in it twice, or not in its manifest", where)
        _place(unpacking, member, packed, into, where)
    if wanted:
        raise _bad(f"'{next(iter(wanted))}' is in its manifest and not in it", where)
    return OpenedPackage(manifest=manifest, manifest_bytes=data, signature=signature)


def _wanted(manifest: Manifest, where: str) -> dict[str, PackedFile]:
    """Return the files that a manifest lists; names must be plain, and lie under its folder."""
    if len(manifest.files) > MOST_FILES:
        raise _bad(f"it has {len(manifest.files):,} files; at most {MOST_FILES:,} are taken", where)
    wanted: dict[str, PackedFile] = {}
    folded: set[str] = set()
    for each in manifest.files:
        _check_path(each.path, manifest.kind, where)
        if each.path.casefold() in folded:
            raise _bad(f"two files in it are called '{each.path}'", where)
        folded.add(each.path.casefold())
        wanted[each.path] = each
    for name in wanted:
        above = [parent.as_posix() for parent in PurePosixPath(name).parents]
        if any(parent in wanted for parent in above):
            raise _bad(f"'{name}' lies below what is a file itself", where)
    return wanted


def _check_path(path: str, kind: PackageKind, where: str) -> None:
    parts = path.split("/")
    strange = any(part in ("", ".", "..") or len(part.encode()) > 200 for part in parts)
    hidden = any(part.startswith(".") for part in parts)
    if strange or hidden or parts[0] != kind.name or len(parts) < 2 or not path.isprintable():
        raise _bad(f"it wants to write to {path!r}, which is not below {kind.name}/", where)
    if "\\" in path or len(parts) > 20:
        raise _bad(f"it wants to write to {path!r}, which is no plain path", where)


def _members(unpacking: _Unpacking, where: str) -> Iterator[_Member]:
    """Yield the headers one by one. The caller reads the content after each."""
    for _ in range(MOST_FILES + 3):
        block = unpacking.read(_BLOCK)
        if len(block) < _BLOCK or not block.strip(b"\0"):
            return
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except UnicodeDecodeError:
            raise _bad("a name in it is no UTF-8 text", where) from None
        except tarfile.HeaderError as fault:
            raise _bad(f"it is no package, or was damaged: {fault}", where) from None
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            kinds = {b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device",
                     b"5": "a folder", b"6": "a pipe"}  # fmt: skip
            kind = kinds.get(header.type, f"of kind {header.type!r}")
            raise _bad(f"'{header.name}' in it is {kind}; only plain files are taken", where)
        if not 0 <= header.size <= MOST_FILE_BYTES:
            detail = f"'{header.name}' in it has {header.size:,} bytes"
            raise _bad(f"{detail}, and a file has at most {MOST_FILE_BYTES:,}", where)
        yield _Member(name=header.name, size=header.size)
    raise _bad(f"it has more than {MOST_FILES:,} files", where)


def _content(unpacking: _Unpacking, member: _Member, where: str) -> bytes:
    data = unpacking.read(member.size)
    unpacking.read(-member.size % _BLOCK)
    if len(data) < member.size:
        raise _bad(f"it ends in the middle of '{member.name}'", where)
    return data


def _place(
    unpacking: _Unpacking, member: _Member, packed: PackedFile, into: Path | None, where: str
) -> None:
    if member.size != packed.size:
        raise _bad(f"'{member.name}' is not as long as its manifest says", where)
    data = _content(unpacking, member, where)
    if hashlib.sha256(data).hexdigest() != packed.sha256:
        raise _bad(f"'{member.name}' is not what its manifest says", where)
    if into is not None:
        target = into.joinpath(*packed.path.split("/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(data)


def _bad(problem: str, where: str) -> StewardError:
    return StewardError(problem, where=where, hint=_HINT)
