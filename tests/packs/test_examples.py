"""Our rules on their own examples, and on those of all the others."""

from __future__ import annotations

from pathlib import Path

from steward.inspection.example_tests import run_examples
from steward.inspection.folders import rule_folders
from steward.model.rules import Mode

PACKS = Path(__file__).parents[2] / "rules"

# A rule about a cascade or a repetition fires where the rule about its cause does, too, and a GPU
# that is hardly used is so for one of several reasons: these pairs describe the same thing. Any
# other pair is a pattern that is too loose.
SAME = {
    ("STW-GPU-0001", "STW-GPU-0029"),
    ("STW-GPU-0001", "STW-GPU-0030"),
    ("STW-GPU-0002", "STW-GPU-0003"),
    ("STW-GPU-0010", "STW-GPU-0032"),
    ("STW-GPU-0032", "STW-GPU-0008"),
    ("STW-GPU-0008", "STW-SRV-0009"),
    ("STW-HOST-0001", "STW-SLURM-0012"),
    ("STW-HOST-0002", "STW-TRN-0012"),
    ("STW-K8S-0001", "STW-K8S-0003"),
    ("STW-NCCL-0001", "STW-NCCL-0002"),
    ("STW-NCCL-0001", "STW-TRN-0013"),
    ("STW-NCCL-0006", "STW-NCCL-0012"),
    ("STW-NCCL-0006", "STW-NET-0005"),
    ("STW-NCCL-0007", "STW-NCCL-0012"),
    ("STW-NCCL-0008", "STW-GPU-0029"),
    ("STW-SRV-0003", "STW-SRV-0009"),
    ("STW-STO-0001", "STW-STO-0002"),
    ("STW-TEL-0001", "STW-TEL-0002"),
    ("STW-TEL-0001", "STW-TEL-0003"),
    ("STW-TEL-0001", "STW-TEL-0012"),
    ("STW-TEL-0017", "STW-TEL-0050"),
}


def test_every_rule_fires_on_its_examples_and_stays_silent_on_near_misses() -> None:
    found = rule_folders(PACKS, lenient=False)

    report = run_examples(found, mode=Mode.STRICT, proof_needed=True)

    assert report.failed == ()
    assert report.rules == report.fired == report.silent_ok
    assert {(rule, other) for rule, other, _hits in report.cross_rule} == SAME
