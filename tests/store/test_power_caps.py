from __future__ import annotations

from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.model.identity import DecisionId, GpuId, JobId
from steward.store.power_caps import PowerCap, PowerCapFile


def cap(gpu: str, watts: float = 480.0) -> PowerCap:
    return PowerCap(
        gpu=GpuId(gpu),
        uuid="GPU-0",
        job=JobId("1"),
        decision=DecisionId("d-1"),
        before_watts=700.0,
        ours=(watts,),
        t_s=5.0,
    )


def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    first = PowerCapFile(tmp_path / "caps.json")
    first.put(cap("n1/gpu0"), cap("n1/gpu1"))
    first.put(cap("n1/gpu1", 400.0))
    first.remove(GpuId("n1/gpu0"))

    second = PowerCapFile(tmp_path / "caps.json")

    assert second.all() == (cap("n1/gpu1", 400.0),)
    assert second.of(GpuId("n1/gpu0")) is None
    assert (tmp_path / "caps.json").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "caps.json").write_text('[{"gpu": "n1/gp')

    with pytest.raises(StewardError, match="unknown which power limits") as fault:
        PowerCapFile(tmp_path / "caps.json")

    assert "nvidia-smi" in fault.value.hint


def test_what_cannot_be_written_is_not_remembered_either(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file = PowerCapFile(tmp_path / "folder" / "caps.json")
    (tmp_path / "folder").rmdir()

    with pytest.raises(StewardError, match="cannot be written"):
        file.put(cap("n1/gpu0"))

    assert file.all() == ()
