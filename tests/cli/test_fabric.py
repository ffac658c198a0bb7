"""`steward fabric` as a person types it; wrong input never gives a traceback."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steward.cli.app import app
from steward.errors import StewardError

TREE = "SwitchName=s0 Switches=s[1-2]\nSwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\n"


def run(*arguments: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, ["fabric", *arguments])
    assert found.exit_code == code, found.output
    return found.stdout


@pytest.fixture
def tree(tmp_path: Path) -> str:
    file = tmp_path / "topology.conf"
    file.write_text(TREE)
    return str(file)


def test_show_gives_nodes_links_and_domains_and_unknown_is_null(tree: str) -> None:
    found = json.loads(run("show", tree, "--json"))

    assert {each["name"]: each["tier"] for each in found["nodes"]} == {
        "s0": 2, "s1": 1, "s2": 1, "n1": 0, "n2": 0, "n3": 0, "n4": 0,
    }  # fmt: skip
    assert len(found["links"]) == 6
    assert {each["bytes_per_s"] for each in found["links"]} == {None}
    assert found["domains"] == []


def test_show_reads_packed_files_and_prints_a_summary(tree: str, tmp_path: Path) -> None:
    packed = tmp_path / "t.conf.gz"
    packed.write_bytes(gzip.compress(TREE.encode()))
    said = run("show", str(packed))

    assert "unknown" in said
    assert said.splitlines()[1].split() == ["0", "node", "4", "n1,", "n2,", "n3,", "n4"]


def test_explain_names_the_links_between_two_nodes(tree: str) -> None:
    found = json.loads(run("explain", tree, "n1", "n4", "--json"))

    assert found["hops"] == 4
    assert {each["link"] for each in found["links"]} == {"n1>s1", "s1>s0", "s0>s2", "s2>n4"}
    assert "100%" in run("explain", tree, "n1", "n4")


def test_explain_exits_1_where_no_way_is_known(tmp_path: Path) -> None:
    file = tmp_path / "blocks.conf"
    file.write_text("BlockName=a Nodes=n1\nBlockName=b Nodes=n2\n")

    assert "no way from n1 to n2 is known" in run("explain", str(file), "n1", "n2", code=1)


def test_scan_lists_the_ports_of_this_machine() -> None:
    found = json.loads(run("scan", "--for", "0.01", "--json"))

    assert all({"name", "kind", "up", "figures"} <= set(each) for each in found["ports"])


def test_simulate_runs_jobs_on_a_topology_from_a_file(tree: str) -> None:
    found = json.loads(
        run(
            "simulate",
            "--topology",
            tree,
            "--jobs",
            "2",
            "--for",
            "2",
            "--policy",
            "none",
            "--json",
        )
    )

    assert [each["nodes"] for each in found["jobs"]] == [2, 2]
    assert all(each["steps"] > 0 for each in found["jobs"])
    assert found["decisions"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["show", "/nowhere"], "cannot be read"),
        (["show", "/"], "cannot be read"),
        (["show", "TREE", "--form", "tree"], "no form 'tree'"),
        (["explain", "TREE", "n1", "n9"], "'n9' is not in this topology"),
        (["explain", "TREE", "n1", "s0"], "one of these is a switch"),
        (["scan", "--for", "0"], "not possible"),
        (["simulate", "--shape", "ring"], "ring"),
        (["simulate", "--policy", "nobody"], "nobody"),
        (["simulate", "--for", "0"], "not possible"),
        (["simulate", "--gbit", "nan"], "not possible"),
        (["simulate", "--jobs", "0"], "do not fit"),
    ],
)
def test_what_is_wrong_is_said(tree: str, arguments: list[str], says: str) -> None:
    words = ["fabric", *(tree if each == "TREE" else each for each in arguments)]
    found = CliRunner().invoke(app, words)

    assert found.exit_code != 0
    assert isinstance(found.exception, StewardError | SystemExit)
    assert says in f"{found.exception} {found.output}"
