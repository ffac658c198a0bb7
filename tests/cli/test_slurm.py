"""`steward slurm`: what a site needs, and what a decision would run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from factories import decision, start
from fake_slurm import FakeSlurm
from steward.store.journal import open_journal
from told import steward


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a configuration file of a site with a Slurm that answers."""
    (tmp_path / "bin").mkdir()
    FakeSlurm(tmp_path / "bin").controller()
    file = tmp_path / "steward.toml"
    file.write_text(f"[plugs.slurm]\nfolder = '{tmp_path}/bin:/bin:/usr/bin'\n")
    return file


def test_the_setup_compares_with_what_the_controller_has(site: Path) -> None:
    made = steward("slurm", "setup", "--config", site, "--nodes", "n[1-4]", "--json").json

    lines = {each["line"]: each for each in made["lines"]}
    assert made["version"] == "22.05"
    assert lines["PreemptMode=REQUEUE"]["present"]
    assert lines["JobRequeue=1"]["current"] == "0"
    assert "PartitionName=pool Nodes=n[1-4] " in made["slurm_conf"]


def test_the_setup_says_who_calls_back() -> None:
    ours = steward("slurm", "setup", "--slurm-version", "24.11", "--called-back-by", "steward")
    wrong = steward("slurm", "setup", "--slurm-version", "24.11", "--called-back-by", "nobody")

    assert "PartitionName=pool Nodes=ALL Default=NO State=UP PriorityTier=1 PreemptMode=OFF" in (
        ours.out
    )
    assert (wrong.code, "not slurm or steward" in wrong.err) == (2, True)


def test_the_setup_of_another_version_needs_no_slurm(tmp_path: Path) -> None:
    answer = steward("slurm", "setup", "--slurm-version", "24.11", "--grace", "30")

    assert answer.code == 0
    assert "PreemptParameters=send_user_signal" in answer.out.splitlines()
    assert "#SBATCH --signal=B:USR2@30" in answer.out.splitlines()
    assert "nothing was changed" in answer.err


def test_a_site_that_has_no_cluster_yet_gets_the_setup_of_what_is_installed(
    tmp_path: Path,
) -> None:
    (tmp_path / "bin").mkdir()
    commands = FakeSlurm(tmp_path / "bin")
    commands.command("scontrol", "echo 'error: DNS SRV lookup failed' >&2; exit 1")
    commands.command("slurmctld", '[ "$1" = -V ] && echo "slurm-wlm 22.05.8"')
    file = tmp_path / "steward.toml"
    file.write_text(f"[plugs.slurm]\nfolder = '{tmp_path}/bin:/bin:/usr/bin'\n")

    answer = steward("slurm", "setup", "--config", file, "--json")

    assert answer.json["version"] == "22.05"
    assert all(each["current"] is None for each in answer.json["lines"])
    assert "no cluster to compare with; 22.05.8 is installed here" in answer.err


def test_what_is_optional_is_printed_as_a_comment() -> None:
    text = steward("slurm", "setup", "--slurm-version", "24.11").out
    made = steward("slurm", "setup", "--slurm-version", "24.11", "--json").json

    assert "# CliFilterPlugins=cli_filter/lua" in text.splitlines()
    assert "function slurm_cli_pre_submit" in made["cli_filter"]
    assert "CliFilterPlugins" not in made["slurm_conf"]  # without its file, no job is submitted


def test_a_wrong_version_is_refused() -> None:
    answer = steward("slurm", "setup", "--slurm-version", "new")

    assert answer.code == 2
    assert "not one as 23.11" in answer.err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--nodes", "n[1-4"),
        ("--nodes", ""),
        ("--nodes", "n1 State=DOWN"),
        ("--nodes", "n1\nPartitionName=all"),
        ("--account", "a b"),
        ("--account", ""),
        ("--account", "-r"),
    ],
)
def test_no_other_line_gets_into_the_printed_configuration(option: str, value: str) -> None:
    answer = steward("slurm", "setup", "--slurm-version", "24.11", option, value)

    assert (answer.code, answer.out) == (2, "")
    assert option in answer.err


@pytest.mark.parametrize("nodes", ["n1", "n[1-4,7]", "gpu[01-16]-ib,login.example.org", "ALL"])
def test_nodes_are_named_as_in_slurm_conf(nodes: str) -> None:
    made = steward("slurm", "setup", "--slurm-version", "24.11", "--nodes", nodes, "--json").json

    assert f"PartitionName=pool Nodes={nodes} " in made["slurm_conf"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the recorded jobs are root's")
def test_the_commands_of_a_decision_are_printed_and_not_run(site: Path, tmp_path: Path) -> None:
    made = decision("d-start", action=start(job="18").action, t_s=1794967300.0)
    journal = open_journal(f"sqlite:///{tmp_path}/journal.sqlite3")
    journal.append([made])
    journal.close()

    answer = steward("slurm", "commands", "d-start", "--config", site, "--data", tmp_path)
    again = steward("slurm", "commands", "d-start", "--config", site, "--data", tmp_path, "--json")

    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[0] == "scontrol release 18"
    assert again.json["result"] == "begun"
    calls = (site.parent / "bin" / "calls").read_text().splitlines()
    assert {*calls} <= {"ping", "show config", "--version"}
