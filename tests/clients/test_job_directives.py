from __future__ import annotations

import os
from pathlib import Path

import pytest

from steward.cli.jobs.submission import body_of
from steward.clients.job_directives import (
    array_indices,
    dependencies,
    gpus_of,
    read_directives,
    seconds,
    size_bytes,
    warning,
)
from steward.errors import StewardError

SCRIPT = """#!/bin/bash
#SBATCH --job-name=train -G 2 --time 1:30:00
#SBATCH --mem=4G --partition=gpu   # where
#SBATCH --requeue --signal=B:USR1@120

echo go
#SBATCH --gpus=8
"""


def test_the_lines_of_a_batch_script_are_read_up_to_its_first_command(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text(SCRIPT)

    body, _, ignored = body_of([str(script), "one"], {"mem": "8G"}, as_command=False)

    assert (body["name"], body["gpus"], body["time_limit_s"]) == ("train", 2, 5400.0)
    assert (body["memory_bytes"], body["requeue"], body["argv"]) == (8 << 30, True, ["one"])
    assert body["warn_signal"] == "SIGUSR1"
    assert ignored == ("partition",)


def test_unknown_options_are_all_named_at_once() -> None:
    with pytest.raises(StewardError, match=r"line 1: 'colour'; line 2: 'size'"):
        read_directives("#SBATCH --colour=red\n#SBATCH --size 3\n", "x.sh")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (seconds, "soon"),
        (size_bytes, "4 apples"),
        (array_indices, "1-x"),
        (array_indices, "0-99999999"),
        (dependencies, "whenever:4"),
        (dependencies, "afterok"),
        (warning, "LOUD@3"),
        (warning, "USR1@²"),  # a digit for `isdigit`, and no number for int()
        (warning, "²"),
        (seconds, "9" * 400),  # too large for a float
        (seconds, "9" * 400 + "s"),
        (seconds, "9" * 5000),  # more digits than int() reads
        (size_bytes, "9" * 5000),
        (array_indices, "9" * 5000),
        (array_indices, "9-0"),  # none at all: it would become a job that is no array
        (array_indices, ""),
        (dependencies, "afterok:" + "9" * 30),
    ],
)
def test_values_that_mean_nothing_are_refused(read: object, text: str) -> None:
    with pytest.raises(StewardError):
        read(text, "here")  # type: ignore[operator]


def test_gpus_can_be_asked_for_as_a_generic_resource() -> None:
    assert gpus_of({"gres": "gpu:h200:3"}) == 3
    assert gpus_of({"gres": "gpu"}) == 1
    assert gpus_of({}) == 0


@pytest.mark.parametrize("text", ["²", "-1", "9" * 5000])
def test_what_is_no_number_of_gpus_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match="is no number of GPUs"):
        gpus_of({"gpus": text})


def test_bytes_that_are_no_text_are_named_with_where_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = os.fsdecode(b"\xff")
    with pytest.raises(StewardError, match=r"argument 2: .* no UTF-8"):
        body_of(["printf", odd], {}, as_command=True)
    with pytest.raises(StewardError, match=r"--job-name: .* no UTF-8"):
        body_of(["true"], {"job-name": odd}, as_command=True)

    monkeypatch.setenv("ODD_ONE", odd)
    with pytest.raises(StewardError, match=r"environment: .*'ODD_ONE'"):
        body_of(["true"], {}, as_command=True)
    assert body_of(["true"], {"export": "NONE"}, as_command=True)[0]["environment"] == {}


def test_an_empty_range_is_no_array_of_one_job() -> None:
    with pytest.raises(StewardError, match="--array"):
        body_of(["true"], {"array": ""}, as_command=True)


def test_a_script_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "x"
    script.write_text("echo hi\n")

    with pytest.raises(StewardError, match="does not name its interpreter"):
        body_of([str(script)], {}, as_command=False)
    with pytest.raises(StewardError, match="cannot be read"):
        body_of([str(tmp_path / "none")], {}, as_command=False)


@pytest.mark.parametrize(("text", "expected"), [("5%", 0.05), ("5", 0.05), ("2.5 %", 0.025)])
def test_an_allowed_slowdown_is_a_percentage(tmp_path: Path, text: str, expected: float) -> None:
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/bash\n#STEWARD --max-slowdown='{text}'\ntrue\n")

    by_line, _, _ = body_of([str(script)], {}, as_command=False)
    by_option, _, _ = body_of(["true"], {"max-slowdown": text}, as_command=True)
    without, _, _ = body_of(["true"], {}, as_command=True)

    assert by_line["max_slowdown_share"] == by_option["max_slowdown_share"] == expected
    assert without["max_slowdown_share"] == 0.0


@pytest.mark.parametrize("text", ["-5%", "much", "80%", ""])
def test_a_slowdown_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(StewardError, match="no share") as refused:
        body_of(["true"], {"max-slowdown": text}, as_command=True)

    assert refused.value.hint == "write a percentage from 0 to 50, as 5%"
