"""The manifest of a package: its name, version, files, and what is in them."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from steward.errors import StewardError
from steward.store.packages.kinds import KINDS, RULES, PackageKind

__all__ = ["FORMAT", "Manifest", "PackedFile", "PackedItem", "version_key"]

FORMAT = 1
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_NUMBER = r"(0|[1-9]\d{0,8})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFile:
    """One file of a package."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedItem:
    """One rule, site or accelerator of a package, as it is listed without opening its file."""

    id: str
    title: str
    group: str  # severity of a rule; site or accelerator
    file: str
    sha256: str  # of its file


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The signed content of a package: every file by its digest."""

    name: str
    version: str
    steward: str  # version of steward that packed it
    files: tuple[PackedFile, ...]
    items: tuple[PackedItem, ...]
    kind: PackageKind = RULES

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            problem = f"'{self.name[:80]}' cannot be the name of a package"
            hint = "use up to 64 small letters, digits and dashes between them"
            raise StewardError(problem, hint=hint)
        version_key(self.version)

    def as_bytes(self) -> bytes:
        """Return the canonical JSON of the manifest."""
        kind = self.kind
        record: dict[str, Any] = {
            "format": FORMAT,
            "name": self.name,
            "version": self.version,
            "steward": self.steward,
            "files": [asdict(each) for each in self.files],
            kind.name: [_item_record(each, kind) for each in self.items],
        }
        if kind is not RULES:  # packages of rules are older than kinds
            record["kind"] = kind.name
        return json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"

    @classmethod
    def of(cls, data: bytes, *, where: str) -> Manifest:
        """Parse an untrusted manifest."""
        try:
            record = json.loads(data)
            if record["format"] != FORMAT:
                problem = f"the package has format {record['format']!r}; known: {FORMAT}"
                raise StewardError(problem, where=where, hint="a newer steward may read it")
            kind = KINDS.get(str(record.get("kind", RULES.name)))
            if kind is None:
                problem = f"the package is of kind {record['kind']!r}; known: {', '.join(KINDS)}"
                raise StewardError(problem, where=where, hint="a newer steward may read it")
            return cls(
                kind=kind,
                name=_text(record, "name"),
                version=_text(record, "version"),
                steward=_text(record, "steward"),
                files=tuple(_file(each) for each in record["files"]),
                items=tuple(_item(each, kind) for each in record[kind.name]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
            why = f"{fault} is missing" if isinstance(fault, KeyError) else str(fault)
            problem = f"the manifest is not one of ours: {why}"[:300]
            raise StewardError(problem, where=where, hint="ask whoever packed it") from None
        except StewardError as fault:
            raise StewardError(fault.problem, where=where, hint=fault.hint) from None


def version_key(
    version: str,
) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
    """Return the sort key of a version, by semantic versioning.

    >>> version_key("1.10.0") > version_key("1.9.3") > version_key("1.9.3-rc.1")
    True
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        problem = f"'{version[:80]}' is not a version"
        raise StewardError(problem, hint="write three numbers, such as 1.2.0 or 1.2.0-rc.1")
    before = (match[4] or "").split(".") if match[4] else []
    parts = tuple((not each.isdigit(), int(each) if each.isdigit() else 0, each) for each in before)
    return (int(match[1]), int(match[2]), int(match[3])), not before, parts


def _text(record: dict[str, Any], key: str) -> str:
    value = record[key]
    if not isinstance(value, str):
        raise TypeError(f"'{key}' is not text")
    return value


def _file(record: dict[str, Any]) -> PackedFile:
    size = record["size"]
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise TypeError("'size' is not a number of bytes")
    if not _DIGEST.fullmatch(_text(record, "sha256")):
        raise ValueError("'sha256' is not a digest")
    return PackedFile(path=_text(record, "path"), size=size, sha256=_text(record, "sha256"))


def _item(record: dict[str, Any], kind: PackageKind) -> PackedItem:
    keys = ("id", "title", "file", "sha256")
    return PackedItem(
        group=_text(record, kind.group_key), **{key: _text(record, key) for key in keys}
    )


def _item_record(item: PackedItem, kind: PackageKind) -> dict[str, str]:
    record = asdict(item)
    record[kind.group_key] = record.pop("group")
    return record
