"""Which kernel lines are events, and of which entity."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.cgroups import CgroupReader
from steward.model.faults import XIDS, meaning_of
from steward.observe.lines import KERNEL_PATTERNS, EntityResolver, matched

LINES = Path(__file__).parents[2] / "data" / "kernel-lines" / "lines.tsv"
DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def subjects(tmp_path: Path) -> EntityResolver:
    cgroups = CgroupReader(root=tmp_path, proc=tmp_path)
    return EntityResolver("n1", cgroups=cgroups, gpu_at={"0000:02:00": 0}.get)


@pytest.mark.parametrize("row", rows(LINES), ids=lambda row: row["line"][:60])
def test_a_line_that_people_have_seen_is_the_event_that_it_is(
    row: dict[str, str], tmp_path: Path
) -> None:
    match = matched(row["line"])

    assert (match.kind if match else "-") == row["kind"]
    assert (subjects(tmp_path).of(match) if match else "-") == row["about"]


def test_nearly_every_sign_has_a_line_that_shows_it() -> None:
    shown = {row["kind"] for row in rows(LINES)}

    # These are shown by the lines of the shared data, below.
    assert {each.kind for each in KERNEL_PATTERNS} - shown == {
        "gpu.lost",
        "gpu.sxid",
        "gpu.firmware-silent",
        "host.memory-uncorrected",
        "pcie.power",
    }


@given(
    st.text(max_size=80),
    st.sampled_from([literal for each in KERNEL_PATTERNS for literal in each.literals]),
)
def test_no_text_breaks_it(text: str, literal: str) -> None:
    match = matched(text + literal + text)

    assert match is None or match.meaning


def test_a_driver_that_is_loaded_later_is_noticed_at_the_next_look(tmp_path: Path) -> None:
    there: dict[str, int] = {}
    made = EntityResolver(
        "n1", cgroups=CgroupReader(root=tmp_path, proc=tmp_path), gpu_at=there.get
    )
    line = matched("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    assert line is not None
    assert made.of(line) == "n1"

    there["0000:3b:00"] = 0
    made.look_again()

    assert made.of(line) == "n1/gpu0"


def test_a_code_has_a_meaning_and_what_helps() -> None:
    assert meaning_of(79) == "Xid 79: the GPU has fallen off the bus; the node has to be restarted"
    assert meaning_of(9999) == "Xid 9999: see NVIDIA's Xid catalogue"
    assert all(each.meaning and each.advice for each in XIDS.values())


@pytest.mark.data
def test_the_lines_of_the_reference_are_recognised() -> None:
    silent = {"sxid-data"}
    found = {"xid": "gpu.xid", "xid-nvlink5": "gpu.xid", "sxid": "gpu.sxid"}
    found |= {"xid-no-code": "gpu.lost", "nvrm-other": "gpu.firmware-silent"}
    found |= {"edac": "host.memory-uncorrected", "nic": "pcie.power"}
    seen = 0
    for row in rows(DATA / "telemetry/xid_reference/log_lines.tsv"):
        if row["kind"] == "pcie-ghes":
            continue  # one report in many lines; its first is an event
        match = matched(row["line"])
        assert (match is None) == (row["kind"] in silent), row["line"]
        if match is not None:
            assert match.kind == found[row["kind"]]
            if row["kind"] in ("xid", "xid-nvlink5", "sxid"):
                assert match.groups["code"] == row["code"]
            seen += 1
    assert seen == 36


@pytest.mark.data
def test_our_remedies_agree_with_the_catalogue() -> None:
    remedies = {
        "app": ("the job has to be restarted",),
        "reset": ("the GPU has to be reset", "the node has to be restarted"),
        "reboot": ("the node has to be restarted",),
        "inspect": ("inspect the hardware",),
    }
    with (DATA / "telemetry/xid_reference/xid_catalog.csv").open(newline="") as lines:
        hints = {int(row["code"]): row["severity_hint"] for row in csv.DictReader(lines)}
    wrong = {
        code: (XIDS[code].advice, hint)
        for code, hint in hints.items()
        if code in XIDS and hint in remedies and XIDS[code].advice not in remedies[hint]
    }
    missing = {code for code, hint in hints.items() if hint in ("reset", "reboot", "inspect")}

    assert wrong == {}
    assert missing <= set(XIDS)


@pytest.mark.data
@pytest.mark.parametrize("name", ["Linux_2k.log", "HPC_2k.log", "BGL_2k.log"])
def test_ordinary_lines_are_no_events(name: str) -> None:
    text = (DATA / "telemetry/loghub_samples" / name).read_text(errors="replace")

    assert [line for line in text.splitlines() if matched(line)] == []
