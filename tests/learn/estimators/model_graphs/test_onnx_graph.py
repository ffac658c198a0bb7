"""ONNX files, where the package is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.onnx_graph import graph
from steward.learn.estimators.model_graphs.question import ModelQuestion


def test_training_of_an_onnx_file_is_refused_before_anything_is_read() -> None:
    with pytest.raises(StewardError, match="forward pass only"):
        graph(ModelQuestion(model="net.onnx", batch=1))


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(StewardError) as fault:
        graph(ModelQuestion(model="net.onnx", batch=1, mode="infer"))

    assert "pip install onnx" in fault.value.hint


@pytest.fixture
def perceptron(tmp_path: Path) -> Path:
    onnx = pytest.importorskip("onnx")
    make, kind = onnx.helper, onnx.TensorProto
    weights = [
        make.make_tensor("first", kind.FLOAT, [256, 1024], bytes(256 * 1024 * 4), raw=True),
        make.make_tensor("last", kind.FLOAT, [1024, 16], bytes(1024 * 16 * 4), raw=True),
    ]
    nodes = [
        make.make_node("MatMul", ["x", "first"], ["h"]),
        make.make_node("Relu", ["h"], ["r"]),
        make.make_node("MatMul", ["r", "last"], ["y"]),
    ]
    given = make.make_tensor_value_info("x", kind.FLOAT, ["batch", 256])
    made = make.make_tensor_value_info("y", kind.FLOAT, ["batch", 16])
    net = make.make_graph(nodes, "perceptron", [given], [made], weights)
    path = tmp_path / "net.onnx"
    onnx.save(make.make_model(net), path)
    return path


def test_memory_of_an_onnx_file_is_weights_and_what_is_alive_at_once(perceptron: Path) -> None:
    batch = 8192
    found = graph(ModelQuestion(model=str(perceptron), batch=batch, mode="infer"))

    weights = 4 * (256 * 1024 + 1024 * 16)
    alive = 2 * 4 * batch * 1024  # the hidden layer before and after its ReLU
    assert found["parameter_bytes"] == weights
    assert alive <= found["activation_bytes"] <= alive + 4 * batch * 300
    flops = sum(row[3] * row[-1] for row in found["operators"])
    assert flops == pytest.approx(2 * batch * (256 * 1024 + 1024 * 16))


def test_an_onnx_file_is_answered_without_torch(perceptron: Path) -> None:
    found = estimate_model(ModelQuestion(model=str(perceptron), batch=64, mode="infer"), None)

    assert found.tier == "graph"
    assert found.step_s is not None
    assert found.largest_batch is not None
    assert found.largest_batch > 64


def test_a_file_that_is_no_onnx_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    path = tmp_path / "bad.onnx"
    path.write_text("no model")

    with pytest.raises(StewardError, match="cannot be read as ONNX"):
        graph(ModelQuestion(model=str(path), batch=1, mode="infer"))
