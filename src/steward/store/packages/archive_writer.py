"""Writer of packages: the same folder gives the same bytes, wherever and whenever it is packed."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from steward.errors import StewardError
from steward.store.atomic import whole_file
from steward.store.packages.keys import Signature, sign
from steward.store.packages.kinds import RULES, FoundItem, PackageKind
from steward.store.packages.limits import MOST_FILE_BYTES, MOST_FILES, MOST_TOTAL_BYTES
from steward.store.packages.locations import MANIFEST, SIGNATURE
from steward.store.packages.manifest import Manifest, PackedFile, PackedItem

__all__ = ["PackageRequest", "Packed", "pack"]

_LEFT_OUT = ("__pycache__", "node_modules")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRequest:
    """Name and version of a new package."""

    name: str
    version: str
    steward: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A package that was written."""

    file: Path
    manifest: Manifest
    signature: Signature | None
    bytes: int


def pack(
    folder: Path,
    out: Path,
    request: PackageRequest,
    *,
    key: Ed25519PrivateKey | None,
    kind: PackageKind = RULES,
) -> Packed:
    """Pack a folder of rules, or of catalogues, with all its files into one archive."""
    found = kind.read(folder)
    files = list(_files(folder))
    manifest = _manifest(request, kind, found, folder, files)
    written = manifest.as_bytes()
    signature = sign(written, key) if key is not None else None
    members = [(MANIFEST, written)]
    if signature is not None:
        members.append((SIGNATURE, signature.as_bytes()))
    with whole_file(out) as file:
        _write(file, members, [(each, folder) for each in manifest.files], kind)
    size = out.stat().st_size
    return Packed(file=out, manifest=manifest, signature=signature, bytes=size)


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files in the order of their names; hidden ones and links are left out."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in _LEFT_OUT)
        for name in sorted(names):
            path = Path(where, name)
            if name.startswith("."):
                continue
            if path.is_symlink() or not path.is_file():
                problem = "only plain files can be packed, and this is none"
                raise StewardError(problem, where=str(path), hint="put a copy of it there")
            yield path


def _manifest(
    request: PackageRequest,
    kind: PackageKind,
    found: Sequence[FoundItem],
    folder: Path,
    files: Sequence[Path],
) -> Manifest:
    packed = [_packed(each, folder, kind) for each in files]
    total = sum(each.size for each in packed)
    if len(packed) > MOST_FILES or total > MOST_TOTAL_BYTES:
        problem = f"{len(packed):,} files of {total:,} bytes are more than a package may hold"
        hint = f"at most {MOST_FILES:,} files and {MOST_TOTAL_BYTES:,} bytes: make several"
        raise StewardError(problem, where=str(folder), hint=hint)
    digests = {each.path: each.sha256 for each in packed}
    listed = [_listed(item, folder, digests, kind) for item in found]
    return Manifest(
        name=request.name,
        version=request.version,
        steward=request.steward,
        files=tuple(packed),
        items=tuple(sorted(listed, key=lambda each: (each.id, each.group))),
        kind=kind,
    )


def _packed(file: Path, folder: Path, kind: PackageKind) -> PackedFile:
    path = PurePosixPath(kind.name, *file.relative_to(folder).parts).as_posix()
    data = file.read_bytes()
    if len(data) > MOST_FILE_BYTES:
        problem = f"this file has {len(data):,} bytes, and one may have {MOST_FILE_BYTES:,}"
        raise StewardError(problem, where=str(file), hint="shorten the example")
    return PackedFile(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


def _listed(
    item: FoundItem, folder: Path, digests: dict[str, str], kind: PackageKind
) -> PackedItem:
    parts = item.file.relative_to(folder).parts
    path = PurePosixPath(kind.name, *parts).as_posix()
    return PackedItem(
        id=item.id,
        title=item.title,
        group=item.group,
        file=path,
        sha256=digests[path],
    )


def _write(
    file: IO[bytes],
    members: Sequence[tuple[str, bytes]],
    files: Sequence[tuple[PackedFile, Path]],
    kind: PackageKind,
) -> None:
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, data in members:
            _add(tar, name, data)
        for each, folder in files:
            parts = PurePosixPath(each.path).relative_to(kind.name).parts
            _add(tar, each.path, folder.joinpath(*parts).read_bytes())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # fixed owner, time and mode
    member.size = len(data)
    member.mode = 0o644
    try:
        tar.addfile(member, io.BytesIO(data))
    except (ValueError, UnicodeEncodeError):
        problem = "this name is too long, or is not text, and cannot be packed"
        raise StewardError(problem, where=name, hint="shorten names of folders") from None
