"""The live view: rows are reused, the queue is by arrival, instances have what was sent to them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.model.serving.requests import BATCH, INTERACTIVE
from steward.model.serving.view import ANY_CLASS, SERVING
from steward.service.gateway.live_view import InstanceRow, LiveView

ROW = InstanceRow(type=0, model=0, state=SERVING, limit=9, room=9, role=ANY_CLASS)


def empty() -> LiveView:
    view = LiveView((INTERACTIVE, BATCH))
    view.type_code(H200_LLAMA_8B)
    view.model_code("m")
    return view


def enter(view: LiveView, arrival_s: float, prompt: int = 10) -> int:
    return view.enter(
        arrival_s=arrival_s,
        deadline_s=arrival_s + 1,
        prompt_tokens=prompt,
        deadline_class=0,
        tenant=-1,
        model=0,
    )


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["enter", "send", "back", "end", "drop", "forget"]), st.integers(0, 99)
        ),
        max_size=120,
    )
)
def test_whatever_happens_the_queue_has_each_waiting_request_once_by_arrival(
    steps: list[tuple[str, int]],
) -> None:
    view = empty()
    waiting: dict[int, float] = {}
    flying: dict[int, float] = {}
    for number, (what, pick) in enumerate(steps):
        if what == "enter":
            waiting[enter(view, float(number))] = float(number)
        elif what == "forget":
            view.forget()
        elif what == "send" and waiting:
            row = sorted(waiting)[pick % len(waiting)]
            _ = view.queue  # dispatchers look before anything is sent
            view.send(row, 0, float(number), begun=bool(pick % 2))
            flying[row] = waiting.pop(row)
        elif what in ("back", "end") and flying:
            row = sorted(flying)[pick % len(flying)]
            arrival_s = flying.pop(row)
            if what == "back":
                view.give_back(row)
                waiting[row] = arrival_s
            else:
                view.end(row, float(number))
        elif what == "drop" and (waiting or flying):
            row = sorted({**waiting, **flying})[pick % len({**waiting, **flying})]
            view.drop(row)
            waiting.pop(row, None)
            flying.pop(row, None)

        now = view.moment(float(number), [ROW])
        assert now.queue.tolist() == sorted(waiting, key=lambda row: waiting[row])
        assert int(now.instances.running[0] + now.instances.waiting[0]) == len(flying)
        assert int(now.instances.kv_tokens[0]) == 10 * len(flying)


def test_columns_do_not_grow_with_the_number_of_requests() -> None:
    view = empty()

    for number in range(5000):
        row = enter(view, float(number))
        _ = view.queue
        view.send(row, 0, float(number), begun=True)
        view.end(row, float(number))
        if number % 100 == 99:
            view.forget()

    assert len(view) == 256


def test_columns_grow_when_more_wait_and_keep_what_is_in_them() -> None:
    view = empty()

    rows = [enter(view, float(number), prompt=number) for number in range(1000)]

    now = view.moment(1000.0, [ROW])
    assert now.queue.tolist() == rows
    assert now.requests.prompt_tokens[rows].tolist() == list(range(1000))


def test_what_ended_can_be_learned_from_until_it_is_forgotten() -> None:
    view = empty()
    row = enter(view, 1.0)
    _ = view.queue
    view.send(row, 0, 2.0, begun=False)
    view.begin(row, 3.0)
    view.count_tokens(row, 7)
    view.end(row, 4.0)

    now = view.moment(5.0, [ROW])

    assert view.ended.tolist() == [row]
    times = [now.requests.sent_s, now.requests.first_token_s, now.requests.finish_s]
    assert [float(each[row]) for each in times] == [2.0, 3.0, 4.0]
    assert int(now.requests.generated_tokens[row]) == 7


def test_names_keep_their_positions() -> None:
    view = empty()

    codes = [view.model_code(name) for name in ("a", "m", "a")]
    tenants = [view.tenant_code(name) for name in ("x", "", "y", "x")]
    view.set_classes([BATCH])

    assert codes == [1, 0, 1]
    assert tenants == [0, -1, 1, 0]
    assert [each.name for each in view.classes] == ["interactive", "batch"]


def test_requests_follow_their_instance_when_rows_are_renumbered() -> None:
    view = empty()
    row = enter(view, 1.0)
    _ = view.queue
    view.send(row, 0, 2.0, begun=True)

    view.move({0: 1})

    assert view.moment(3.0, [ROW, ROW]).instances.running.tolist() == [0, 1]
    assert not np.isnan(view.moment(3.0, [ROW, ROW]).requests.sent_s[row])
