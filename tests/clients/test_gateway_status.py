"""What a gateway reports about itself, read from answers that are as they should be and not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.gateway_statuses import T_S, answering, as_json, status
from steward.clients.gateway_status import GatewayStatusReader, gateway_snapshot
from steward.clients.web import Endpoint
from steward.errors import StewardError
from steward.model.serving.gateway_snapshot import GatewaySnapshot

KEY = "k"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside),
    max_leaves=8,
)


def test_a_whole_answer_is_read() -> None:
    with answering(as_json(status())) as (url, keys):
        found = GatewayStatusReader(Endpoint(url=f"{url}/", token=KEY)).read()

    assert keys == [f"Bearer {KEY}"]
    assert (found.t_s, found.policy, found.left_out) == (T_S, "edf", 0)
    assert found.estimator.median_error == 0.04
    (interactive,) = found.classes
    assert (interactive.name, interactive.queued, interactive.deadline_s) == ("interactive", 3, 10)
    (instance,) = found.instances
    assert (instance.name, instance.limit, instance.draining) == ("gpu-a", 64, False)
    assert [each.observed_s for each in found.waits] == [1.1, 2.1, 3.1, 4.1, 5.1]
    assert found.events[0].why == "a class was late"
    assert found.batches.failed == 2


def test_what_is_missing_is_unknown() -> None:
    found = gateway_snapshot({"classes": [{"name": "batch"}], "instances": [{"url": "u"}]})

    assert found.classes[0].queued is None
    assert found.classes[0].attainment is None
    assert (found.instances[0].name, found.instances[0].kv_share) == ("u", None)
    assert found.instances[0].draining is None
    assert found.estimator.median_error is None
    assert found.t_s is None
    assert found.left_out == 0


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "7", 10**400, [1]])
def test_a_figure_that_is_none_is_unknown(value: object) -> None:
    found = gateway_snapshot({"classes": [{"name": "a", "queued": value}]})

    assert found.classes[0].queued is None


def test_a_share_beyond_1_is_unknown() -> None:
    found = gateway_snapshot({"classes": [{"name": "a", "attainment": 1.5}]})

    assert found.classes[0].attainment is None


def test_rows_that_make_no_sense_are_counted() -> None:
    found = gateway_snapshot(
        status(
            classes=[3, {"queued": 1}, {"name": "a"}],
            waits=[{"t_s": 1.0, "expected_s": "soon"}],
            events=[{"what": "x"}, None],
            instances="many",
        )
    )

    assert found.left_out == 5
    assert [each.name for each in found.classes] == ["a"]
    assert found.instances == ()


def test_only_as_much_is_kept_as_can_be_shown() -> None:
    name = "n" * 10_000
    many = [{"t_s": float(each), "what": name} for each in range(5000)]

    found = gateway_snapshot(status(events=many))

    assert len(found.events) == 200
    assert found.events[-1].t_s == 4999.0
    assert len(found.events[0].what) == 200
    assert found.left_out == 4800


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(list(status())), JSON))
def test_no_answer_is_too_strange(raw: dict[str, object]) -> None:
    assert isinstance(gateway_snapshot(raw), GatewaySnapshot)


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (200, b"<html>", "no JSON"),
        (200, b"[" * 100_000, "no JSON"),
        (200, b"[]", "something else"),
        (200, json.dumps({"status": "ok"}).encode(), "something else"),
        (401, b"no", "answers 401"),
        (404, b"no", "answers 404"),
        (200, b"x" * (5 << 20), "more than"),
    ],
)
def test_what_is_no_status_is_an_error(code: int, body: bytes, words: str) -> None:
    with (
        answering(lambda: (code, body)) as (url, _),
        pytest.raises(StewardError, match=words),
    ):
        GatewayStatusReader(Endpoint(url=url)).read()
