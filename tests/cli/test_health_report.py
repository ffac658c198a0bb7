"""`steward health report`, `spares` and `checkpoints`, and scans of more than logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steward.cli.app import app

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DATA = Path(__file__).parents[1] / "data"


def run(*arguments: object, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["health", *map(str, arguments)])
    assert found.exit_code == code, found.output
    return found.output if code == 2 else found.stdout


def at(hours: float) -> str:
    return (BEGIN + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with a month of a small site: one GPU is bad, one was moved."""
    log = []
    for i in range(40):  # slot 06 of n1 holds s1 until hour 360, then it is at n2
        node = "n1" if i < 20 else "n2"
        head = f"{at(18 * i)} {node} kernel: [{18 * 3600 * i}.{i:06d}] NVRM: Xid (PCI:0000:06:00):"
        log += [f"{head} 122, x\n", f"{head.replace(']', '1]')} 31, pid=7, name=a, MMU Fault\n"]
    log.append(f"{at(719)} n3 kernel: NVRM: Xid (PCI:0000:07:00): 79, gone\n")
    (tmp_path / "kern.log").write_text("".join(log))
    rows = ["serial,node,slot,from,to,part"]
    rows += [f"s1,n1,0000:06:00,{at(-1)},{at(355)},H100", f"s1,n2,0000:06:00,{at(356)},,H100"]
    rows += [f"a{i},n{i},0000:07:00,{at(-1)},,{'A100' if i % 2 else 'H100'}" for i in range(1, 30)]
    (tmp_path / "gpus.csv").write_text("\n".join(rows) + "\n")
    jobs = ["JobID|State|Start|End|NodeList|AllocTRES"]
    jobs += [
        f"{i}|{'FAILED' if i < 20 else 'COMPLETED'}|{at(18 * i - 2)}|{at(18 * i + 0.002)}|"
        f"{'n1' if i < 20 else 'n9'}|gres/gpu=2"
        for i in range(40)
    ]
    jobs.append(f"open|RUNNING|{at(700)}|Unknown|n1|gres/gpu=2")
    (tmp_path / "jobs.txt").write_text("\n".join(jobs) + "\n")
    events = ["NodeName|TimeStart|TimeEnd|State|Reason"]
    events += [f"n{i}|{at(20 * i)}|{at(20 * i + 2)}|DOWN|x" for i in range(1, 20)]
    events += [f"n{i}|{at(500)}|{at(503)}|DRAIN|rack" for i in range(20, 26)]
    (tmp_path / "events.txt").write_text("\n".join(events) + "\n")
    return tmp_path


def report(site: Path, *more: object) -> dict[str, object]:
    return dict(json.loads(run(
        "report", site / "kern.log", "--inventory", site / "gpus.csv", "--accounts",
        site / "jobs.txt", "--accounts", site / "events.txt", "--json", *more,
    )))  # fmt: skip


def test_a_report_counts_by_gpu_wherever_it_was(site: Path) -> None:
    found = report(site)

    codes = {each["name"]: each for each in found["codes"]}  # type: ignore[attr-defined]
    assert codes["xid 122"]["worst"] == [["s1", 40]]
    assert codes["xid 122"]["rate"]["units_with"] == 1
    assert codes["xid 79"]["rate"]["exact"]["low"] > 0
    assert codes["xid 79"]["rate"]["exact"]["high"] / codes["xid 79"]["rate"]["exact"]["low"] > 100
    assert {each["name"] for each in found["parts"]} == {"A100", "H100"}  # type: ignore[attr-defined]


def test_a_report_says_what_follows_what_and_what_jobs_died_of(site: Path) -> None:
    found = report(site)

    edges = {(x["first"], x["then"]): x for x in found["propagation"]}  # type: ignore[attr-defined]
    assert edges["xid 122", "xid 31"]["share"]["mid"] > 0.9
    jobs = {each["kind"]: each for each in found["jobs"]}  # type: ignore[attr-defined]
    assert (jobs["xid 122"]["exposed"], jobs["xid 122"]["failed"]) == (20, 20)
    assert jobs["xid 122"]["attributable"]["low"] > 0.5
    assert found["availability"]["failures"] == 25  # type: ignore[index]
    assert set(found["spares"]) == {"independent", "as outages came"}  # type: ignore[call-overload]


def test_a_page_has_plots_and_runs_nothing(site: Path) -> None:
    page = site / "report.html"

    run("report", site / "kern.log", "--inventory", site / "gpus.csv", "--accounts",
        site / "jobs.txt", "--accounts", site / "events.txt", "-o", page)  # fmt: skip

    text = page.read_text()
    assert text.count("<svg") >= 3
    assert "<script" not in text
    assert "xid 122" in text
    assert "without the worst" in text


def test_without_exposure_there_is_an_interval_without_end_and_no_rate(site: Path) -> None:
    found = json.loads(run("report", site / "kern.log", "--json"))

    rate = found["codes"][0]["rate"]
    assert rate["exact"] == {"low": 0.0, "mid": None, "high": None}
    assert "unknown" in found["exposure"]["basis"]
    given = json.loads(run("report", site / "kern.log", "--gpus", "64", "--json"))
    assert given["exposure"]["gpu_hours"] == pytest.approx(64 * 719, rel=0.01)


def test_a_report_for_people_names_the_worst(site: Path) -> None:
    text = run("report", site / "kern.log", "--inventory", site / "gpus.csv", "--accounts",
               site / "events.txt")  # fmt: skip

    assert "xid 122: 40 on 1 GPUs" in text
    assert "spares, independent" in text


def test_a_single_event_makes_a_report(tmp_path: Path) -> None:
    (tmp_path / "k.log").write_text(f"{at(0)} n1 kernel: NVRM: Xid (PCI:0000:06:00): 79, x\n")

    found = json.loads(run("report", tmp_path / "k.log", "--gpus", "8", "--json"))

    assert found["codes"][0]["rate"]["exact"]["high"] is None  # no time has passed
    run("report", tmp_path / "k.log", "--gpus", "8", "-o", tmp_path / "r.html")


def test_a_history_is_characterised(tmp_path: Path) -> None:
    rows = ["SN,location,insert,remove,event"]
    rows += [f"A{i % 50:04d},c0-{i % 5},{at(i)},{at(i + 9000)},{'DBE' if i % 3 else ''}"
             for i in range(100)]  # fmt: skip
    file = tmp_path / "h.csv"
    file.write_text("\n".join(rows))

    found = json.loads(run("report", "--events", file, "--json"))

    assert found["kinds"]["DBE"]["count"] == 66
    assert found["survival"]["units"] == 50
    assert "DBE: 66" in run("report", "--events", file)
    run("report", "--events", file, "-o", tmp_path / "h.html")
    assert "Survival" in (tmp_path / "h.html").read_text()


def test_spares_by_states_of_nodes_and_by_an_availability(site: Path) -> None:
    measured = json.loads(run("spares", site / "events.txt", "--nodes", "100", "--json"))
    given = json.loads(run("spares", "--nodes", "1024", "--available", "0.995", "--json"))
    together = run("spares", "--nodes", "64", "--available", "0.99", "--group", "8",
                   "--group-down", "0.001")  # fmt: skip

    assert measured["plans"]["as outages came"]["spares"] > 0
    assert given["plans"]["independent"]["spares"] == 13
    assert "groups together" in together
    assert "MTTR" in run("spares", site / "events.txt")


def test_checkpoints_give_seconds_that_a_training_takes(site: Path) -> None:
    given = ("checkpoints", "--gpus", "1024", "--failures", "419", "--gpu-hours", "21233664")
    found = json.loads(run(*given, "--json"))

    assert found["every_s"] == pytest.approx(3248, abs=2)
    assert run(*given, "--plain").strip() == "3248"
    assert "STEWARD_SAVE_EVERY_S=3248" in run(*given)
    assert json.loads(run("checkpoints", "-G", "8", "--mtbf", "50000", "--json"))["gpus"] == 8
    by_log = run("checkpoints", "-G", "8", "--log", site / "kern.log", "--fleet", "64")
    assert "fatal faults" in by_log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report",), "nothing to report on"),
        (("report", "no.log"), "no such file"),
        (("spares",), "nothing to count from"),
        (("spares", "--nodes", "9", "--available", "0.99", "--group", "4", "--group-down", "2"),
         "down for 2"),
        (("spares", "--nodes", "9", "--available", "1.5"), "never be enough"),
        (("checkpoints", "-G", "8"), "from one source"),
        (("checkpoints", "-G", "8", "--mtbf", "9", "--failures", "3"), "from one source"),
        (("checkpoints", "-G", "8", "--mtbf", "9", "--save", "-1"), "not possible"),
        (("checkpoints", "-G", "8", "--mtbf", "0"), "no rate"),
    ],
)  # fmt: skip
def test_wrong_use_is_said(arguments: tuple[str, ...], said: str) -> None:
    assert said in run(*arguments, code=2)


def test_logs_without_time_or_fleet_give_no_interval(tmp_path: Path) -> None:
    (tmp_path / "k.log").write_text(f"{at(0)} n1 kernel: NVRM: Xid (PCI:0000:06:00): 79, x\n")

    assert "of how many" in run("checkpoints", "-G", "8", "--log", tmp_path / "k.log", code=2)
    assert "span no time" in run(
        "checkpoints", "-G", "8", "--log", tmp_path / "k.log", "--fleet", "8", code=2
    )
    (tmp_path / "n.txt").write_text("NodeName|TimeStart|TimeEnd|State\nn1|Unknown|Unknown|DOWN\n")
    assert "no node was ever" in run("spares", tmp_path / "n.txt", code=2)


def test_a_scan_reads_states_of_gpus_and_silences(tmp_path: Path) -> None:
    rows = [f"n{i},0,157" for i in range(40)] + ["other,0,1439"]
    (tmp_path / "seen.csv").write_text("node,start_min_utc,end_min_utc\n" + "\n".join(rows) + "\n")
    query = DATA / "nvidia-smi-q" / "query.txt"

    found = json.loads(run("scan", tmp_path, query, "--node", "n1", "--json", code=1))["incidents"]

    kinds = {(each["kind"], each["action"]) for each in found}
    assert ("silence", "watch") in kinds
    assert ("gpu-state", "replace") in kinds
    assert sum(each["kind"] == "silence" for each in found) == 1
    assert {each["gpu"] for each in found if each["kind"] == "gpu-state"} == {"1654123000002"}
