"""What containers write, from the files of Docker and of CRI runtimes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steward.clients.logs.containers import ContainerFiles, ContainerLine, Origin, origin_of

UID = "eded8c65-6e8e-4c6e-a889-3e427565c740"
ID = "ec9ee26695deb4cc72bc665efff1cf3a03fdfb12f1303e02fe9252985e084a95"


def pod_log(folder: Path) -> Path:
    file = folder / f"ml_trainer-0_{UID}" / "pytorch" / "0.log"
    file.parent.mkdir(parents=True)
    return file


def docker_log(folder: Path) -> Path:
    file = folder / ID / f"{ID}-json.log"
    file.parent.mkdir(parents=True)
    return file


def read(files: ContainerFiles, t_s: float = 0.0) -> list[ContainerLine]:
    return [line for some in files.look(t_s) for line in some]


def following(file: Path) -> ContainerFiles:
    return ContainerFiles([str(file)], from_start=True)


def test_a_line_of_a_pod_has_its_time_stream_and_pod(tmp_path: Path) -> None:
    file = pod_log(tmp_path)
    file.write_text("2023-10-06T00:17:09.669794202Z stderr F step 3: loss 2.1\n")

    (line,) = read(following(file))

    assert line.text == "step 3: loss 2.1"
    assert line.stderr
    assert line.t_s == pytest.approx(1696551429.669794)
    assert line.origin == Origin(job=f"pod:{UID}", name="ml/trainer-0/pytorch")


def test_parts_of_a_line_are_joined_each_stream_by_itself(tmp_path: Path) -> None:
    file = pod_log(tmp_path)
    file.write_text(
        "2023-10-06T00:17:09.669794202Z stdout P one \n"
        "2023-10-06T00:17:10.113242941Z stderr F other\n"
        "2023-10-06T00:17:11.113242941Z stdout P two \n"
    )
    files = following(file)
    assert [line.text for line in read(files)] == ["other"]

    with file.open("a") as out:
        out.write("2023-10-06T00:17:12.113242941Z stdout F three\n")

    assert [line.text for line in read(files, 1.0)] == ["one two three"]


def test_a_line_whose_end_comes_after_a_restart_is_whole(tmp_path: Path) -> None:
    file = pod_log(tmp_path)
    file.write_text("2023-10-06T00:17:09.669794202Z stdout P one \n")
    files = following(file)
    read(files)
    again = ContainerFiles([str(file)])
    again.resume(json.loads(json.dumps(files.positions())))

    with file.open("a") as out:
        out.write("2023-10-06T00:17:12.113242941Z stdout F two\n")

    assert [line.text for line in read(again)] == ["one two"]


def test_dockers_lines_are_read_and_named_after_the_container(tmp_path: Path) -> None:
    file = docker_log(tmp_path)
    (file.parent / "config.v2.json").write_text('{"Name": "/vllm", "Config": {"Labels": {}}}')
    file.write_text(
        '{"log":"long ","stream":"stdout","time":"2023-10-06T00:17:09.66Z"}\n'
        '{"log":"line\\r\\n","stream":"stdout","time":"2023-10-06T00:17:10.66Z"}\n'
    )

    (line,) = read(following(file))

    assert line.text == "long line"
    assert line.origin == Origin(job="container:ec9ee26695de", name="vllm")


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    file = docker_log(tmp_path)
    file.write_text('{"log":"caf\\ud83d ü\\n","stream":"stdout","time":""}\n')

    (line,) = read(following(file))

    assert line.text == "caf? ü"


def test_a_docker_container_of_a_pod_is_the_pods(tmp_path: Path) -> None:
    file = docker_log(tmp_path)
    labels = {"io.kubernetes.pod.uid": UID}
    message = {"Name": "/k8s_pytorch_trainer", "Config": {"Labels": labels}}
    (file.parent / "config.v2.json").write_text(json.dumps(message))

    assert origin_of(str(file)).job == f"pod:{UID}"


@pytest.mark.parametrize("config", ["", "[]", '{"Name": 3, "Config": null}'])
def test_a_container_whose_name_cannot_be_read_has_its_id(config: str, tmp_path: Path) -> None:
    file = docker_log(tmp_path)
    (file.parent / "config.v2.json").write_text(config)

    assert origin_of(str(file)) == Origin(job="container:ec9ee26695de", name="ec9ee26695de")


def test_lines_in_neither_form_are_counted(tmp_path: Path) -> None:
    file = pod_log(tmp_path)
    file.write_text(
        'plain text\n{"broken\n{"log": 3}\n{"stream": "stdout"}\n[]\n' + '{"log":' * 5000 + "\n"
        "not-a-time stdout F kept all the same\n"
    )
    files = following(file)

    assert [(line.text, line.t_s) for line in read(files, 7.0)] == [("kept all the same", 7.0)]
    assert files.unreadable == 6


def test_a_line_of_endless_parts_is_cut(tmp_path: Path) -> None:
    file = pod_log(tmp_path)
    part = "2023-10-06T00:17:09.669794202Z stdout P " + "x" * 16384 + "\n"
    file.write_text(part * 100 + "2023-10-06T00:17:09.669794202Z stdout F end\nnext\n")

    (line,) = read(following(file))

    assert len(line.text) < 2**20 + 20
    assert line.text.endswith("[cut]")
