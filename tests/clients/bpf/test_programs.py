"""The C programs and the Python that reads them agree, without a kernel."""

from __future__ import annotations

import fnmatch
import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from steward.clients.bpf.columns import COLUMNS, NOTES
from steward.clients.bpf.cuda_libraries import CUDA_CALLS
from steward.clients.bpf.histogram import BUCKETS
from steward.clients.bpf.probe_sets import PROBE_SETS, PROGRAMS
from steward.clients.bpf.syscall_table import CAUSES, COUNTED, TABLE_SIZE

HEADER = (PROGRAMS / "counters.h").read_text()
SOURCES = {path.name.removesuffix(".bpf.c"): path.read_text() for path in PROGRAMS.glob("*.bpf.c")}


def body(declaration: str) -> str:
    """Return what is between the braces of a struct or enum, without comments."""
    found = re.search(declaration + r"\s*{(.*?)\n}", HEADER, re.DOTALL)
    assert found, declaration
    return re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.DOTALL)


def test_objects_were_built_from_the_sources_next_to_them() -> None:
    recorded = dict(
        line.split()[::-1] for line in (PROGRAMS / "SHA256SUMS").read_text().splitlines()
    )
    files = {path.name: path for path in PROGRAMS.iterdir() if path.suffix in (".c", ".h", ".o")}
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}

    assert found == recorded, "run scripts/build_bpf and commit the objects and SHA256SUMS"
    assert {f"{source}.bpf.o" for source in SOURCES} < set(found)


def test_the_package_contains_programs_and_objects() -> None:
    root = Path(__file__).parents[3]
    package = root / "src/steward"
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["steward"]

    for path in PROGRAMS.iterdir():
        name = path.resolve().relative_to(package.resolve()).as_posix()
        assert any(fnmatch.fnmatch(name, pattern) for pattern in patterns), name


def test_a_row_in_c_is_a_row_in_python() -> None:
    sizes = {
        "": 1,
        "CAUSES": len(CAUSES),
        "COUNTED_CALLS": len(COUNTED),
        "BUCKETS": BUCKETS,
        "2": 2,
    }
    fields = re.findall(r"__u64 (\w+)(?:\[(\w+)\])?;", body("struct row"))

    in_c = [(name, sizes[count]) for name, count in fields]
    in_python = [(name.replace(".", "_"), at.stop - at.start) for name, at in COLUMNS.items()]
    assert in_c == in_python
    assert "__u32" not in body("struct row")


def test_notes_and_causes_have_the_same_order_in_c_and_python() -> None:
    assert tuple(re.findall(r"__u64 (\w+);", body("struct notes"))) == NOTES
    causes = tuple(re.findall(r"CAUSE_(\w+),", body("enum cause")))
    assert tuple(each.lower() for each in causes) == CAUSES


def test_sizes_are_the_same_in_c_and_python() -> None:
    defined = dict(re.findall(r"#define (BUCKETS|SYSCALLS|COUNTED_CALLS) (\d+)", HEADER))

    assert defined == {
        "BUCKETS": str(BUCKETS),
        "SYSCALLS": str(TABLE_SIZE),
        "COUNTED_CALLS": str(len(COUNTED)),
    }


@pytest.mark.parametrize("name", PROBE_SETS)
def test_a_set_has_a_program_for_each_of_its_tracepoints(name: str) -> None:
    probe_set = PROBE_SETS[name]
    source = SOURCES[probe_set.source]
    programs = re.findall(r'SEC\("tp_btf/(\w+)"\)\nint BPF_PROG\((\w+)', source)

    assert programs == [(each, each) for each in probe_set.tracepoints]


def test_each_cuda_call_has_its_program() -> None:
    source = SOURCES["cuda"]
    programs = set(re.findall(r"^COUNT_CALLS\w*\((\w+)", source, re.MULTILINE))
    programs |= set(re.findall(r"^int (\w+)\(", source, re.MULTILINE))

    expected = {call.program for call in CUDA_CALLS}
    assert programs == expected | {f"{call.program}_end" for call in CUDA_CALLS if call.timed}
