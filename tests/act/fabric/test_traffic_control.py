"""Caps by traffic control: which commands, and for real between network namespaces."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from beds.traffic_bed import BULK_PORT, TARGET, TrafficBed, cgroup_mount, traffic_bed
from steward.act.fabric.traffic_control import TrafficControl
from steward.clients.linux.traffic import Match, TrafficShaper, class_number
from steward.errors import PermanentError, StewardError
from steward.model.actions import Action, Drain, Release, Tell, Throttle
from steward.model.decision import Decision
from steward.model.identity import DecisionId, JobId, NodeId, TenantId

MATCH = Match(to_address=TARGET, to_port=BULK_PORT)
CAP = Throttle(job=JobId("812"), bytes_per_s=6.25e6)
FREE = Release(job=JobId("812"), before=6.25e6)


def _decision(action: Action) -> Decision:
    return Decision(
        id=DecisionId("d"),
        t_s=0.0,
        policy="netscope",
        action=action,
        because="x",
        check_after_s=60.0,
        tenant=TenantId("bio"),
    )


class _Tc:
    """What `tc` would answer: the discipline, classes and filters that commands have left."""

    def __init__(self, root: str = "noqueue", handle: str = "0:") -> None:
        self.asked: list[list[str]] = []
        self._root = (root, handle)
        self._classes = ""
        self._filters = "[]"

    def __call__(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        words = list(command)
        out = ""
        if words[1:4] == ["-j", "qdisc", "show"]:
            out = f'[{{"kind": "{self._root[0]}", "handle": "{self._root[1]}", "root": true}}]'
        elif words[1:3] == ["class", "show"]:
            out = self._classes
        elif words[1:4] == ["-j", "filter", "show"]:
            out = self._filters
        else:
            self.asked.append(words)
            if "qdisc" in words and "replace" in words:
                self._root = ("htb", "57:")
            if "class" in words and "replace" in words:
                at = words[words.index("classid") + 1]
                rate = words[words.index("rate") + 1]
                self._classes += f"class htb {at} root prio 0 rate {rate} ceil {rate}\n"
            if "filter" in words and "add" in words:
                self._filters = f'[{{"pref": {words[words.index("pref") + 1]}}}]'
        return subprocess.CompletedProcess(words, 0, out, "")


@pytest.fixture
def tc(monkeypatch: pytest.MonkeyPatch) -> _Tc:
    fake = _Tc()
    monkeypatch.setattr("steward.clients.linux.traffic.subprocess.run", fake)
    return fake


def _control(**matches: Sequence[Match]) -> TrafficControl:
    return TrafficControl(shapers={"n1": TrafficShaper("out")}, matches=matches or {"812": [MATCH]})


def test_a_dry_run_shows_the_commands_and_runs_none_that_changes_anything(tc: _Tc) -> None:
    shown = _control().by_hand(_decision(CAP), 0.0)

    assert tc.asked == []
    assert shown.commands[0] == "tc qdisc replace dev out root handle 57: htb default 1"
    assert "rate 50000000bit" in shown.commands[2]
    assert shown.commands[3].endswith(f"flowid 57:{class_number('812'):x}")
    assert f"match ip dst {TARGET} match ip dport 5001 0xffff" in shown.commands[3]


def test_a_cap_set_twice_is_one_class_and_one_filter(tc: _Tc) -> None:
    control = _control()
    receipts = [control.carry_out(_decision(CAP), 1.0), control.progress(_decision(CAP), 2.0)]

    assert [each.result for each in receipts] == ["done", "done"]
    assert sum("filter" in each for each in tc.asked) == 1
    assert sum("qdisc" in each for each in tc.asked) == 1


def test_a_release_of_what_has_no_cap_changes_nothing(tc: _Tc) -> None:
    control = _control()
    assert control.carry_out(_decision(FREE), 1.0).result == "done"
    assert control.by_hand(_decision(FREE), 1.0).commands == ()
    assert tc.asked == []


def test_a_release_takes_filter_and_class_away(tc: _Tc) -> None:
    control = _control()
    control.carry_out(_decision(CAP), 1.0)
    shown = control.by_hand(_decision(FREE), 2.0).commands

    assert [each.split()[1] for each in shown] == ["filter", "class"]
    control.carry_out(_decision(FREE), 2.0)
    assert [each[1:3] for each in tc.asked[-2:]] == [["filter", "del"], ["class", "del"]]


@pytest.mark.parametrize(("root", "handle"), [("cake", "8001:"), ("htb", "1:")])
def test_what_somebody_else_has_set_up_is_left_alone(tc: _Tc, root: str, handle: str) -> None:
    tc._root = (root, handle)

    with pytest.raises(PermanentError, match="not steward's"):
        _control().carry_out(_decision(CAP), 0.0)
    assert tc.asked == []


def test_a_job_whose_packets_are_not_known_cannot_be_capped(tc: _Tc) -> None:
    with pytest.raises(PermanentError, match="which packets are those of 812"):
        _control(other=[MATCH]).carry_out(_decision(CAP), 0.0)


def test_advice_is_given_and_other_actions_are_refused(tc: _Tc) -> None:
    control = _control()
    told = _decision(Tell(to="ann", about="x", text="y", job=None))
    drain = _decision(Drain(node=NodeId("n1"), gpus=()))

    assert control.carry_out(told, 0.0).text == "told ann: y"
    assert Throttle in control.actions()
    assert not control.by_hand(drain, 0.0).possible
    with pytest.raises(PermanentError, match="cannot drain"):
        control.carry_out(drain, 0.0)
    assert control.available().status == "ok"


@pytest.mark.parametrize(
    "wrong",
    [
        {"to_address": "nowhere"},
        {"to_port": 70_000},
        {},
        {"cgroup": "/x", "to_port": 5},
    ],
)
def test_a_match_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(StewardError):
        Match(**wrong)


def test_caps_that_would_stop_a_job_or_have_no_class_are_refused(tc: _Tc) -> None:
    shaper = TrafficShaper("out")
    with pytest.raises(StewardError, match="stop a job"):
        shaper.to_cap(2, [MATCH], 10.0)
    with pytest.raises(StewardError, match="from 2 to 65534"):
        shaper.to_cap(1, [MATCH], 1e6)


def test_without_tc_nothing_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("steward.clients.linux.traffic.subprocess.run", missing)
    found = _control().available()

    assert found.status == "missing"
    assert "iproute2" in found.reason


@pytest.fixture
def bed() -> Iterator[TrafficBed]:
    with traffic_bed() as made:
        made.listen()
        yield made


@pytest.mark.real
def test_a_cap_by_address_and_port_slows_the_transfer_and_frees_the_others(bed: TrafficBed) -> None:
    shaper = TrafficShaper(bed.out, namespace=bed.sender)
    control = TrafficControl(shapers={"n1": shaper}, matches={"812": [MATCH]})
    bed.send()
    bed.rate(1.0)
    before, fast = bed.latencies_s(1.0), bed.rate(1.0)
    control.carry_out(_decision(CAP), 0.0)
    bed.rate(1.0)
    after, slow = bed.latencies_s(1.0), bed.rate(2.0)

    assert shaper.caps() == {class_number("812"): 6.25e6}
    assert slow == pytest.approx(6.25e6, rel=0.15)
    assert fast > 2 * slow
    assert statistics.median(after) < statistics.median(before) / 2
    control.carry_out(_decision(replace(CAP, bytes_per_s=1.25e7)), 0.0)
    bed.rate(1.0)
    assert bed.rate(2.0) == pytest.approx(1.25e7, rel=0.15)
    control.carry_out(_decision(FREE), 0.0)
    assert shaper.caps() == {}
    bed.rate(1.0)
    assert bed.rate(1.0) > 1.5e7


@pytest.mark.real
def test_a_cap_by_cgroup_slows_what_runs_in_it(bed: TrafficBed) -> None:
    group = cgroup_mount() / bed.sender
    group.mkdir()
    try:
        shaper = TrafficShaper(bed.out, namespace=bed.sender)
        control = TrafficControl(
            shapers={"n1": shaper}, matches={"812": [Match(cgroup=str(group))]}
        )
        bed.send(str(group))
        bed.rate(1.0)
        fast = bed.rate(1.0)
        control.carry_out(_decision(CAP), 0.0)
        control.carry_out(_decision(CAP), 0.0)
        bed.rate(1.0)
        slow = bed.rate(2.0)

        assert fast > 2 * slow
        assert slow == pytest.approx(6.25e6, rel=0.15)
        with pytest.raises(PermanentError, match="is not there"):
            shaper.cap(77, [Match(cgroup="/nowhere")], 1e6)
    finally:
        bed.close()
        group.rmdir()
