"""Limits are read and set in watts; what the driver refuses is said in words."""

from __future__ import annotations

import os
from pathlib import Path

import pynvml
import pytest

from recorded_nvml import RecordedNvml
from steward.clients.nvml import Driver, GpuLostError, PowerLimitControl, PowerLimitRefusedError
from steward.clients.power_rights import may_set_limits
from steward.errors import TemporaryError

SET = "nvmlDeviceSetPowerManagementLimit"


def control(library: RecordedNvml) -> PowerLimitControl:
    return PowerLimitControl(Driver(library).library)


def test_a_limit_is_read_with_what_it_may_be() -> None:
    library = RecordedNvml()
    library.limits[1] = 550_000

    found = control(library).read(1)

    assert (found.watts, found.default_watts) == (550.0, 700.0)
    assert (found.least_watts, found.most_watts) == (200.0, 700.0)


def test_a_limit_is_set_on_one_gpu_alone() -> None:
    library = RecordedNvml()

    control(library).set(1, 480.0)

    assert library.limits == {1: 480_000}
    assert control(library).read(0).watts == 700.0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_NO_PERMISSION, "no permission"),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "does not let"),
        (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "cannot set"),
    ],
)
def test_a_refusal_for_good_says_why(code: int, words: str) -> None:
    library = RecordedNvml()
    library.refuses[SET] = code

    with pytest.raises(PowerLimitRefusedError, match=words) as refused:
        control(library).set(0, 480.0)

    assert refused.value.where == "GPU 0"
    assert refused.value.hint


def test_an_unknown_answer_may_pass() -> None:
    library = RecordedNvml()
    library.refuses[SET] = pynvml.NVML_ERROR_UNKNOWN

    with pytest.raises(TemporaryError, match="Unknown Error"):
        control(library).set(0, 480.0)


@pytest.mark.parametrize("watts", [150.0, 900.0])
def test_a_limit_that_the_gpu_does_not_take_is_never_sent(watts: float) -> None:
    library = RecordedNvml()

    with pytest.raises(PowerLimitRefusedError, match="outside") as refused:
        control(library).set(0, watts)

    assert refused.value.hint == "it accepts 200 to 700 W"
    assert library.calls[SET] == 0


def test_a_limit_that_is_taken_and_not_kept_is_a_refusal() -> None:
    library = RecordedNvml()
    library.obeys = False

    with pytest.raises(PowerLimitRefusedError, match="took 480 W and holds the GPU to 700 W"):
        control(library).set(0, 480.0)


def test_a_gpu_that_is_gone_is_lost() -> None:
    library = RecordedNvml()
    library.lost.add(0)

    with pytest.raises(GpuLostError):
        control(library).read(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="asks what root may do")
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CapEff:\t000001ffffffffff\n", "ok"),
        ("CapEff:\t00000000a80425fb\n", "missing"),
        ("Name:\tsteward\n", "limited"),
        ("CapEff:\tnonsense\n", "limited"),
    ],
)
def test_root_needs_the_capability_that_the_driver_asks_for(
    tmp_path: Path, text: str, status: str
) -> None:
    file = tmp_path / "status"
    file.write_text(text)

    found = may_set_limits(file)

    assert found.status == status
    assert found.hint or status == "ok"


def test_who_is_not_root_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    found = may_set_limits()

    assert found.status == "missing"
    assert "no permission" in found.reason
