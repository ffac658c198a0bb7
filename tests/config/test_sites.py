"""Sites of a configuration: what they inherit, what is their own, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from steward.config import SettingsError, draft_settings
from steward.errors import StewardError
from steward.model.decision import Autonomy

TWO = """\
[loop]
every_s = 3
autonomy = "auto"
[store]
folder = "{folder}"
journal = "postgresql://me@db/steward"
[service]
port = 8787
socket = "/run/steward.sock"
otlp_grpc_port = 4317
[jobs]
engine = "slurm"
[plugs.slurm]
conf = "/etc/slurm/slurm.conf"
timeout_s = 7.0
[sites.a.plugs.slurm]
conf = "/etc/slurm-a/slurm.conf"
[sites.b.loop]
autonomy = "advise"
[sites.b.service]
port = 8790
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "steward.toml"
    file.write_text(text.format(folder=folder / "data"), encoding="utf-8")
    return file


def test_a_site_has_the_settings_of_the_file_and_its_own_on_top(tmp_path: Path) -> None:
    draft = draft_settings(written(tmp_path, TWO), {})

    a, b = draft.of_site("a").settings, draft.of_site("b").settings

    assert draft.mistakes == ()
    assert (a.loop.every_s, a.loop.autonomy) == (3.0, Autonomy.AUTO)
    assert a.plugs["slurm"] == {"conf": "/etc/slurm-a/slurm.conf", "timeout_s": 7.0}
    assert (b.loop.every_s, b.loop.autonomy) == (3.0, Autonomy.ADVISE)
    assert b.plugs["slurm"]["conf"] == "/etc/slurm/slurm.conf"


def test_what_two_processes_cannot_share_is_never_inherited(tmp_path: Path) -> None:
    draft = draft_settings(written(tmp_path, TWO), {})

    a, b = draft.of_site("a").settings, draft.of_site("b").settings

    assert a.store.path == tmp_path / "data" / "sites" / "a"
    assert a.store.journal_url == f"sqlite:///{a.store.path}/journal.sqlite3"
    assert a.socket_path == a.store.path / "steward.sock"
    assert (a.service.port, a.service.otlp_grpc_port, a.jobs.enabled) == (0, 0, False)
    assert (a.site.name, b.site.name, b.service.port) == ("a", "b", 8790)
    assert a.sites == {}


def test_a_variable_sets_a_key_of_a_site(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)

    draft = draft_settings(file, {"STEWARD_SITES__A__LOOP__EVERY_S": "9"})

    assert draft.mistakes == ()
    assert draft.of_site("a").settings.loop.every_s == 9.0
    assert draft.of_site("a").origin(("loop", "every_s")).endswith("EVERY_S")
    assert draft.of_site("b").settings.loop.every_s == 3.0
    assert draft.of_site("b").origin(("loop", "autonomy")) == f"{file}:19"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sites.a.loop]\nevry_s = 3\n", ":2:1: [loop] has no key 'evry_s'"),
        ("[sites.a.lop]\nevery_s = 3\n", ":1:1: there is no section [lop]"),
        ("[sites.a]\nloop = 3\n", ":2:8: loop is 3, not"),
        ("[sites]\na = 3\n", ":2:5: sites.a is 3, not"),
        ('[sites."../a".loop]\nevery_s = 3\n', "cannot be the name of a site"),
        ("[sites.a.sites.b.loop]\nevery_s = 3\n", "site 'a' has sites of its own"),
    ],
)
def test_a_mistake_in_a_site_is_reported_at_its_place(tmp_path: Path, text: str, says: str) -> None:
    (mistake,) = draft_settings(written(tmp_path, text), {}).mistakes

    assert says in str(mistake)


def test_a_mistake_that_all_sites_inherit_is_reported_once(tmp_path: Path) -> None:
    draft = draft_settings(written(tmp_path, "[loop]\nevery_s = 0\n[sites.a]\n[sites.b]\n"), {})

    assert [each.key for each in draft.mistakes] == ["loop.every_s"]
    with pytest.raises(SettingsError):
        draft.of_site("a").settled()


def test_an_unknown_site_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="no site called 'c'; known: a, b"):
        draft_settings(written(tmp_path, TWO), {}).of_site("c")
    with pytest.raises(StewardError, match="the configuration has no sites"):
        draft_settings(None, {}).of_site("a")
