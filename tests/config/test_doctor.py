"""The doctor checks everything, changes nothing, and gives hints."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from factories import decision, samples
from recorded_nvml import RecordedNvml
from steward.clients.nvml import Driver
from steward.config import Draft, draft_settings
from steward.config.doctor import Check, address_taken, examine, power_caps
from steward.config.settings import Settings
from steward.errors import StewardError
from steward.model.event import Availability
from steward.observe.collectors import COLLECTORS
from steward.store.journal import open_journal
from steward.store.telemetry import Telemetry
from steward.store.tokens import Role, Tokens


def draft(folder: Path, **environment: str) -> Draft:
    return draft_settings(None, {"STEWARD_STORE__FOLDER": str(folder), **environment})


def checks(of: Draft) -> Mapping[str, Check]:
    return {check.name: check for check in examine(of)}


def test_on_an_empty_folder_nothing_that_is_required_is_missing(tmp_path: Path) -> None:
    found = checks(draft(tmp_path / "new", STEWARD_SERVICE__PORT="0"))

    assert [check.name for check in found.values() if check.blocks] == []
    assert {"python", "configuration", "store folder", "journal", "telemetry", "address"} <= set(
        found
    )
    assert {"host", "nvml", "dry-run", "nvidia", "slurm", "kubernetes", "prometheus"} <= set(found)
    assert {check.status for check in found.values()} <= {"ok", "limited", "missing"}


def test_looking_makes_nothing(tmp_path: Path) -> None:
    checks(draft(tmp_path / "new"))

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    check = checks(draft(file / "inside"))["store folder"]

    assert check.blocks
    assert "is not a folder" in check.reason
    assert "--data" in check.hint


def test_a_token_file_that_was_written_by_half_is_not_taken_for_none(tmp_path: Path) -> None:
    Tokens(tmp_path / "tokens.json").make("ada", Role.VIEWER)
    sound = checks(draft(tmp_path))["tokens"]
    whole = (tmp_path / "tokens.json").read_bytes()
    (tmp_path / "tokens.json").write_bytes(whole[: len(whole) // 2])

    half = checks(draft(tmp_path))["tokens"]

    assert (sound.status, "1 tokens" in sound.reason) == ("ok", True)
    assert half.status == "limited"
    assert str(tmp_path / "tokens.json") in half.reason
    assert "every token is refused" in half.reason
    assert "restore it" in half.hint


def test_a_journal_with_entries_is_sound(tmp_path: Path) -> None:
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([decision()])
    journal.close()

    check = checks(draft(tmp_path))["journal"]

    assert check.status == "ok"
    assert "1 entries" in check.reason


def test_a_damaged_journal_is_named_with_what_was_saved(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite3").write_bytes(b"not a database, but long enough to be one" * 50)

    check = checks(draft(tmp_path))["journal"]

    assert check.status == "limited"
    assert "damaged" in check.reason


def test_a_journal_on_a_server_that_is_not_there_is_missing(tmp_path: Path) -> None:
    url = "postgresql://me:geheim@127.0.0.1:1/steward"

    check = checks(draft(tmp_path, STEWARD_STORE__JOURNAL=url))["journal"]

    assert check.blocks
    assert "geheim" not in check.reason + check.hint


def test_telemetry_is_counted(tmp_path: Path) -> None:
    telemetry = Telemetry(tmp_path / "telemetry")
    telemetry.append(samples(1000.0, {"n1/gpu0": {"gpu.busy_share": 0.5}}))
    telemetry.flush()

    check = checks(draft(tmp_path))["telemetry"]

    assert check.status == "ok"
    assert "1 files" in check.reason


def test_a_broken_telemetry_file_is_named(tmp_path: Path) -> None:
    telemetry = Telemetry(tmp_path / "telemetry")
    telemetry.append(samples(1000.0, {"n1/gpu0": {"gpu.busy_share": 0.5}}))
    telemetry.flush()
    (file,) = (tmp_path / "telemetry").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:40])

    check = checks(draft(tmp_path))["telemetry"]

    assert check.status == "limited"
    assert file.name in check.reason


def test_a_port_in_use_is_reported_and_does_not_block(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        check = checks(draft(tmp_path, STEWARD_SERVICE__PORT=str(port)))["address"]

    assert check.status == "limited"
    assert "in use" in check.reason
    assert not check.blocks


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.1", "x" * 300, "\udc80"])
def test_an_address_that_is_not_ours_is_taken(host: str) -> None:
    assert address_taken(host, 0)


def test_a_mistake_in_the_configuration_blocks(tmp_path: Path) -> None:
    check = checks(draft(tmp_path, STEWARD_LOOP__EVERY_S="x", STEWARD_ACT__ACTUATOR="dry-rum"))[
        "configuration"
    ]

    assert check.blocks
    assert "loop.every_s is 'x'" in check.reason
    assert "did you mean 'dry-run'?" in check.reason


class Broken:
    """A collector whose availability check raises."""

    name = "broken"

    def available(self) -> Availability:
        message = "no such bus"
        raise ValueError(message)


class Refusing(Broken):
    """A collector that is unavailable with a reason."""

    def available(self) -> Availability:
        problem = "no such bus"
        raise StewardError(problem, hint="plug it in")


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Broken, "it cannot be queried: ValueError: no such bus"), (Refusing, "no such")],
)
def test_a_plug_that_throws_hides_no_other_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: type, expected: str
) -> None:
    monkeypatch.setitem(COLLECTORS, "broken", make)

    found = checks(draft(tmp_path))

    assert found["broken"].status == "missing"
    assert expected in found["broken"].reason
    assert found["host"].status == "ok"
    assert not found["broken"].blocks


def test_an_engine_whose_controller_does_not_answer_is_not_ok(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in (("squeue", "slurm 23.11.4"), ("sinfo", ""), ("scontrol", "ctl is DOWN")):
        (command := tmp_path / name).write_text(f"#!/bin/sh\necho '{said}'\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    down = checks(draft(tmp_path / "data"))["slurm"]
    (tmp_path / "scontrol").write_text("#!/bin/sh\necho 'Slurmctld(primary) at ctl is UP'\n")
    up = checks(draft(tmp_path / "data"))["slurm"]

    assert (down.kind, down.status) == ("engine", "limited")
    assert "its controller does not answer" in down.reason
    assert "scontrol ping" in down.hint
    assert (up.kind, up.status, up.reason) == ("engine", "ok", "slurm 23.11.4")


def test_without_any_collector_that_works_steward_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COLLECTORS, "broken", Broken)  # type: ignore[arg-type]
    settings = Settings.model_validate(
        {"observe": {"collectors": ["broken"]}, "store": {"folder": str(tmp_path)}}
    )

    found = checks(Draft(settings=settings, file=None))

    assert found["broken"].blocks
    assert not found["host"].blocks


@pytest.mark.parametrize(
    ("mode", "reason", "hint"),
    [
        ("process", "a restart of the service leaves jobs running", ""),
        ("control-group", "CPU slots", "ends its jobs (KillMode=control-group)"),
    ],
)
def test_it_says_whether_jobs_outlive_a_restart_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str, hint: str
) -> None:
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho LoadState=loaded\necho KillMode={mode}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    check = checks(draft(tmp_path / "new"))["jobs"]

    assert reason in check.reason
    assert hint in check.hint


def test_without_a_unit_it_says_nothing_about_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert "restart" not in repr(checks(draft(tmp_path / "new"))["jobs"])


def test_it_says_whether_power_limits_can_be_set_and_sets_none() -> None:
    library = RecordedNvml()
    refused = Availability(status="missing", reason="this process is not root", hint="be root")

    fine = power_caps(Driver(library), Availability(status="ok", reason="it may"))
    without = power_caps(Driver(library), refused)
    library.refuses["nvmlDeviceGetPowerManagementLimit"] = 3
    unsupported = power_caps(Driver(library), refused)

    assert (fine.status, fine.reason) == ("ok", "it may; 2 GPUs, 200 to 700 W")
    assert (without.status, without.hint) == ("missing", "be root")
    assert "does not let its power limit be set" in unsupported.reason
    assert power_caps(Driver(RecordedNvml(0)), refused).reason == "there is no GPU here"
    assert library.calls["nvmlDeviceSetPowerManagementLimit"] == 0
