"""Gateways are polled in the background: last answers stay, silence is told, curves are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from service.gateway_statuses import answering, as_json, status
from steward.clients.gateway_status import gateway_snapshot
from steward.config.serving_settings import ServingSettings
from steward.config.shown_gateways import wrong_gateways
from steward.errors import StewardError
from steward.model.serving.gateway_snapshot import GatewaySnapshot
from steward.service.serving_state import KeptPoint, ServingState, kept_shares

USUAL = gateway_snapshot(status())


class Scripted:
    """A gateway whose answers are written down; an exception is raised."""

    def __init__(self, *answers: GatewaySnapshot | StewardError) -> None:
        self._answers = list(answers)

    def read(self) -> GatewaySnapshot:
        answer = self._answers.pop(0)
        if isinstance(answer, StewardError):
            raise answer
        return answer


class Clock:
    def __init__(self) -> None:
        self.t_s = 100.0

    def now_s(self) -> float:
        self.t_s += 10.0
        return self.t_s


def polled(times: int, *readers: Scripted) -> ServingState:
    state = ServingState(
        {f"http://g{at}": each for at, each in enumerate(readers)}, now_s=Clock().now_s
    )
    for _ in range(times):
        state.poll()
    return state


def test_the_last_answer_stays_when_a_gateway_falls_silent() -> None:
    gone = StewardError("cannot be reached", hint="is it running?")

    state = polled(2, Scripted(USUAL, gone))

    (gateway,) = state.gateways
    assert gateway.snapshot is USUAL
    assert gateway.answered_s == 110.0
    assert gateway.fault == "cannot be reached; is it running?"
    assert state.version == 2


def test_a_new_answer_ends_the_fault() -> None:
    (gateway,) = polled(2, Scripted(StewardError("cannot be reached"), USUAL)).gateways

    assert gateway.fault == ""
    assert gateway.snapshot is USUAL


def test_one_that_fails_takes_nothing_from_the_others() -> None:
    first, second = polled(1, Scripted(StewardError("no")), Scripted(USUAL)).gateways

    assert first.snapshot is None
    assert second.snapshot is USUAL


def test_without_gateways_nothing_is_polled() -> None:
    state = ServingState({})

    state.poll()

    assert state.version == 0


def test_promises_are_counted_from_one_poll_to_the_next() -> None:
    later = replace(USUAL, classes=(replace(USUAL.classes[0], met=107.0, missed=3.0),))

    (gateway,) = polled(2, Scripted(USUAL, later)).gateways

    assert kept_shares(gateway.kept) == {"interactive": [(120.0, 0.9)]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": (5.0, 1.0)}, {"a": (5.0, 1.0)}),  # nothing ended
        ({"a": (5.0, 1.0)}, {"a": (1.0, 0.0)}),  # started again
        ({}, {"a": (1.0, 0.0)}),  # new
        ({"a": (1.0, 0.0)}, {}),  # gone
    ],
)
def test_where_nothing_can_be_said_there_is_a_gap(
    before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]
) -> None:
    points = (KeptPoint(t_s=0.0, counts=before), KeptPoint(t_s=1.0, counts=after))

    assert kept_shares(points) == {"a": [(1.0, None)]}


def test_configured_gateways_are_asked_with_the_key_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k\n")

    with answering(as_json(status())) as (url, keys):
        chosen = ServingSettings(gateway=url, shown=(f"{url}/",), key_file=str(tmp_path / "key"))
        state = ServingState.of(chosen)
        state.poll()

    assert keys == ["Bearer k"]
    (gateway,) = state.gateways
    assert gateway.snapshot is not None
    assert gateway.snapshot.policy == "edf"


def test_a_key_that_is_not_there_is_said() -> None:
    with pytest.raises(StewardError, match="key_file"):
        ServingState.of(ServingSettings(key_file="/no/key"))


def test_plain_http_to_another_machine_is_a_mistake_of_the_configuration() -> None:
    far = ServingSettings(gateway="http://n1:8788", shown=("http://127.0.0.1:1", "https://n2"))

    assert [each.path for each in wrong_gateways(far)] == [("serving", "gateway")]
    assert not list(wrong_gateways(far.model_copy(update={"plain_http": True})))
