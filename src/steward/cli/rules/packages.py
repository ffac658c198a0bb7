"""`steward rules pack`, `install`, `packages`, `remove`: share rules as signed archive files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Config, Data, Json
from steward.cli.output import print_json, print_lines, print_note, print_table, waiting
from steward.cli.rules.options import store_folder
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.store.packages import Installation, Packed, PublicKey

__all__ = ["install", "pack", "packages", "remove"]

ENDING = ".tar.gz"
AT_NEXT_START = "a steward that runs now takes it up when it is started again"

Folder = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The folder of rules, with their examples.")
]
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


def pack(  # noqa: PLR0913 - a command's options are its parameters
    folder: Folder = None,
    *,
    out: Out = None,
    name: Name = None,
    version: Version = "0.1.0",
    key: Key = None,
    new_key: NewKey = None,
    as_json: Json = False,
) -> None:
    """Pack a folder of rules into one file for sharing.

    The same folder gives the same bytes. With --new-key alone, only a key is created.
    """
    from steward import __version__
    from steward.inspection.checks import valid_rules
    from steward.store.packages import PackageRequest, read_key
    from steward.store.packages import pack as packed

    if key is not None and new_key is not None:
        raise StewardError("--key and --new-key exclude each other", hint="give one of them")
    if folder is None and new_key is None:
        raise StewardError("there is nothing to pack", hint="name a folder, or give --new-key FILE")
    if folder is not None:
        valid_rules([folder], lenient=False)  # before anything is written
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
    made = packed(folder, target, request, key=read_key(used) if used is not None else None)
    _print_packed(made, as_json=as_json)


def _make_key(file: Path, *, as_json: bool) -> None:
    from steward.store.packages import make_key

    public = make_key(file)
    print_note(f"secret key: {file} (keep it secret)")
    print_note(f"public key: {public.text}")
    if as_json:
        print_json({"key": str(file), "public": public.text})


def _print_packed(made: Packed, *, as_json: bool) -> None:
    signature = made.signature
    if as_json:
        print_json(
            {
                "file": str(made.file),
                "bytes": made.bytes,
                "name": made.manifest.name,
                "version": made.manifest.version,
                "rules": len(made.manifest.rules),
                "files": len(made.manifest.files),
                "signed_by": signature.key.text if signature is not None else "",
            }
        )
        return
    signed = f"signed with key {signature.key.fingerprint}" if signature else "not signed"
    summary = f"{made.manifest.name} {made.manifest.version}: {len(made.manifest.rules)} rules"
    print_lines([f"{summary} in {made.file} ({made.bytes:,} bytes), {signed}"])


def install(  # noqa: PLR0913 - a command's options are its parameters
    file: Package,
    *,
    trust: Trust = None,
    unsigned: Unsigned = False,
    downgrade: Downgrade = False,
    dry_run: DryRun = False,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Check a package of rules, and install it.

    Nothing is written before everything was checked: signature, paths, sizes, digests, every rule.
    """
    from steward.inspection.checks import valid_rules
    from steward.store.packages import InstallOptions, packages_folder
    from steward.store.packages import install as installed

    if not file.is_file():
        problem = "this is no file" if file.exists() else "there is no such file"
        hint = "name a package; `steward rules pack DIR` makes one of a folder"
        raise StewardError(problem, where=str(file), hint=hint)
    options = InstallOptions(
        trust=_public_key(trust) if trust else None,
        unsigned=unsigned,
        downgrade=downgrade,
        dry_run=dry_run,
    )
    folder = packages_folder(store_folder(config, data))

    def check(rules: Path) -> None:
        valid_rules([rules], lenient=False)

    with waiting("checking the package"):
        done = installed(file, folder, options, check=check)
    if as_json:
        print_json(
            {
                "name": done.manifest.name,
                "version": done.manifest.version,
                "before": done.before,
                "done": done.done,
                "dry_run": dry_run,
                "signed_by": done.signed_by,
                "rules": [each.id for each in done.manifest.rules],
            }
        )
    else:
        print_lines([_summary(done, dry_run=dry_run)])
        if not dry_run and done.done != "same":
            print_note(AT_NEXT_START)


def packages(*, config: Config = None, data: Data = None, as_json: Json = False) -> None:
    """List installed packages of rules, and trusted keys."""
    from steward.store.packages import installed_packages, packages_folder, trusted_keys

    folder = packages_folder(store_folder(config, data))
    found = installed_packages(folder)
    keys = trusted_keys(folder)
    if as_json:
        record = [
            {
                "name": each.manifest.name,
                "version": each.manifest.version,
                "rules": len(each.manifest.rules),
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
            str(len(each.manifest.rules)),
            each.signed_by or "unsigned",
            str(each.folder),
        )
        for each in found
    ]
    columns = ["package", "version", "rules", "signed by", "folder"]
    print_table(columns, rows, empty="no package is installed")
    for key in keys:
        print_note(f"trusted: {key.fingerprint} {key.text}")


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The package.")],
    *,
    config: Config = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Remove an installed package of rules."""
    from steward.store.packages import packages_folder
    from steward.store.packages import remove as removed

    gone = removed(name, packages_folder(store_folder(config, data))).manifest
    if as_json:
        print_json({"name": gone.name, "version": gone.version, "rules": len(gone.rules)})
    else:
        print_lines([f"removed {gone.name} {gone.version} ({len(gone.rules)} rules)"])
        print_note(AT_NEXT_START)


def _public_key(given: str) -> PublicKey:
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


def _summary(done: Installation, *, dry_run: bool) -> str:
    manifest = done.manifest
    what = f"{manifest.name} {manifest.version} ({len(manifest.rules)} rules)"
    signed = f"signed with key {done.signed_by}" if done.signed_by else "not signed"
    if done.done == "same":
        return f"{what} is in use already"
    before = f" instead of {done.before}" if done.before else ""
    would = "would be put into use" if dry_run else "is in use"
    return f"{what} {would}{before}; {signed}"
