"""`steward rules run`: logs, pipes, folders and series in; a table, JSON, SARIF or a page out."""

from __future__ import annotations

import gzip
import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import jsonschema_rs
import pytest
from typer.testing import CliRunner

from cli.rules import sarif_schema
from cli.rules.rule_files import LOG, disk_rule, idle_series
from steward.cli.app import app
from told import steward


def run(folder: Path, *args: object) -> Any:
    return steward("rules", "run", *args, "--rules", folder, "--data", folder.parent / "store")


def test_json_says_what_was_read_and_what_was_found(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)

    answer = run(folder, folder / "test.log", "--json")

    assert answer.code == 1
    found = answer.json
    assert (found["lines"], found["bytes"], found["unparsed"]) == (3, len(LOG), 0)
    assert found["seconds"] > 0
    (finding,) = found["findings"]
    assert finding["rule"] == "DISK-0001"
    assert finding["severity"] == "high"
    assert finding["title"] == "Checkpoint failed and nobody wrote another"
    assert finding["last_t"] - finding["first_t"] == 60.0
    assert finding["hits"] == 1
    assert [(each["line"], each["text"]) for each in finding["evidence"]] == [
        (1, LOG.splitlines()[0]),
        (3, LOG.splitlines()[2]),
    ]


def test_nothing_found_is_0_and_something_found_is_1(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)

    assert run(folder, folder / "test-fp.log").code == 0
    assert run(folder, folder / "test.log").code == 1


@pytest.mark.parametrize(
    ("asked", "code"), [("critical", 0), ("high", 1), ("low", 1), ("0", 0), ("1", 1), ("HIGH", 1)]
)
def test_only_what_is_bad_enough_changes_the_exit_status(
    tmp_path: Path, asked: str, code: int
) -> None:
    folder = disk_rule(tmp_path, severity=1)

    answer = run(folder, folder / "test.log", "--severity", asked)

    assert answer.code == code
    assert ("not shown" in answer.out) is (code == 0)


def test_the_table_has_the_finding_its_cause_what_to_do_and_its_lines(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)

    out = run(folder, folder / "test.log").out

    assert out.splitlines()[0].split() == [
        "severity", "rule", "title", "entity", "hits", "first", "last",
    ]  # fmt: skip
    assert "the disk is full" in out
    assert "make room" in out
    assert f"{folder / 'test.log'}:3: 2026-03-02 10:01:00 ERROR disk full <b>&" in out


def test_a_pipe_a_packed_file_and_a_folder_are_read_alike(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "train.log.gz").write_bytes(gzip.compress(LOG.encode()))
    (logs / "model.bin").write_bytes(b"\0" * 100)

    answer = run(folder, logs, "--json")

    assert [each["hits"] for each in answer.json["findings"]] == [1]
    assert "model.bin" in answer.json["notes"][0]
    for names in (["-"], []):
        piped = CliRunner().invoke(
            app, ["rules", "run", *names, "--rules", str(folder), "--json"], input=LOG
        )
        assert piped.exit_code == 1
        assert json.loads(piped.stdout)["findings"][0]["evidence"][0]["stream"] == "stdin"


def test_without_paths_and_pipe_it_says_what_is_possible(tmp_path: Path) -> None:
    answer = steward("rules", "run", "--rules", disk_rule(tmp_path), "/nonexistent/x.log")

    assert answer.code == 2
    assert "there is no /nonexistent/x.log" in answer.err


def test_a_log_of_another_source_is_not_looked_at(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    log = folder / "test.log"

    assert run(folder, log, "--source", "cre.log.kernel=test.log").code == 0
    assert run(folder, log, "--source", "cre.log.training=test.log").code == 1
    wrong = run(folder, log, "--source", "cre.log.kernel")
    assert (wrong.code, "NAME=PATTERN" in wrong.err) == (2, True)


def test_sarif_has_what_the_standard_asks_for(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    out = tmp_path / "found.sarif"

    assert run(folder, folder / "test.log", "--out", out).code == 1

    log = json.loads(out.read_text(encoding="utf-8"))
    jsonschema_rs.validate(sarif_schema.LOG, log, validate_formats=True)
    assert log["version"] == "2.1.0"
    (one,) = log["runs"]
    driver = one["tool"]["driver"]
    (rule,) = driver["rules"]
    assert (driver["name"], rule["id"]) == ("steward", "DISK-0001")
    assert "make room" in rule["help"]["text"]
    assert rule["helpUri"] == "https://example.org/disk"
    assert rule["defaultConfiguration"]["level"] == "error"
    (result,) = one["results"]
    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("DISK-0001", 0, "error")
    assert result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == (folder / "test.log").as_uri()
    assert place["region"]["startLine"] == 1
    assert result["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert one["invocations"][0]["executionSuccessful"] is True


def test_sarif_of_hostile_rules_logs_and_series_is_valid_and_its_markdown_harmless(
    tmp_path: Path,
) -> None:
    folder = disk_rule(tmp_path)
    rule = folder / "rule.yaml"
    text = rule.read_text(encoding="utf-8")
    text = text.replace("make room", "'<b>make</b> `room < 1` # now'")
    text = text.replace("https://example.org/disk", "https://example.org/a b<c>")
    rule.write_text(text.replace("[disk]", "[disk, disk, '<x>']"), encoding="utf-8")
    log = tmp_path / "a b%#ü.log"
    log.write_bytes(LOG.encode().replace(b"<b>&", b"\x00\xff\x1b[31m"))
    out, series_out = tmp_path / "found.sarif", tmp_path / "series.sarif"
    idle, series = idle_series(tmp_path)

    run(folder, log, "--out", out)
    steward("rules", "run", "--telemetry", series, "--rules", idle, "--out", series_out)

    for file in (series_out, out):
        found = json.loads(file.read_text(encoding="utf-8"))
        jsonschema_rs.validate(sarif_schema.LOG, found, validate_formats=True)
        assert found["runs"][0]["results"]
    helps = json.loads(out.read_text(encoding="utf-8"))["runs"][0]["tool"]["driver"]["rules"][0][
        "help"
    ]
    assert "\\<b\\>make\\</b\\> `room < 1`" in helps["markdown"]
    assert "<b>make</b> room < 1 # now" in helps["text"]


def test_rule_text_in_the_page_is_shown_as_lists_and_code_and_never_as_html(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    rule = folder / "rule.yaml"
    text = rule.read_text(encoding="utf-8")
    evil = '"- run `df -h`\\n- <script>alert(1)</script> [x](javascript:alert(1))"'
    rule.write_text(text.replace("make room", evil), encoding="utf-8")

    page = run(folder, folder / "test.log", "--format", "html").out

    assert "<li>run <code>df -h</code></li>" in page
    assert "<script" not in page
    assert 'href="javascript' not in page


def test_the_page_needs_nothing_from_elsewhere_and_logs_are_only_text(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    log = tmp_path / "evil.log"
    log.write_text(LOG.replace("<b>&", "</pre><script>alert(1)</script>\x1b[31m"), encoding="utf-8")

    answer = run(folder, log, "--format", "html")

    assert answer.code == 1
    assert "<script" not in answer.out
    assert "&lt;script&gt;alert(1)" in answer.out
    assert "\x1b" not in answer.out
    assert 'src="' not in answer.out
    assert "default-src 'none'" in answer.out


def test_the_page_draws_the_very_series(tmp_path: Path) -> None:
    rule, series = idle_series(tmp_path)
    out = tmp_path / "found.html"

    answer = steward("rules", "run", "--telemetry", series, "--rules", rule, "--out", out)

    page = out.read_text(encoding="utf-8")
    assert answer.code == 1
    assert page.count("<svg") == 1
    assert "gpu.busy_share of n01/gpu0" in page
    assert '<rect class="fired"' in page
    assert "use it, or give it back" in page


def test_series_are_found_and_told_as_json(tmp_path: Path) -> None:
    rule, series = idle_series(tmp_path)

    found = steward("rules", "run", "--telemetry", series, "--rules", rule, "--json").json

    assert found["samples"] == 30
    (finding,) = found["findings"]
    assert (finding["rule"], finding["entity"]) == ("IDLE-0001", "n01/gpu0")
    assert finding["evidence"][0]["metric"] == "gpu.busy_share"


class Answering(BaseHTTPRequestHandler):
    """A Prometheus in which one GPU has been idle for ten minutes."""

    def do_GET(self) -> None:
        asked = parse_qs(urlparse(self.path).query)
        data: dict[str, object] = {"version": "3.0"}
        if "query" in asked:
            data = {"resultType": "matrix", "result": []}
        if "start" in asked:
            end_s, step_s = float(asked["end"][0]), float(asked["step"][0])
            steps = int((end_s - float(asked["start"][0])) / step_s) + 1
            times = [end_s - step_s * back for back in reversed(range(steps))]
            labels = {"Hostname": "n01", "gpu": "0"}
            values = [[t_s, "0.05"] for t_s in times if t_s > end_s - 600]
            data["result"] = [{"metric": labels, "values": values}]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"status": "success", "data": data}).encode())

    def log_message(self, *_args: object) -> None:
        pass


def test_a_prometheus_can_answer_instead(tmp_path: Path) -> None:
    rule, _ = idle_series(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        answer = steward("rules", "run", "--prometheus", url, "--rules", rule, "--json")
    finally:
        server.shutdown()
        server.server_close()

    assert answer.code == 1
    assert {each["entity"] for each in answer.json["findings"]} == {"n01/gpu0"}


def test_lines_without_a_time_are_not_dated(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    log = tmp_path / "plain.log"
    log.write_text("checkpoint 7 begun\ndisk full\n", encoding="utf-8")

    answer = run(folder, log)

    assert "no time" in answer.out
    assert "1970" not in answer.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--severity", "bad"], "there is no severity called 'bad'"),
        (["--format", "xml"], "there is no format called 'xml'"),
        (["--preq", "--strict"], "exclude each other"),
        (["--json", "--format", "html"], "exclude each other"),
        (["--follow", "--telemetry", "x.csv"], "--follow is for logs"),
        (["--prometheus", "localhost:9090"], "is not an address"),
    ],
)
def test_wrong_use_is_2_and_a_sentence(tmp_path: Path, args: list[str], said: str) -> None:
    folder = disk_rule(tmp_path)

    answer = run(folder, folder / "test.log", *args)

    assert answer.code == 2
    assert said in answer.err + answer.out


def unreadable(folder: Path, kind: str) -> Path:
    """Return a file that no line can be read from."""
    if kind == "refused":
        return Path("/proc/self/mem")  # opens, and cannot be read: also by root
    content = {
        "binary": hashlib.shake_128(b"x").digest(9000),
        "lz4": b"\x04\x22\x4d\x18" + bytes(100),
        "damaged": b"\x1f\x8b" + b"\xff" * 100,
    }[kind]
    (made := folder / f"{kind}.log").write_bytes(content)
    return made


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("refused", "it cannot be read: input/output error"),
        ("binary", "it is not text"),
        ("lz4", "lz4 is not known"),
        ("damaged", "the packed bytes are damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_and_the_others_are_read(
    tmp_path: Path, kind: str, said: str
) -> None:
    folder = disk_rule(tmp_path)
    broken = unreadable(tmp_path, kind)

    alone = run(folder, broken)
    beside = run(folder, broken, folder / "test.log")
    as_json = run(folder, broken, folder / "test-fp.log", "--json")

    assert (alone.code, beside.code, as_json.code) == (2, 2, 2)
    for answer in (alone, beside):
        assert f"error: {broken}: {said}" in answer.err
        assert "hint:" in answer.err
    assert "DISK-0001" in beside.out
    assert "warning" not in beside.err
    (error,) = as_json.json["errors"]
    assert (error["where"], as_json.json["lines"]) == (str(broken), 4)
    assert said in error["problem"]


def test_sarif_and_page_name_what_was_not_read(tmp_path: Path) -> None:
    folder, broken = disk_rule(tmp_path), unreadable(tmp_path, "binary")

    sarif = run(folder, broken, folder / "test.log", "--format", "sarif").json
    page = run(folder, broken, folder / "test.log", "--format", "html").out

    (invocation,) = sarif["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["level"] == "error"
    assert f"Not read:</strong> {broken}" in page


def test_a_log_of_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    folder, logs = disk_rule(tmp_path), tmp_path / "logs"
    logs.mkdir()
    (logs / "good.log").write_text(LOG)
    (logs / "locked.log").symlink_to("/proc/self/mem")

    answer = run(folder, logs)

    assert answer.code == 2
    assert f"error: {logs}/locked.log: it cannot be read" in answer.err
    assert "DISK-0001" in answer.out


def test_an_ending_that_tells_no_format_is_not_guessed_at(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG, encoding="utf-8")

    answer = run(disk_rule(tmp_path), log, "--out", tmp_path / "found.pdf")

    assert (answer.code, "'.pdf' does not tell what to write" in answer.err) == (2, True)
    assert not (tmp_path / "found.pdf").exists()


def test_lines_and_names_of_logs_cannot_turn_or_break_what_is_printed(tmp_path: Path) -> None:
    log = tmp_path / "two\nlines.log"
    log.write_text(LOG.replace("disk", "\u202e\u2066\x1b[2J disk"), encoding="utf-8")

    answer = run(disk_rule(tmp_path), log)

    assert answer.code == 1
    assert not {"\u202e", "\u2066", "\x1b"} & {*answer.out}
    assert "two lines.log:" in answer.out


def test_a_line_that_was_cut_is_told(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"2026-03-02 09:00:00 {'x' * 20_000_000}\n{LOG}", encoding="utf-8")

    answer = run(disk_rule(tmp_path), log)

    assert answer.code == 1
    assert "1 lines or entries were too long" in answer.err


def test_lines_that_came_late_are_told(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    log = tmp_path / "late.log"
    log.write_text("2026-03-02 10:00:00.000 a\n2026-03-02 09:00:00.000 b\n")

    assert not run(folder, log).err  # they were put in order
    assert "1 entries are older" in run(folder, log, "--preq").err


def test_samples_that_cannot_be_used_are_told_with_their_place(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    table = tmp_path / "odd.csv"
    table.write_text("t_s,entity,gpu.busy_share\nnoon,n1/gpu0,0.5\n2,n1/gpu0,much\n3,n1/gpu0,1\n")

    answer = run(folder, "--telemetry", table)

    assert "'t_s' cannot be read (odd.csv, line 2)" in answer.err
    assert "'gpu.busy_share' is no number (odd.csv, line 3)" in answer.err


def test_what_is_no_telemetry_is_refused_without_naming_options_of_other_commands(
    tmp_path: Path,
) -> None:
    empty = tmp_path / "empty.csv"
    empty.touch()

    answer = run(disk_rule(tmp_path), "--telemetry", empty)

    assert (answer.code, "--format" in answer.err) == (2, False)
    assert "give CSV, Parquet or OpenMetrics files" in answer.err


def test_faults_of_rules_are_said_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("rules:\n  - cre: {id: X-1}\n", encoding="utf-8")

    answer = steward("rules", "run", "-", "--rules", file)

    assert answer.code == 2
    assert f"{file}:2" in answer.err


def test_following_prints_at_once_and_ends_without_inventing(tmp_path: Path) -> None:
    folder = disk_rule(tmp_path)
    log = tmp_path / "live.log"
    log.touch()
    command = [sys.executable, "-c", "from steward.cli import main; main()", "rules", "run"]
    command += ["--follow", str(log), "--rules", str(folder), "--json"]
    command += ["--data", str(tmp_path / "store")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"following" in process.stderr.readline()
        with log.open("a", encoding="utf-8") as file:
            # The last line lets more than the negative window pass; the second match must wait.
            file.write(LOG + "2026-03-02 10:09:00 INFO checkpoint 8 begun\n")
            file.write("2026-03-02 10:09:01 ERROR disk full\n")
            file.flush()
        first = json.loads(process.stdout.readline())
        assert (first["rule"], first["evidence"][0]["line"]) == ("DISK-0001", 1)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    last = json.loads(rest)
    assert [each["hits"] for each in last["findings"]] == [1]
    assert process.returncode == 1


MERGED = """\
Nov 11 10:00:00 login1 sshd[1]: session opened
Nov 11 10:00:01 gpu02 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
Nov 11 10:00:03 gpu07 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.
"""


def test_every_output_blames_the_host_of_each_line_of_a_merged_log(tmp_path: Path) -> None:
    file = tmp_path / "merged.log"
    file.write_text(MERGED)

    def findings(*how: object) -> Any:
        return steward("rules", "run", file, *how, "--data", tmp_path / "store")

    found = findings("--json").json["findings"]
    (sarif,) = json.loads(findings("--format", "sarif").out)["runs"]
    page = findings("--format", "html").out
    table = findings().out

    assert [(each["rule"], each["entity"], each["node"]) for each in found] == [
        ("STW-GPU-0001", "gpu02", "gpu02"),
        ("STW-GPU-0001", "gpu07", "gpu07"),
    ]
    assert [each["properties"]["node"] for each in sarif["results"]] == ["gpu02", "gpu07"]
    for text in (page, table):
        assert "gpu02" in text
        assert "gpu07" in text
        assert "login1" not in text


def test_through_a_pipe_the_host_of_each_line_is_blamed_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "steward", "rules", "run", "-", "--json"],
        input=MERGED,
        capture_output=True,
        text=True,
        check=False,
    )

    found = json.loads(done.stdout)["findings"]

    assert [(each["entity"], each["node"]) for each in found] == [("gpu02",) * 2, ("gpu07",) * 2]
