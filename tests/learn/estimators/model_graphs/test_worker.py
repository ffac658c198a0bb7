"""The worker with torch: traces of small modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.answers import estimate_model
from steward.learn.estimators.model_graphs.pool import TraceWorker
from steward.learn.estimators.model_graphs.question import ModelQuestion

pytestmark = pytest.mark.torch

_ENTRY = """
import torch

def net():
    first, last = torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 10)
    return torch.nn.Sequential(first, torch.nn.ReLU(), last)

def nothing():
    return 3

def reads():
    class Reads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)
        def forward(self, x):
            return self.inner(x).tolist()
    return Reads()
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceWorker]:
    (tmp_path / "own_model.py").write_text(_ENTRY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with TraceWorker() as found:
        yield found


def test_memory_of_a_small_net_is_the_sum_of_its_parts(worker: TraceWorker) -> None:
    batch = 4096
    question = ModelQuestion(model="own_model:net", batch=batch, opt="sgd", mode="train")

    found = worker.ask(question)

    parameters = 4 * (1024 * 4096 + 4096 + 4096 * 10 + 10)
    hidden = 4 * batch * 4096
    least = 2 * parameters + hidden + 4 * batch * 1024
    assert least < found["allocated_bytes"] - (65 << 20) < least + 2 * hidden + (1 << 20)
    assert found["parameters"] * 4 == parameters


def test_an_entry_that_returns_no_module_is_named(worker: TraceWorker) -> None:
    with pytest.raises(StewardError, match=r"not a torch\.nn\.Module"):
        worker.ask(ModelQuestion(model="own_model:nothing", batch=1))


def test_an_entry_that_does_not_exist_is_named(worker: TraceWorker) -> None:
    with pytest.raises(StewardError, match="cannot be imported"):
        worker.ask(ModelQuestion(model="own_model:missing", batch=1))


def test_a_model_that_reads_its_values_cannot_be_traced(worker: TraceWorker) -> None:
    with pytest.raises(StewardError, match="cannot be traced"):
        worker.ask(ModelQuestion(model="own_model:reads", batch=1))


def test_twice_the_batch_takes_more(worker: TraceWorker) -> None:
    small = estimate_model(ModelQuestion(model="own_model:net", batch=1024), worker)
    large = estimate_model(ModelQuestion(model="own_model:net", batch=65536), worker)

    assert small.tier == "trace"
    assert small.device_bytes.likely < large.device_bytes.likely
    assert large.device_bytes.low < large.device_bytes.likely < large.device_bytes.high
