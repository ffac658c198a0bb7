"""Requests from files, whole and broken."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from steward.errors import StewardError
from steward.learn.step_profiles import instance_types, read_profiles
from steward.model.serving.instance_type import H200_LLAMA_8B
from steward.sim.serving.arrivals import draw_arrivals
from steward.sim.serving.traces import RequestOptions, read_requests, request_folder


def written(folder: Path, text: str, name: str = "requests.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_own_columns_are_read_with_all_that_is_optional(tmp_path: Path) -> None:
    text = (
        "t_s,input_tokens,output_tokens,client_id,prefix_block_ids,class,model\n"
        "5,600,2,ann,4 7,batch,m\n3,10,1,bob,4,interactive,\n4,10,1,,,,m\n"
    )

    found = read_requests(written(tmp_path, text, "mine.csv"))

    assert found.name == "mine"
    assert found.arrival_s.tolist() == [0.0, 1.0, 2.0]
    assert found.prompt_tokens.tolist() == [10, 10, 600]
    assert [found.classes[code].name for code in found.deadline_class] == [
        *("interactive", "interactive", "batch")
    ]
    assert found.tenants == ("bob", "ann")
    assert found.prefix_start.tolist() == [0, 1, 1, 3]
    assert found.prefix_block_tokens == 512
    assert not found.synthetic


def test_the_columns_of_azure_are_read(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2024-05-10 00:00:00.009930+00:00,5,6\n"
        "2023-11-16 18:15:50.9951690,396,109\n"
    )

    found = read_requests(written(tmp_path, text, "AzureLLMInferenceTrace_conv.csv"))

    assert found.arrival_s[:2] == pytest.approx([0.0, 4.314579])
    assert len(found) == 3


def test_the_lines_of_mooncake_are_read(tmp_path: Path) -> None:
    text = (
        '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}\n'
        '\n{"timestamp": 27982, "input_length": 10, "output_length": 1, "hash_ids": [46]}\n'
        'broken\n[1]\n{"timestamp": 1, "input_length": "x", "output_length": 1, "hash_ids": 3}\n'
    )

    found = read_requests(written(tmp_path, text, "conversation_trace.jsonl"))

    assert found.arrival_s.tolist() == [0.0, 0.5]
    assert found.prefix_ids.tolist() == [0, 1, 0]
    assert {each.rows for each in found.faults} == {3, 2, 1}
    assert "line 4: broken" in found.faults[0].examples


MOONCAKE = (
    {"timestamp": 500, "input_length": 600, "output_length": 2, "hash_ids": [4, 7]},
    {"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [4]},
)
OWN = (
    {"t_s": 0.5, "input_tokens": 600, "output_tokens": 2, "prefix_block_ids": [4, 7]},
    {"t_s": 0, "input_tokens": 10, "output_tokens": 1, "prefix_block_ids": "4", "client_id": 3},
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trace.jsonl", "\ufeff" + "\n".join(json.dumps(each) for each in MOONCAKE)),
        ("trace.json", json.dumps(MOONCAKE, indent=1)),
        ("own.jsonl", "\n".join(json.dumps(each) for each in OWN)),
        (
            "table.csv",
            'timestamp,input_length,output_length,hash_ids\n500,600,2,"[4, 7]"\n0,10,1,4\n',
        ),
    ],
)
def test_requests_with_prefixes_are_the_same_in_all_their_forms(
    name: str, text: str, tmp_path: Path
) -> None:
    found = read_requests(written(tmp_path, text, name))

    assert found.arrival_s.tolist() == [0.0, 0.5]
    assert found.prompt_tokens.tolist() == [10, 600]
    assert found.output_tokens.tolist() == [1, 2]
    assert found.prefix_ids.tolist() == [0, 0, 1]
    assert found.faults == ()


def test_json_lines_may_be_packed(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(json.dumps(each) for each in MOONCAKE).encode()))

    assert len(read_requests(file)) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [('[{"timestamp": 1,', "no whole JSON"), ("[]", "empty list"), ("[1, 2]", "entry 1: 1")],
)
def test_a_list_without_requests_is_refused(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=words):
        read_requests(written(tmp_path, text, "trace.json"))


@pytest.mark.parametrize(
    "times", [("2024-10-15T12:00:00Z", "2024-10-15T12:00:00.500Z"), ("7", "7.5")]
)
def test_other_times_than_azures_own_are_read_as_well(
    times: tuple[str, str], tmp_path: Path
) -> None:
    text = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n"
    text += "".join(f"{each},1,5,6\n" for each in times)

    assert read_requests(written(tmp_path, text)).arrival_s.tolist() == [0.0, 0.5]


def test_a_folder_with_one_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    written(tmp_path, "t_s,input_tokens,output_tokens\n0,1,1\n", "AzureTrace_code.csv")
    written(tmp_path, "about", "README.md")

    assert len(read_requests(tmp_path)) == 1


def test_the_columns_of_burstgpt_are_read(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,Conversation log\n"
    )

    assert read_requests(written(tmp_path, text)).output_tokens.tolist() == [18, 230]


def test_lengths_alone_get_arrivals_by_seed(tmp_path: Path) -> None:
    file = written(tmp_path, "input_tokens,output_tokens\n" + "10,2\n" * 2000, "arxiv.csv")

    found = read_requests(file, RequestOptions(rate=8.0, seed=1))
    bursty = read_requests(file, RequestOptions(rate=8.0, seed=1, burst_cv=4.0))

    assert found.synthetic
    assert found.classes[0].name == "batch"
    assert (
        found.arrival_s.tolist()
        == read_requests(file, RequestOptions(rate=8.0, seed=1)).arrival_s.tolist()
    )
    for each, cv in ((found, 1.0), (bursty, 4.0)):
        gaps = np.diff(each.arrival_s)
        assert gaps.mean() == pytest.approx(1 / 8.0, rel=0.3)
        assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.35)


def test_recorded_arrivals_can_be_scaled_or_drawn_anew(tmp_path: Path) -> None:
    rows = "".join(f"{each},10,2\n" for each in range(100))
    file = written(tmp_path, f"t_s,input_tokens,output_tokens\n{rows}", "x.csv")

    assert read_requests(file, RequestOptions(rate=10.0)).arrival_s[-1] == pytest.approx(10.0)
    drawn = read_requests(file, RequestOptions(burst_cv=2.0)).arrival_s
    assert 30 < drawn[-1] < 300
    assert len(read_requests(file, RequestOptions(limit=7))) == 7


def test_classes_come_from_options(tmp_path: Path) -> None:
    file = written(tmp_path, "t_s,input_tokens,output_tokens\n" + "0,1,1\n" * 400, "x.csv")

    chosen = read_requests(file, RequestOptions(deadline_class="batch"))
    mixed = read_requests(file, RequestOptions(batch_share=0.25, seed=3))

    assert [each.name for each in chosen.classes] == ["batch"]
    assert (mixed.deadline_class == 1).mean() == pytest.approx(0.25, abs=0.1)


def test_rows_that_cannot_be_used_are_left_out_with_their_lines(tmp_path: Path) -> None:
    text = (
        "t_s,input_tokens,output_tokens,class\n0,10,2,\nx,10,2,\n1,0,2,\n2,10,none,\n"
        "3,10,2,urgent\n4,1e12,2,\n"
    )

    found = read_requests(written(tmp_path, text, "x.csv"))

    assert len(found) == 1
    assert sum(each.rows for each in found.faults) == 5
    told = " ".join(example for each in found.faults for example in each.examples)
    assert all(f"line {number}:" in told for number in (3, 4, 5, 6, 7))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "its columns are a, b"),
        ("t_s,input_tokens,output_tokens\nx,1,1\n", "no row can be used"),
        ("t_s,input_tokens,output_tokens\n", "there are no rows"),
        ("", "empty"),
    ],
)
def test_a_file_without_requests_is_refused_with_what_is_possible(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(StewardError, match=words) as caught:
        read_requests(written(tmp_path, text))

    assert caught.value.hint
    assert "requests.csv" in caught.value.where


def test_an_unknown_name_is_told_with_the_nearest_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STEWARD_TRACES", raising=False)
    monkeypatch.setenv("STEWARD_DATA", str(tmp_path))
    (tmp_path / "llm_traces" / "azure").mkdir(parents=True)
    written(tmp_path / "llm_traces" / "azure", "t_s,input_tokens,output_tokens\n0,1,1\n")

    assert read_requests("azure").name == "azure"
    with pytest.raises(StewardError, match="no such") as caught:
        read_requests("azur")
    assert caught.value.hint == "did you mean 'azure'?"


def test_folders_without_requests_are_not_named_as_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STEWARD_TRACES", raising=False)
    monkeypatch.setenv("STEWARD_DATA", str(tmp_path))
    for name in ("azure", "perf_profiles"):
        (tmp_path / "llm_traces" / name).mkdir(parents=True)
    written(tmp_path / "llm_traces" / "azure", "t_s,input_tokens,output_tokens\n0,1,1\n")
    for name in ("a.csv", "b.json"):
        (tmp_path / "llm_traces" / "perf_profiles" / name).write_text("{}")

    with pytest.raises(StewardError) as raised:
        read_requests("perf_profiles")

    assert raised.value.hint == "named traces: azure"


CLIENT_LENGTHS = ",".join(
    f"{what}_p{level}"
    for what in ("in", "out")
    for level in (1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9)
)


def test_clients_become_requests_by_seed(tmp_path: Path) -> None:
    rates = (
        "client_id,window_start_s,rate_rps,interarrival_cv,pattern,param1,param2\n"
        "1,0,2.0,1,Gamma,1.0,0.5\n2,0,1.0,3,Weibull,0.5,0.1\n3,0,9.0,1,Gamma,1,1\n"
        "1,600,4.0,1,Gamma,1.0,0.5\n"
    )
    row = ",".join(str(10 * each) for each in range(1, 21))
    lengths = f"client_id,window_start_s,{CLIENT_LENGTHS}\n1,0,{row}\n2,600,{row}\n"
    written(tmp_path, rates, "client_rates.csv")
    written(tmp_path, lengths, "client_lengths.csv")

    found = read_requests(tmp_path, RequestOptions(limit=100_000, seed=1))
    again = read_requests(tmp_path, RequestOptions(limit=100_000, seed=1))
    slow = read_requests(tmp_path, RequestOptions(limit=100_000, seed=1, rate=0.5))

    assert found.arrival_s.tolist() == again.arrival_s.tolist()
    assert len(found) == pytest.approx(600 * 3 + 600 * 4, rel=0.15)
    assert len(slow) == pytest.approx(600, rel=0.25)
    assert set(found.tenants) == {"client-1", "client-2"}
    assert found.prompt_tokens.min() >= 10
    assert found.output_tokens.max() <= 200
    assert found.faults[0].rows == 1
    assert found.synthetic


@pytest.mark.parametrize(
    ("rates", "lengths", "words"),
    [
        ("client_id\n1\n", f"client_id,window_start_s,{CLIENT_LENGTHS}\n", "lacks window_start_s"),
        (None, "", "missing"),
    ],
)
def test_clients_that_lack_something_are_refused(
    rates: str | None, lengths: str, words: str, tmp_path: Path
) -> None:
    if rates is not None:
        written(tmp_path, rates, "client_rates.csv")
    written(tmp_path, lengths, "client_lengths.csv")

    with pytest.raises(StewardError, match=words):
        read_requests(tmp_path / "client_lengths.csv")


def test_arrivals_begin_at_zero_and_never_go_back() -> None:
    times = draw_arrivals(1000, rate=3.0, cv=2.0, seed=4)

    assert times[0] == 0.0
    assert (np.diff(times) >= 0).all()


PROFILE = "model,kind,batch,tokens,context,kv_bytes,s\n"
GOOD = (
    "m,prefill,1,100,,,0.01\nm,prefill,4,100,,,0.02\n"
    "m,decode,1,,100,5,0.005\nm,decode,8,,100,5,0.006\n"
)


def test_a_profile_becomes_an_instance_type_for_each_model(tmp_path: Path) -> None:
    file = written(tmp_path, PROFILE + GOOD + GOOD.replace("m,", "n,"), "p.csv")

    types = instance_types([file], H200_LLAMA_8B)

    assert [each.model for each in types] == ["m", "n"]
    assert types[0].step_times.step_s(decode_sequences=8, kv_tokens=800) == pytest.approx(
        0.006, rel=0.1
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n", "lacks the columns model, kind"),
        (PROFILE, "no rows"),
        (PROFILE + "m,prefill,1,x,,,0\n" * 12, "line 2: tokens is 'x'.*s is '0'.*more"),
        (PROFILE + GOOD + "m,idle,1,1,,,1\n", "line 6: kind is 'idle'"),
        (PROFILE + GOOD[:24], "has 1 steps"),
    ],
)
def test_all_faults_of_a_profile_are_said_at_once(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=words):
        read_profiles(written(tmp_path, text, "p.csv"))


@pytest.mark.data
def test_every_public_trace_is_read_without_faults() -> None:
    counts = {
        "azure_llm_2023_conv": 19_366,
        "mooncake_conversation": 12_031,
        "lmsys_arena_vtc_2023": 1_500,
        "sharegpt_lengths": 30_731,
        "arxiv_summarization_lengths": 28_257,
        "servegen_m_small": 20_000,
    }
    for name, count in counts.items():
        assert len(read_requests(request_folder() / name)) == count


def test_a_file_here_is_called_as_it_is_and_not_after_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "t_s,input_tokens,output_tokens\n0,10,5\n")
    monkeypatch.chdir(tmp_path)

    assert read_requests("requests.csv").name == "requests"


def test_without_named_traces_the_hint_tells_where_they_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEWARD_DATA", str(tmp_path))

    with pytest.raises(StewardError) as raised:
        read_requests("azure_llm_2023_conv")

    assert f"{request_folder()} holds no named traces" in (raised.value.hint or "")
