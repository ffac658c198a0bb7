"""Packages of rules: reproducible, and read as untrusted."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.store.packages import (
    InstallOptions,
    PackageRequest,
    install,
    installed_packages,
    make_key,
    pack,
    read_key,
    remove,
    trusted_keys,
)
from steward.store.packages.archive_reader import open_package
from steward.store.packages.keys import PublicKey, Signature
from steward.store.packages.manifest import Manifest, version_key
from steward.store.rules import read_rules

RULE = """\
rules:
  - cre: {{id: {id}, severity: 2, title: t}}
    rule:
      set:
        event: {{source: cre.log.kernel}}
        match: ['{word}']
"""
UNSIGNED = InstallOptions(unsigned=True)


def request(version: str = "1.0.0", name: str = "mine") -> PackageRequest:
    return PackageRequest(name=name, version=version, steward="0.1.0")


def folder_of(place: Path, *, rule: str = "MINE-0001", word: str = "broken") -> Path:
    folder = place / "rules-here" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rule.yaml").write_text(RULE.format(id=rule, word=word), encoding="utf-8")
    (folder / "test.log").write_text("it is broken\n", encoding="utf-8")
    return folder.parent


def packed(place: Path, version: str = "1.0.0", *, name: str = "mine", **rule: str) -> Path:
    out = place / f"{name}-{version}.tar.gz"
    pack(folder_of(place, **rule), out, request(version, name), key=None)
    return out


def check(rules: Path) -> None:
    read_rules([rules])


def put(file: Path, place: Path, options: InstallOptions = UNSIGNED) -> str:
    return install(file, place, options, check=check).done


# -- making -------------------------------------------------------------------------------------


def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    first = packed(tmp_path / "a").read_bytes()
    folder = folder_of(tmp_path / "b")
    os.utime(folder / "one" / "rule.yaml", (1, 1))
    (folder / "one" / "test.log").chmod(0o600)
    pack(folder, tmp_path / "b.tar.gz", request(), key=None)

    assert (tmp_path / "b.tar.gz").read_bytes() == first


def test_a_package_lists_its_rules_and_every_file_with_its_digest(tmp_path: Path) -> None:
    opened = open_package(packed(tmp_path), None)

    (rule,) = opened.manifest.items
    assert (rule.id, rule.group, rule.file) == ("MINE-0001", "medium", "rules/one/rule.yaml")
    text = (tmp_path / "rules-here/one/rule.yaml").read_bytes()
    assert rule.sha256 == hashlib.sha256(text).hexdigest()
    assert [each.path for each in opened.manifest.files] == [
        "rules/one/rule.yaml",
        "rules/one/test.log",
    ]


def test_a_rule_with_a_fault_is_not_packed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "one" / "rule.yaml").write_text("rules: [{}]\n", encoding="utf-8")

    with pytest.raises(StewardError):
        pack(folder, tmp_path / "p.tar.gz", request(), key=None)

    assert not (tmp_path / "p.tar.gz").exists()


def test_links_are_not_packed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "one" / "passwords").symlink_to("/etc/hostname")

    with pytest.raises(StewardError, match="plain files"):
        pack(folder, tmp_path / "p.tar.gz", request(), key=None)


@pytest.mark.parametrize("name", ["", "Mine", "../x", "a b", "-x", "x" * 65])
def test_names_that_make_bad_folders_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StewardError, match="name of a package"):
        pack(folder_of(tmp_path), tmp_path / "p.tar.gz", request(name=name), key=None)


@pytest.mark.parametrize("version", ["1", "1.0", "01.0.0", "v1.0.0", "1.0.0-", "1.0.0 "])
def test_versions_are_three_numbers(version: str) -> None:
    with pytest.raises(StewardError, match="not a version"):
        version_key(version)


def test_versions_are_ordered_as_semantic_versioning_says() -> None:
    before = ("alpha", "alpha.1", "alpha.beta", "beta.2", "beta.11", "rc.1")
    numbers = ("1.0.0", "1.0.10", "1.2.0", "1.10.0", "2.0.0")
    rising = ["0.9.9", *(f"1.0.0-{each}" for each in before), *numbers]

    assert sorted(rising, key=version_key) == rising


# -- keys ---------------------------------------------------------------------------------------


def test_a_signed_package_needs_a_key_that_was_trusted_on_purpose(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key.pem")
    folder, place = folder_of(tmp_path), tmp_path / "packages"
    out = tmp_path / "p.tar.gz"
    pack(folder, out, request(), key=read_key(tmp_path / "key.pem"))

    with pytest.raises(StewardError, match="not trusted") as refused:
        put(out, place, InstallOptions(unsigned=True))
    assert public.text in refused.value.hint
    assert installed_packages(place) == ()

    assert put(out, place, InstallOptions(trust=public)) == "new"
    assert trusted_keys(place) == (public,)
    (found,) = installed_packages(place)
    assert found.signed_by == public.fingerprint


def test_a_trusted_key_is_enough_from_then_on(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key.pem")
    key, place = read_key(tmp_path / "key.pem"), tmp_path / "packages"
    pack(folder_of(tmp_path), tmp_path / "1.tar.gz", request("1.0.0"), key=key)
    pack(folder_of(tmp_path), tmp_path / "2.tar.gz", request("1.1.0"), key=key)

    put(tmp_path / "1.tar.gz", place, InstallOptions(trust=public))

    assert put(tmp_path / "2.tar.gz", place, InstallOptions()) == "upgrade"


def test_nobody_s_package_is_not_taken_unless_asked_for(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="is not signed"):
        put(packed(tmp_path), tmp_path / "packages", InstallOptions())


def test_the_secret_key_is_for_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    make_key(file)

    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(StewardError, match="already"):
        make_key(file)


@pytest.mark.parametrize("text", ["", "nonsense", "steward-ed25519:AAAA", "steward-ed25519:!", " "])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match="not a public key"):
        PublicKey.of(text, where="--trust")


def test_what_is_no_secret_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello", encoding="utf-8")

    with pytest.raises(StewardError, match="not a secret key"):
        read_key(tmp_path / "x")


# -- installing ---------------------------------------------------------------------------------


def test_an_older_version_needs_a_word(tmp_path: Path) -> None:
    place = tmp_path / "packages"
    put(packed(tmp_path, "1.1.0"), place)
    older = packed(tmp_path, "1.0.0")

    with pytest.raises(StewardError, match=r"1\.1\.0 is installed, which is newer than 1\.0\.0"):
        put(older, place)
    assert put(older, place, InstallOptions(unsigned=True, downgrade=True)) == "downgrade"
    assert [each.manifest.version for each in installed_packages(place)] == ["1.0.0"]


def test_the_same_version_with_other_content_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "packages"
    assert put(packed(tmp_path / "a"), place) == "new"
    assert put(packed(tmp_path / "a"), place) == "same"

    with pytest.raises(StewardError, match="with other content"):
        put(packed(tmp_path / "b", word="other"), place)


def test_a_new_version_replaces_the_old_one_at_once(tmp_path: Path) -> None:
    place = tmp_path / "packages"
    put(packed(tmp_path, "1.0.0"), place)

    put(packed(tmp_path, "1.1.0", word="newer"), place)

    (found,) = installed_packages(place)
    assert "newer" in (found.folder / "one/rule.yaml").read_text(encoding="utf-8")
    assert len(list((place / "mine").iterdir())) == 2  # the link and what it names


def test_rules_that_another_package_has_are_refused(tmp_path: Path) -> None:
    place = tmp_path / "packages"
    put(packed(tmp_path / "a"), place)

    with pytest.raises(StewardError, match="MINE-0001 are in package 'mine'"):
        put(packed(tmp_path / "b", name="other"), place)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "packages"

    assert put(packed(tmp_path), place, InstallOptions(unsigned=True, dry_run=True)) == "new"
    assert not place.exists()


def test_rules_are_read_before_anything_is_placed(tmp_path: Path) -> None:
    place = tmp_path / "packages"

    def refuse(_rules: Path) -> None:
        raise StewardError("a rule is wrong")

    with pytest.raises(StewardError, match="a rule is wrong"):
        install(packed(tmp_path), place, UNSIGNED, check=refuse)
    assert list(place.iterdir()) == []


def test_a_package_can_be_removed(tmp_path: Path) -> None:
    place = tmp_path / "packages"
    put(packed(tmp_path), place)

    assert remove("mine", place).manifest.name == "mine"
    assert installed_packages(place) == ()
    with pytest.raises(StewardError, match="no package 'mine'"):
        remove("mine", place)


# -- hostile ------------------------------------------------------------------------------------

Member = tuple[str, bytes] | tarfile.TarInfo


def tar_of(*members: Member) -> bytes:
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for each in members:
            if isinstance(each, tarfile.TarInfo):
                tar.addfile(each)
            else:
                info = tarfile.TarInfo(each[0])
                info.size = len(each[1])
                tar.addfile(info, io.BytesIO(each[1]))
    return out.getvalue()


def manifest_of(*files: tuple[str, bytes], **changes: object) -> bytes:
    record = {
        "format": 1,
        "name": "evil",
        "version": "1.0.0",
        "steward": "0.1.0",
        "rules": [],
        "files": [
            {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in files
        ],
    }
    return json.dumps({**record, **changes}).encode()


def special(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


GOOD = ("rules/a.yaml", RULE.format(id="EVIL-0001", word="x").encode())


def refused(data: bytes, tmp_path: Path, match: str) -> None:
    """Install a hostile package: it must raise, and leave nothing behind."""
    file, place = tmp_path / "evil.tar.gz", tmp_path / "deep" / "packages"
    file.write_bytes(data)
    with pytest.raises(StewardError, match=match):
        put(file, place)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [file]


@pytest.mark.parametrize(
    "path",
    ["../../out.yaml", "rules/../../out.yaml", "/tmp/out.yaml", "rules//out.yaml", "rules/./x",
     "elsewhere/x.yaml", "rules", "rules/a\\..\\b", "rules/\x00", "rules/a\nb", "rules/.hidden",
     "rules/" + "a/" * 30 + "x", "manifest.json"],
)  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str) -> None:
    data = tar_of(("manifest.json", manifest_of((path, b"x"))), (path[:90], b"x"))

    refused(data, tmp_path, "it wants to write to")


@pytest.mark.parametrize(
    ("kind", "word"),
    [(tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "link"), (tarfile.CHRTYPE, "device"),
     (tarfile.BLKTYPE, "device"), (tarfile.FIFOTYPE, "pipe"), (tarfile.DIRTYPE, "folder"),
     (b"x", "of kind"), (b"L", "of kind"), (b"S", "of kind")],
)  # fmt: skip
def test_only_plain_files_are_taken(tmp_path: Path, kind: bytes, word: str) -> None:
    data = tar_of(("manifest.json", manifest_of(GOOD)), special("rules/a.yaml", kind))

    refused(data, tmp_path, word)


def test_a_bomb_is_noticed_before_it_fills_anything(tmp_path: Path) -> None:
    bomb = ("rules/a.log", b"\0" * (60 << 20))
    data = tar_of(("manifest.json", manifest_of(bomb)), bomb)
    assert len(data) < 100_000
    tracemalloc.start()

    refused(data, tmp_path, "unpacks to more than")

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80 << 20


def test_a_size_that_nobody_needs_is_refused_unread(tmp_path: Path) -> None:
    info = tarfile.TarInfo("rules/a.log")
    info.size = 5 << 30
    header = info.tobuf(tarfile.USTAR_FORMAT)
    start = gzip.decompress(tar_of(("manifest.json", manifest_of(GOOD))))[:1024]

    refused(gzip.compress(start + header), tmp_path, "5,368,709,120 bytes")


def test_endless_headers_are_refused(tmp_path: Path) -> None:
    files = [(f"rules/{number}.log", b"") for number in range(10_001)]

    refused(tar_of(("manifest.json", manifest_of(*files))), tmp_path, "at most 10,000")


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    data = gzip.decompress(tar_of(("manifest.json", manifest_of(GOOD)), GOOD))
    info = tarfile.TarInfo("rules/caf\udce9.yaml")
    block = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
    at = data.index(b"rules/a.yaml" + b"\0" * 80)

    refused(gzip.compress(data[:at] + block + data[at + 512 :]), tmp_path, "no UTF-8")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: b"", "does not begin with"),
        (lambda: b"hello", "no package"),
        (lambda: gzip.compress(b"hello" * 500), "no package"),
        (lambda: tar_of(GOOD), "does not begin with"),
        (lambda: tar_of(("manifest.json", b"{}")), "not one of ours: 'format' is missing"),
        (lambda: tar_of(("manifest.json", b"[" * 100_000)), "not one of ours"),
        (lambda: tar_of(("manifest.json", b"\xff\xfe")), "not one of ours"),
        (lambda: tar_of(("manifest.json", manifest_of(format=2))), "format 2"),
        (lambda: tar_of(("manifest.json", manifest_of(name="../x"))), "name of a package"),
        (lambda: tar_of(("manifest.json", manifest_of(version="new"))), "not a version"),
        (lambda: tar_of(("manifest.json", manifest_of(GOOD))), "not in it"),
        (lambda: tar_of(("manifest.json", manifest_of()), GOOD), "not in its manifest"),
        (
            lambda: tar_of(("manifest.json", manifest_of(GOOD)), ("rules/../../x", b"")),
            r"wants to write to 'rules/../../x'",
        ),
        (lambda: tar_of(("manifest.json", manifest_of(GOOD)), GOOD, GOOD), "in it twice"),
        (lambda: tar_of(("manifest.json", manifest_of(GOOD, GOOD)), GOOD), "two files"),
        (
            lambda: tar_of(("manifest.json", manifest_of(GOOD, ("rules/A.yaml", b""))), GOOD),
            "two files",
        ),
        (
            lambda: tar_of(("manifest.json", manifest_of(GOOD, ("rules/a.yaml/b", b""))), GOOD),
            "lies below what is a file",
        ),
        (
            lambda: tar_of(("manifest.json", manifest_of(GOOD)), (GOOD[0], b"x" * len(GOOD[1]))),
            "not what its manifest says",
        ),
        (lambda: tar_of(("manifest.json", manifest_of(GOOD)), (GOOD[0], b"x")), "not as long"),
        (lambda: tar_of(("manifest.json", manifest_of(GOOD)), GOOD)[:-40], "was cut"),
    ],
)
def test_whatever_is_not_a_package_is_refused(
    tmp_path: Path, make: Callable[[], bytes], match: str
) -> None:
    refused(make(), tmp_path, match)


def test_a_changed_manifest_is_not_that_of_its_signature(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key.pem")
    out = tmp_path / "p.tar.gz"
    made = pack(folder_of(tmp_path), out, request(), key=read_key(tmp_path / "key.pem"))
    assert made.signature is not None
    changed = replace(made.manifest, version="9.0.0").as_bytes()
    files = [
        (each.path, (tmp_path / "rules-here" / each.path[6:]).read_bytes())
        for each in made.manifest.files
    ]
    forged = tar_of(("manifest.json", changed), ("manifest.sig", made.signature.as_bytes()), *files)
    out.write_bytes(forged)

    with pytest.raises(StewardError, match="is not that of key"):
        put(out, tmp_path / "packages", InstallOptions(trust=public))


@pytest.mark.parametrize(
    "signed", [b"", b"{}", b'{"key": "x", "signature": ""}', b"[]", b"\xff", b"null"]
)
def test_a_broken_signature_is_refused(tmp_path: Path, signed: bytes) -> None:
    data = tar_of(("manifest.json", manifest_of(GOOD)), ("manifest.sig", signed), GOOD)

    refused(data, tmp_path, "signature cannot be read|not a public key")


def test_a_signature_of_nonsense_is_refused(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key.pem")
    (tmp_path / "key.pem").unlink()
    bad = Signature(public, b"\0" * 64).as_bytes()

    refused(
        tar_of(("manifest.json", manifest_of(GOOD)), ("manifest.sig", bad), GOOD),
        tmp_path,
        "not that of key",
    )


@settings(max_examples=40)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_refused_with_words(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.tar.gz"
    for content in (data, gzip.compress(data), tar_of(("manifest.json", data))):
        file.write_bytes(content)
        with pytest.raises(StewardError):
            open_package(file, None)


@settings(max_examples=25, deadline=None)
@given(
    record=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["format", "name", "version", "files", "rules", "path", "size"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_manifest_is_refused_with_words(record: object) -> None:
    with pytest.raises(StewardError):
        Manifest.of(json.dumps(record).encode(), where="x")
