"""A diagnosis finds what is broken, and never calls well what it could not test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steward.errors import StewardError
from steward.health.diagnosis import Diagnosis, Plan, diagnose, kernel_line
from steward.health.diagnosis import run as running
from steward.health.diagnosis.devices import Device, NumpyDevice
from steward.health.diagnosis.report import CheckResult

TINY = Plan(
    host_only=True,
    size=64,
    rounds=3,
    memory_share=1.0,
    most_memory_bytes=1 << 20,
    copy_bytes=1 << 16,
    sum_words=1 << 10,
)


class Wrong(NumpyDevice):
    """Computes one value wrongly, now and then, as a worn GPU does."""

    name = "wrong"

    def __init__(self) -> None:
        self.calls = 0

    def _multiply(self, a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        self.calls += 1
        product = a @ b
        if self.calls == 2:
            product[3, 5] += 1.0
        return product


class Forgetful(NumpyDevice):
    """Flips a bit of its memory."""

    name = "forgetful"

    def _disturb(self, block: NDArray[np.uint32]) -> None:
        block[100] ^= 1 << 7


class Lost(NumpyDevice):
    """Raises, as a driver does whose GPU is off the bus."""

    name = "lost"

    def product(self, size: int, rounds: int) -> tuple[int, float]:
        raise RuntimeError("CUDA error: unspecified launch failure\nmore")


class Slow(NumpyDevice):
    """Does right, at a tenth of the speed."""

    name = "slow"

    def product(self, size: int, rounds: int) -> tuple[int, float]:
        return 0, 1e6


class Fast(NumpyDevice):
    def __init__(self, name: str) -> None:
        self.name = name

    def product(self, size: int, rounds: int) -> tuple[int, float]:
        return 0, 1e7

    def copy_to(self, other: Device, size_bytes: int) -> tuple[int, float]:
        return 0, 1e9


def diagnosed(*devices: Device) -> Diagnosis:
    return diagnose(TINY, node="n1", t_s=0.0, devices=devices)


def failures(*devices: Device) -> list[tuple[str, str]]:
    return [(each.check, each.device) for each in diagnosed(*devices).failed]


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ring_sum", lambda _members, _words: (0, 1e9))


def test_a_healthy_host_is_well() -> None:
    found = diagnosed(NumpyDevice())

    assert found.well
    assert [each.check for each in found.checks] == ["product", "memory", "copy", "sum"]
    assert kernel_line(found) == "steward-diagnose: well node=n1 devices=1"


def test_one_wrong_value_in_one_of_several_products_is_found() -> None:
    assert failures(Wrong()) == [("product", "wrong")]


def test_one_flipped_bit_of_memory_is_found() -> None:
    found = diagnosed(Forgetful())

    assert [(each.check, each.measured["wrong"]) for each in found.failed] == [
        ("memory", 4.0)  # in each of the patterns
    ]
    assert "bad node=n1" in kernel_line(found)


def test_a_device_that_raises_has_failed_and_the_others_are_tested_still() -> None:
    found = diagnosed(Lost(), NumpyDevice())

    (failed,) = found.failed
    assert failed.why == "RuntimeError: CUDA error: unspecified launch failure"
    assert sum(each.ok for each in found.checks) == len(found.checks) - 1


def test_a_device_much_slower_than_its_like_has_failed() -> None:
    pairs = failures(Fast("a"), Fast("b"), Slow())

    assert ("product", "slow") in pairs


def test_values_of_a_sum_that_did_not_come_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "ring_sum", lambda _members, words: (words, 1.0))

    assert failures(NumpyDevice()) == [("sum", "all")]


def test_without_torch_gpus_are_neither_well_nor_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_torch", lambda: None)

    with pytest.raises(StewardError, match="torch is not installed"):
        diagnose(Plan(), node="n1", t_s=0.0)


class _NoGpus:
    __version__ = "0"

    class cuda:  # noqa: N801 - as torch has it
        @staticmethod
        def device_count() -> int:
            return 0


def test_a_gpu_that_does_not_answer_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = _NoGpus
    monkeypatch.setattr(running, "_torch", lambda: fake)

    found = diagnose(Plan(gpus=8), node="n1", t_s=0.0)

    assert [each.why for each in found.failed] == ["0 GPUs answer, and 8 should"]
    with pytest.raises(StewardError, match="no GPU here"):
        diagnose(Plan(), node="n1", t_s=0.0)


def test_nothing_tested_is_not_well() -> None:
    empty = Diagnosis(
        node="n1", t_s=0.0, took_s=0.0, backend="numpy", devices=(), checks=(), tests_gpus=False
    )

    assert not empty.well


def test_a_verdict_is_one_line_however_much_has_failed() -> None:
    many = tuple(
        CheckResult(check="copy", device=f"cuda:{k}", ok=False, why="a\nb") for k in range(99)
    )
    found = Diagnosis(
        node="n1", t_s=0.0, took_s=0.0, backend="x", devices=(), checks=many, tests_gpus=True
    )

    assert len(kernel_line(found)) <= 400
    assert "\n" not in kernel_line(found)


@pytest.mark.real
def test_a_sum_over_processes_is_right() -> None:
    from steward.health.diagnosis.sums import ring_sum

    wrong, speed = ring_sum(3, 1 << 16)

    assert (wrong, speed > 0) == (0, True)


@pytest.mark.torch
def test_the_processor_is_tested_by_torch_too() -> None:
    pytest.importorskip("torch")
    found = diagnose(Plan.small(host_only=True), node="n1", t_s=0.0)

    assert found.well
    assert found.backend.startswith("torch")
