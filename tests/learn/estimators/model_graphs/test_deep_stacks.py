"""Deep stacks from shallow copies."""

from __future__ import annotations

import pytest

from recorded_traces import recorded_trace
from steward.learn.estimators.model_graphs.configs import known_config, layers_of, with_layers
from steward.learn.estimators.model_graphs.deep_stacks import extrapolated, trace_of
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion

_ASKED = ModelQuestion(model="gpt2-xl", batch=2, seq=128)


def test_what_grows_by_layer_lies_on_a_line() -> None:
    few = recorded_trace("gpt2_b4_train")
    more = {**few, "parameters": few["parameters"] + 20, "modules": few["modules"] + 40}
    more["operators"] = [[*row[:-1], row[-1] + 2] for row in few["operators"]]

    found = extrapolated(few, more, 50, _ASKED)

    assert found["parameters"] == few["parameters"] + 460
    assert found["modules"] == few["modules"] + 920
    assert found["operators"][0][-1] == few["operators"][0][-1] + 46
    assert found["reserved_bytes"] >= found["allocated_bytes"]


def test_layers_that_differ_are_not_extrapolated() -> None:
    assert layers_of({"model_type": "x", "num_hidden_layers": 48}) == 48
    assert layers_of({"num_hidden_layers": 48, "layer_types": ["full"]}) is None
    assert layers_of({"num_layers": 48, "d_kv": 64}) is None
    assert with_layers({"n_layer": 48, "n_head": 4}, 6) == {"n_layer": 6, "n_head": 4}


@pytest.mark.torch
def test_forty_eight_layers_come_out_as_a_whole_trace_does() -> None:
    with TraceWorker() as worker:
        whole = worker.ask(_ASKED)
        found = trace_of(_ASKED, known_config("gpt2-xl"), worker)

    assert found["parameters"] == whole["parameters"]
    assert found["allocated_bytes"] == pytest.approx(whole["allocated_bytes"], rel=0.01)
    assert found["reserved_bytes"] == pytest.approx(whole["reserved_bytes"], rel=0.05)
    counts = [sum(row[-1] for row in trace["operators"]) for trace in (found, whole)]
    assert counts[0] == pytest.approx(counts[1])
