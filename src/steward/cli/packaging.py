"""Signed packages on the command line: what those of rules and of catalogues have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.output import print_json, print_lines, print_note, print_table, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.store.packages import Installation, InstallOptions, PackageKind, Packed, PublicKey

__all__ = [
    "Downgrade",
    "DryRun",
    "Key",
    "Name",
    "NewKey",
    "Out",
    "Package",
    "PackageName",
    "Trust",
    "Unsigned",
    "Version",
    "install_package",
    "list_packages",
    "pack_folder",
    "public_key",
    "remove_package",
]

ENDING = ".tar.gz"

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The package; without it NAME-VERSION.tar.gz."),
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Without it, that of the folder.")
]
Version = Annotated[
    str, typer.Option("--version", metavar="X.Y.Z", help="A semantic version: newer is higher.")
]
Key = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="The secret key to sign with.")
]
NewKey = Annotated[
    Path | None,
    typer.Option("--new-key", metavar="FILE", help="Make a secret key there, and sign with it."),
]
Package = Annotated[Path, typer.Argument(metavar="FILE", help="The package.")]
PackageName = Annotated[str, typer.Argument(metavar="NAME", help="The package.")]
Trust = Annotated[
    str | None,
    typer.Option(
        "--trust",
        metavar="PUBKEY",
        help="A public key, or a file with one: packages signed with it are taken from now on.",
    ),
]
Unsigned = Annotated[bool, typer.Option("--unsigned", help="Accept an unsigned package.")]
Downgrade = Annotated[
    bool, typer.Option("--downgrade", help="Go back to an older version than the one in use.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, change nothing.")]


def pack_folder(  # noqa: PLR0913 - options of a command
    folder: Path | None,
    *,
    kind: PackageKind,
    check: Callable[[Path], None],
    out: Path | None,
    name: str | None,
    version: str,
    key: Path | None,
    new_key: Path | None,
    as_json: bool,
) -> None:
    """Pack a folder, once `check` has checked it; with a new key alone, only make that."""
    from steward import __version__
    from steward.store.packages import PackageRequest, pack, read_key

    if key is not None and new_key is not None:
        raise StewardError("--key and --new-key exclude each other", hint="give one of them")
    if folder is None and new_key is None:
        raise StewardError("there is nothing to pack", hint="name a folder, or give --new-key FILE")
    if folder is not None:
        check(folder)  # before anything is written
    if new_key is not None:
        _make_key(new_key, as_json=as_json and folder is None)
    if folder is None:
        return
    used = key or new_key
    request = PackageRequest(
        name=name or folder.resolve().name.lower().replace("_", "-"),
        version=version,
        steward=__version__,
    )
    target = out or Path(f"{request.name}-{request.version}{ENDING}")
    secret = read_key(used) if used is not None else None
    _print_packed(pack(folder, target, request, key=secret, kind=kind), as_json=as_json)


def install_package(
    file: Path,
    folder: Path,
    options: InstallOptions,
    *,
    kind: PackageKind,
    check: Callable[[Path], None],
    as_json: bool,
) -> Installation:
    """Check a package, install it below `folder`, and print what was done."""
    from steward.store.packages import install

    if not file.is_file():
        problem = "this is no file" if file.exists() else "there is no such file"
        hint = f"name a package; `{kind.command} pack DIR` makes one of a folder"
        raise StewardError(problem, where=str(file), hint=hint)
    with waiting("checking the package"):
        done = install(file, folder, options, check=check, kind=kind)
    if as_json:
        print_json(
            {
                "name": done.manifest.name,
                "version": done.manifest.version,
                "before": done.before,
                "done": done.done,
                "dry_run": options.dry_run,
                "signed_by": done.signed_by,
                kind.items: [each.id for each in done.manifest.items],
            }
        )
    else:
        print_lines([_summary(done, dry_run=options.dry_run)])
    return done


def list_packages(folder: Path, *, kind: PackageKind, as_json: bool) -> None:
    """Print the packages below `folder`, and the keys that are trusted there."""
    from steward.store.packages import installed_packages, trusted_keys

    found = installed_packages(folder)
    keys = trusted_keys(folder)
    if as_json:
        record = [
            {
                "name": each.manifest.name,
                "version": each.manifest.version,
                kind.items: len(each.manifest.items),
                "signed_by": each.signed_by,
                "folder": str(each.folder),
            }
            for each in found
        ]
        print_json({"packages": record, "trusted_keys": [key.text for key in keys]})
        return
    rows = [
        (
            each.manifest.name,
            each.manifest.version,
            str(len(each.manifest.items)),
            each.signed_by or "unsigned",
            str(each.folder),
        )
        for each in found
    ]
    columns = ["package", "version", kind.items, "signed by", "folder"]
    print_table(columns, rows, empty="no package is installed")
    for key in keys:
        print_note(f"trusted: {key.fingerprint} {key.text}")


def remove_package(name: str, folder: Path, *, kind: PackageKind, as_json: bool) -> None:
    """Remove a package below `folder`, and print what it was."""
    from steward.store.packages import remove

    gone = remove(name, folder, kind=kind).manifest
    if as_json:
        print_json({"name": gone.name, "version": gone.version, kind.items: len(gone.items)})
    else:
        print_lines([f"removed {gone.name} {gone.version} ({len(gone.items)} {kind.items})"])


def public_key(given: str) -> PublicKey:
    """Return a public key from its text, or from a file with it."""
    from steward.store.packages import PublicKey

    path = Path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a key can be too long for a name
        is_file = False
    if is_file:
        with path.open(encoding="utf-8", errors="replace") as file:
            return PublicKey.of(file.read(1000), where=given)
    return PublicKey.of(given, where="--trust")


def _make_key(file: Path, *, as_json: bool) -> None:
    from steward.store.packages import make_key

    public = make_key(file)
    print_note(f"secret key: {file} (keep it secret)")
    print_note(f"public key: {public.text}")
    if as_json:
        print_json({"key": str(file), "public": public.text})


def _print_packed(made: Packed, *, as_json: bool) -> None:
    signature, manifest = made.signature, made.manifest
    items = manifest.kind.items
    if as_json:
        print_json(
            {
                "file": str(made.file),
                "bytes": made.bytes,
                "name": manifest.name,
                "version": manifest.version,
                items: len(manifest.items),
                "files": len(manifest.files),
                "signed_by": signature.key.text if signature is not None else "",
            }
        )
        return
    signed = f"signed with key {signature.key.fingerprint}" if signature else "not signed"
    summary = f"{manifest.name} {manifest.version}: {len(manifest.items)} {items}"
    print_lines([f"{summary} in {made.file} ({made.bytes:,} bytes), {signed}"])


def _summary(done: Installation, *, dry_run: bool) -> str:
    manifest = done.manifest
    what = f"{manifest.name} {manifest.version} ({len(manifest.items)} {manifest.kind.items})"
    signed = f"signed with key {done.signed_by}" if done.signed_by else "not signed"
    if done.done == "same":
        return f"{what} is in use already"
    before = f" instead of {done.before}" if done.before else ""
    would = "would be put into use" if dry_run else "is in use"
    return f"{what} {would}{before}; {signed}"
