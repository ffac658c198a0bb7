"""Installation of packages: atomic, and only with a trusted signature unless overridden."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steward.errors import StewardError
from steward.store.packages.archive_reader import OpenedPackage, open_package
from steward.store.packages.keys import PublicKey, trust, trusted_keys
from steward.store.packages.kinds import RULES, PackageKind
from steward.store.packages.locations import (
    CURRENT,
    MANIFEST,
    Installed,
    installed_packages,
)
from steward.store.packages.manifest import Manifest, version_key

__all__ = ["InstallOptions", "Installation", "install", "remove"]

_SIGNED_BY = "signed-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """Explicit permissions of an installation."""

    trust: PublicKey | None = None  # trust this key from now on
    unsigned: bool = False  # accept an unsigned package
    downgrade: bool = False  # accept an older version than the installed one
    dry_run: bool = False  # check everything, change nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Result of an installation, or of its dry run."""

    manifest: Manifest
    before: str  # the version installed before, or ''
    done: Literal["new", "upgrade", "downgrade", "same"]
    signed_by: str


def install(
    file: Path,
    folder: Path,
    options: InstallOptions,
    *,
    check: Callable[[Path], None],
    kind: PackageKind = RULES,
) -> Installation:
    """Install a package. `check` checks what is in it before anything is installed."""
    here = folder if not options.dry_run else None
    if here is not None:
        here.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=here, prefix=".new-") as name:
        draft = Path(name)
        opened = open_package(file, draft)
        _check_kind(opened.manifest, kind, str(file))
        signed_by = _signed_by(opened, folder, options, str(file))
        others = installed_packages(folder)
        before = next((o for o in others if o.manifest.name == opened.manifest.name), None)
        done = _step(opened.manifest, before, options, str(file))
        _check_clashes(opened.manifest, others, str(file))
        check(draft / kind.name)
        if here is not None:
            if options.trust is not None:
                trust(folder, options.trust)
            if done != "same":
                _place(draft, opened, folder, signed_by)
    version = before.manifest.version if before is not None else ""
    return Installation(manifest=opened.manifest, before=version, done=done, signed_by=signed_by)


def remove(name: str, folder: Path, *, kind: PackageKind = RULES) -> Installed:
    """Remove a package."""
    found = {each.manifest.name: each for each in installed_packages(folder)}
    if name not in found:
        known = ", ".join(found) or "none"
        raise StewardError(
            f"no package '{name}' is installed; known: {known}",
            where=str(folder),
            hint=f"`{kind.command} packages` lists them",
        )
    (folder / name / CURRENT).unlink()
    shutil.rmtree(folder / name)
    return found[name]


def _check_kind(manifest: Manifest, kind: PackageKind, where: str) -> None:
    if manifest.kind is not kind:
        problem = f"this is a package of kind '{manifest.kind.name}', not '{kind.name}'"
        hint = f"`{manifest.kind.command} install` takes it"
        raise StewardError(problem, where=where, hint=hint)


def _signed_by(opened: OpenedPackage, folder: Path, options: InstallOptions, where: str) -> str:
    """Return the fingerprint of the signing key, or raise unless it is trusted."""
    signature = opened.signature
    if signature is None:
        if options.unsigned:
            return ""
        hint = "ask its author to sign it; --unsigned installs it as it is"
        raise StewardError("this package is not signed", where=where, hint=hint)
    known = {*trusted_keys(folder), *([options.trust] if options.trust else [])}
    if signature.key not in known:
        problem = f"it is signed with key {signature.key.fingerprint}, which is not trusted here"
        hint = (
            "ask its author, on another way, what their key is; if it is this one: "
            f"--trust {signature.key.text}"
        )
        raise StewardError(problem, where=where, hint=hint)
    return signature.key.fingerprint


def _step(
    new: Manifest, before: Installed | None, options: InstallOptions, where: str
) -> Literal["new", "upgrade", "downgrade", "same"]:
    if before is None:
        return "new"
    old = before.manifest
    if new == old:
        return "same"
    if new.version == old.version:
        problem = f"{new.name} {new.version} is installed already, with other content"
        hint = "its author has to give what is new a new version"
        raise StewardError(problem, where=where, hint=hint)
    if version_key(new.version) > version_key(old.version):
        return "upgrade"
    if not options.downgrade:
        problem = f"{new.name} {old.version} is installed, which is newer than {new.version}"
        raise StewardError(problem, where=where, hint="--downgrade goes back to the older one")
    return "downgrade"


def _check_clashes(new: Manifest, others: tuple[Installed, ...], where: str) -> None:
    mine = {item.id for item in new.items} if new.kind.unique else set()
    for other in others:
        if other.manifest.name == new.name:
            continue
        both = sorted(mine & {item.id for item in other.manifest.items})
        if both:
            listed = f"{new.kind.name} {', '.join(both[:5])}"
            problem = f"{listed} are in package '{other.manifest.name}' as well"
            first = f"`{new.kind.command} remove {other.manifest.name}` first"
            hint = f"{first}, or rename the {new.kind.name}"
            raise StewardError(problem, where=where, hint=hint)


def _place(draft: Path, opened: OpenedPackage, folder: Path, signed_by: str) -> None:
    """Move a complete folder into place, and then switch the link atomically."""
    manifest = opened.manifest
    (draft / MANIFEST).write_bytes(opened.manifest_bytes)
    if signed_by:
        (draft / _SIGNED_BY).write_text(signed_by, encoding="utf-8")
    home = folder / manifest.name
    home.mkdir(exist_ok=True)
    link = home / CURRENT
    before = str(link.readlink()) if link.is_symlink() else ""
    target = Path(tempfile.mkdtemp(dir=home, prefix=f"{manifest.version}-"))
    for each in draft.iterdir():
        each.rename(target / each.name)
    fresh = home / f".{CURRENT}.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target.name)
    fresh.replace(link)
    if before:
        shutil.rmtree(home / before, ignore_errors=True)
