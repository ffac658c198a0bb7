"""The whole store as one file, and back: taken while steward runs, checked before it is restored.

Databases are copied by SQLite itself, so that each is whole although others write to it; all other
files are replaced and never changed in place by steward, or only grow. Every file has its checksum
in the manifest, which comes last: an archive that was cut off has none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any

from steward.errors import StewardError
from steward.store.atomic import make_folder, whole_file

__all__ = ["MANIFEST", "Archived", "archive_store", "restore_store"]

MANIFEST = "steward-archive.json"
FORMAT = 1
_SQLITE = b"SQLite format 3\0"
# Beside the databases, locks of running processes, what is being written, the socket.
_NOT_KEPT = ("-wal", "-shm", ".lock", ".tmp", ".sock")
_LOCKS = frozenset({"lock", ".lock", "steward.lock"})
_JOBS = "jobs"  # checkpoints and logs of jobs: theirs, and perhaps terabytes
_TELEMETRY = ("telemetry", "spans", "logs", "other")
_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """What an archive holds."""

    files: int
    bytes: int
    made_s: float
    version: str
    left_out: tuple[str, ...]


def archive_store(
    store: Path,
    file: Path,
    *,
    made_s: float,
    version: str,
    telemetry: bool = True,
    jobs: bool = False,
) -> Archived:
    """Write everything in a store folder into one compressed file, readable by its owner alone."""
    if not store.is_dir():
        raise StewardError("there is no store here", where=str(store), hint="name it with --data")
    if file.resolve().is_relative_to(store.resolve()):
        hint = "an archive inside the store would hold itself"
        raise StewardError("the archive is inside the store", where=str(file), hint=hint)
    skipped = {*(() if jobs else (_JOBS,)), *(() if telemetry else _TELEMETRY)}
    left_out = sorted(name for name in skipped if (store / name).exists())
    sums: dict[str, str] = {}
    size = 0
    with (
        whole_file(file) as out,
        tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar,
        TemporaryDirectory(prefix="steward-archive-") as scratch,
    ):
        os.fchmod(out.fileno(), 0o600)  # tokens' hashes and what people run are in it
        for path in _kept(store, skipped):
            name = path.relative_to(store).as_posix()
            found = _add(tar, path, name, Path(scratch))
            if found is not None:
                sums[name], size = found[0], size + found[1]
        manifest = {
            "format": FORMAT,
            "made_s": made_s,
            "version": version,
            "sha256": sums,
            "left_out": left_out,
        }
        _add_text(tar, MANIFEST, json.dumps(manifest, sort_keys=True))
    return Archived(
        files=len(sums), bytes=size, made_s=made_s, version=version, left_out=tuple(left_out)
    )


def restore_store(file: Path, store: Path) -> Archived:
    """Make a store folder from an archive; nothing is there before all of it was checked."""
    if store.exists() and any(store.iterdir()):
        hint = "name an empty or a new folder with --data, or move this one away"
        raise StewardError("the folder is not empty", where=str(store), hint=hint)
    make_folder(store.parent)
    draft = store.parent / f".{store.name}.restoring"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        make_folder(draft)
        found = _extract(file, draft)
        if store.exists():
            store.rmdir()
        draft.rename(store)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return found


# -- writing -------------------------------------------------------------------------------------


def _kept(store: Path, skipped: set[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(store):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if not (here == store and name in skipped))
        for name in sorted(files):
            path = here / name
            if name in _LOCKS or name.endswith(_NOT_KEPT) or not path.is_file():
                continue
            if not path.is_symlink():
                yield path


def _add(tar: tarfile.TarFile, path: Path, name: str, scratch: Path) -> tuple[str, int] | None:
    """Add a file and return its checksum and size; None if it has gone meanwhile."""
    try:
        if _is_database(path):
            path = _copied_database(path, scratch)
        with path.open("rb") as content:
            size = os.fstat(content.fileno()).st_size
            info = tarfile.TarInfo(name)
            info.size, info.mode = size, path.stat().st_mode & 0o777
            info.mtime = int(path.stat().st_mtime)
            summed = _Summed(content, size)
            tar.addfile(info, summed)
    except FileNotFoundError:  # telemetry that was merged, a message that was sent
        return None
    return summed.digest.hexdigest(), size


class _Summed:
    """Reads no more than a file held when it was opened: logs grow."""

    def __init__(self, content: IO[bytes], size: int) -> None:
        self.digest = hashlib.sha256()
        self._content = content
        self._left = size

    def read(self, size: int = _CHUNK_BYTES) -> bytes:
        part = self._content.read(min(size, self._left))
        self._left -= len(part)
        self.digest.update(part)
        return part


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _copied_database(path: Path, scratch: Path) -> Path:
    copy = scratch / "database"
    copy.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60.0)) as there:
            there.execute("VACUUM INTO ?", (str(copy),))
    except sqlite3.Error as fault:
        hint = "`steward doctor` says more; a journal that is damaged is restored by `steward up`"
        raise StewardError(f"it cannot be copied: {fault}", where=str(path), hint=hint) from fault
    return copy


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    tar.addfile(info, io.BytesIO(content))


# -- reading -------------------------------------------------------------------------------------


def _extract(file: Path, draft: Path) -> Archived:
    sums: dict[str, str] = {}
    size, manifest = 0, None
    try:
        with tarfile.open(file, mode="r:gz") as tar:
            for info in tar:
                content = _content(tar, info, file)
                if info.name == MANIFEST:
                    manifest = json.loads(content.read())
                    continue
                sums[info.name] = _write(draft / info.name, content, info.mode)
                size += info.size
    except FileNotFoundError as fault:
        raise StewardError("there is no such file", where=str(file)) from fault
    except (tarfile.TarError, EOFError, OSError, ValueError) as fault:
        raise _damaged(file, str(fault) or type(fault).__name__) from fault
    return _checked(file, manifest, sums, size)


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo, file: Path) -> IO[bytes]:
    path = PurePosixPath(info.name)
    content = tar.extractfile(info) if info.isreg() else None
    if content is None or path.is_absolute() or ".." in path.parts:
        raise _damaged(file, f"'{info.name}' is nothing that steward archives")
    return content


def _write(path: Path, content: IO[bytes], mode: int) -> str:
    make_folder(path.parent)
    digest = hashlib.sha256()
    with path.open("xb") as out:
        os.fchmod(out.fileno(), mode & 0o700)
        while part := content.read(_CHUNK_BYTES):
            digest.update(part)
            out.write(part)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _checked(file: Path, manifest: Any, sums: dict[str, str], size: int) -> Archived:  # noqa: ANN401 - JSON
    if not isinstance(manifest, dict) or "sha256" not in manifest:
        raise _damaged(file, "its end is missing: it was cut off, or it is no archive of steward")
    if manifest.get("format") != FORMAT:
        problem = f"it has the format {manifest.get('format')}, this version knows {FORMAT}"
        raise StewardError(problem, where=str(file), hint="use the version that wrote it")
    wrong = sorted(
        name
        for name in {*sums, *manifest["sha256"]}
        if sums.get(name) != manifest["sha256"].get(name)
    )
    if wrong:
        raise _damaged(file, f"{len(wrong)} files are not as they were: {', '.join(wrong[:5])}")
    return Archived(
        files=len(sums),
        bytes=size,
        made_s=float(manifest["made_s"]),
        version=str(manifest["version"]),
        left_out=tuple(manifest["left_out"]),
    )


def _damaged(file: Path, why: str) -> StewardError:
    hint = "nothing was restored; take another archive"
    return StewardError(f"it is damaged: {why}", where=str(file), hint=hint)
