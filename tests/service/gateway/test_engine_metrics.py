"""Model servers' own metrics: names old and new, whole names only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.service.gateway.engine_metrics import read_load
from steward.service.gateway.upstream import EngineLoad

VLLM = """# HELP vllm:num_requests_running 7
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_waiting{engine="0"} 4
vllm:num_requests_waiting_by_reason{reason="capacity"} 99
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:generation_tokens_total{engine="0"} 1200
"""
SGLANG = """sglang:num_running_reqs{m="x"} 2
sglang:num_queue_reqs 1
sglang:token_usage 0.1
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (VLLM, EngineLoad(running=3, waiting=4, kv_share=0.5, generated_tokens=1200)),
        ("vllm:gpu_cache_usage_perc 0.25", EngineLoad(kv_share=0.25)),
        (SGLANG, EngineLoad(running=2, waiting=1, kv_share=0.1)),
        ("llamacpp:requests_processing 1", EngineLoad(running=1)),
        ("tgi_queue_size 6", EngineLoad(waiting=6)),
        ('vllm:num_requests_running{m="a } b"} 5 1700000000', EngineLoad(running=5)),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting x", EngineLoad()),
    ],
)
def test_the_names_of_servers_old_and_new_are_known(text: str, expected: EngineLoad) -> None:
    assert read_load(text) == expected


def test_engines_of_one_server_are_added_up_and_the_fullest_cache_counts() -> None:
    text = "".join(
        f'vllm:num_requests_running{{e="{n}"}} {n}\nvllm:kv_cache_usage_perc{{e="{n}"}} 0.{n}\n'
        for n in (1, 2)
    )

    assert read_load(text) == EngineLoad(running=3, kv_share=0.2)


@given(st.text())
def test_any_text_is_read_without_a_fault(text: str) -> None:
    assert isinstance(read_load(f"vllm:num_requests_running{text}"), EngineLoad)
