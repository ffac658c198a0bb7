"""Campaign files as people write them, right and wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.applications.campaign_file import read_campaign

GOOD = """
name: toy
command: ./run --n {n} --steps {steps} --dt {dt} {flag}
parameters:
  n: {full: 128, small: {from: 16, to: 64, count: 3}}
  steps: {full: [1000], small: [100, 200]}
  dt: [1e-3, 0.01]
  flag: [true, false]
work: n**3 * steps
resources: {slots: 2, time: 10}
budget: {cost_s: 600, runs: 20, full_runs: 2}
concurrency: 3
width: 0.2
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "campaign.yaml"
    file.write_text(text)
    return file


def test_a_file_gives_its_campaign(tmp_path: Path) -> None:
    made = read_campaign(written(tmp_path, GOOD))

    assert made.command == ("./run", "--n", "{n}", "--steps", "{steps}", "--dt", "{dt}", "{flag}")
    values = {each.name: (each.full, each.small) for each in made.parameters}
    assert values["n"] == ((128,), (16, 32, 64))
    assert values["dt"] == ((0.001, 0.01), ())
    assert values["flag"] == (("true", "false"), ())
    assert (made.work, made.options) == (("n**3 * steps",), {"slots": "2", "time": "10"})
    assert (made.budget_s, made.most_runs, made.most_full_runs) == (600.0, 20, 2)
    assert (made.concurrency, made.width) == (3, 0.2)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("name: toy", "nam: toy", "there is no key 'nam'; name: a text is needed"),
        ("width: 0.2", "width: wide", "width: 'wide' is no number"),
        ("concurrency: 3", "concurrency: 1.5", "1.5 is no whole number"),
        ("[100, 200]", "[100, many]", "parameters.steps: text and numbers are mixed"),
        ("from: 16, to: 64", "from: 64, to: 16", "it goes from 64 to 16, which is less"),
        ("from: 16, to: 64", "from: 16, to: 256", "small goes up to 256, full only to 128"),
        ("from: 16, to: 64", "from: 0, to: 64, log: true", "a logarithmic range is above 0"),
        ("from: 16, to: 64", "from: 16", "to is missing"),
        ("from: 16, to: 64", "from: a, to: 64", "text is no range"),
        ("work: n**3 * steps", "work: m**3", "no numeric parameter is called 'm'"),
        ("work: n**3 * steps", "work: {n: 1}", "is no list of terms"),
        ("resources: {slots: 2", "resources: {token: x", "there is no key 'token'"),
        ("resources: {slots: 2", "resources: {slots: [2]", "resources.slots: [2] is no value"),
        ("budget: {cost_s: 600", "budget: {cost_s: -1", "budget.cost_s: -1.0 is not possible"),
        ("budget: {cost_s: 600, runs: 20, full_runs: 2}", "budget: 7", "7 is no mapping"),
        ("--dt {dt}", "--dt '{dt}", "command: it cannot be read"),
        ("--dt {dt}", "--dt", "the command does not use dt"),
    ],
)
def test_mistakes_are_told_with_their_place(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert old in GOOD
    with pytest.raises(StewardError) as fault:
        read_campaign(written(tmp_path, GOOD.replace(old, new)))

    assert problem in str(fault.value)
    assert "campaign.yaml" in fault.value.where
    assert fault.value.hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "no mapping"), ("a: [", "no YAML"), ("a: !!python/object:os.system {}", "no YAML")],
)
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        read_campaign(written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="cannot be read"):
        read_campaign(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(StewardError, match="no YAML"):
        read_campaign(tmp_path / "bytes.yaml")


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    wrong = GOOD.replace("width: 0.2", "width: x").replace("concurrency: 3", "concurrency: y")

    with pytest.raises(StewardError, match=r"concurrency: .*; width: "):
        read_campaign(written(tmp_path, wrong))
