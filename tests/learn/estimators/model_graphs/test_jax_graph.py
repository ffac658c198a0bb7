"""Functions of JAX, where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.jax_graph import graph
from steward.learn.estimators.model_graphs.question import ModelQuestion

_ENTRY = """
import jax
import jax.numpy as jnp

def step(batch):
    def run(weights, given):
        return jnp.tanh(given @ weights)
    shapes = ((64, 128), (batch, 64))
    return run, tuple(jax.ShapeDtypeStruct(each, jnp.float32) for each in shapes)

def nothing():
    return 3
"""


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)

    with pytest.raises(StewardError) as fault:
        graph(ModelQuestion(model="jax:net:step", batch=1))

    assert "pip install jax" in fault.value.hint


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("jax")
    (tmp_path / "jax_net.py").write_text(_ENTRY)
    monkeypatch.syspath_prepend(tmp_path)
    return "jax:jax_net"


def test_flops_and_memory_of_a_function_come_from_its_graph(entry: str) -> None:
    found = graph(ModelQuestion(model=f"{entry}:step", batch=1024))

    assert sum(row[3] * row[-1] for row in found["operators"]) == 2 * 1024 * 64 * 128
    assert found["activation_bytes"] == 2 * 4 * 1024 * 128


@pytest.mark.parametrize(
    ("name", "problem"), [("nothing", "returned no function"), ("missing", "cannot be imported")]
)
def test_an_entry_that_is_no_function_is_named(entry: str, name: str, problem: str) -> None:
    with pytest.raises(StewardError, match=problem):
        graph(ModelQuestion(model=f"{entry}:{name}", batch=1))
