"""What a site is told to configure depends on its version and on what it has."""

from __future__ import annotations

import pytest

from steward.clients.slurm.site_setup import parse_version, site_setup
from steward.errors import StewardError


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("22.05.8", "SlurmctldParameters=preempt_send_user_signal"),
        ("slurm 23.02.1", "PreemptParameters=send_user_signal"),
        ("25.11", "PreemptParameters=send_user_signal"),
    ],
)
def test_the_warning_has_another_key_in_each_version(version: str, line: str) -> None:
    lines = site_setup(version).slurm_conf.splitlines()

    assert line in lines
    assert sum("send_user_signal" in each for each in lines) == 1  # the other key may be fatal


def test_where_steward_calls_back_slurm_leaves_the_pool_alone() -> None:
    by_slurm, by_steward = (site_setup("23.11", called_back_by=who) for who in ("slurm", "steward"))

    assert "PreemptMode=REQUEUE GraceTime=60" in by_slurm.partitions[1]
    assert by_steward.partitions[1].endswith("PriorityTier=1 PreemptMode=OFF")
    assert {*by_steward.notes} > {*by_slurm.notes}


def test_a_list_that_the_controller_has_is_added_to() -> None:
    current = {"SlurmctldParameters": "enable_configless", "PreemptMode": "REQUEUE"}

    lines = {each.key: each for each in site_setup("22.05", current=current).lines}

    assert lines["SlurmctldParameters"].value == "enable_configless,preempt_send_user_signal"
    assert not lines["SlurmctldParameters"].present
    assert lines["PreemptMode"].present
    assert lines["JobRequeue"].current == ""


def test_what_happens_to_a_script_that_exits_is_said_by_version() -> None:
    before, since = (" ".join(site_setup(v).notes) for v in ("23.11", "24.05"))

    assert "never requeued" in before
    assert "runs again" in since


@pytest.mark.parametrize("version", ["", "slurm", "21.08.5"])
def test_a_version_that_is_not_known_is_refused(version: str) -> None:
    with pytest.raises(StewardError, match="not one as"):
        parse_version(version)
