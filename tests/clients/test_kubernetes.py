"""A kubeconfig or a pod tells where the API server is; objects are read as they are told."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beds.kubernetes import node, pod
from steward.clients.kubernetes.credentials import find_access
from steward.clients.kubernetes.objects import node_from, pod_from, quantity, warned_from
from steward.errors import StewardError

PAGE: dict[str, Any] = {
    "current-context": "here",
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "https://k8s:6443/"}}],
    "users": [{"name": "u", "user": {"token": "abc"}}],
}


def kubeconfig(folder: Path, **changes: Any) -> str:
    file = folder / "config"
    file.write_text(json.dumps({**PAGE, **changes}))  # JSON is YAML, too
    return str(file)


def test_a_kubeconfig_tells_server_and_token(tmp_path: Path) -> None:
    access = find_access(kubeconfig(tmp_path))

    assert access is not None
    assert (access.server, access.bearer()) == ("https://k8s:6443", "abc")


def test_certificates_may_be_inside_or_beside_the_file(tmp_path: Path) -> None:
    how = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", tmp_path / "key", "-out", tmp_path / "crt", "-subj", "/CN=x"]
    subprocess.run(["openssl", "req", *how, *files], check=True, capture_output=True)
    inside = base64.b64encode((tmp_path / "key").read_bytes()).decode()
    user = {"client-certificate": "crt", "client-key-data": inside}
    cluster = {"server": "https://k8s", "certificate-authority": "crt"}

    access = find_access(
        kubeconfig(
            tmp_path,
            users=[{"name": "u", "user": user}],
            clusters=[{"name": "c", "cluster": cluster}],
        )
    )

    assert access is not None
    assert isinstance(access.tls(), ssl.SSLContext)
    assert access.bearer() == ""


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    file = kubeconfig(tmp_path, users=[{"name": "u", "user": {"tokenFile": "token"}}])
    access = find_access(file)
    assert access is not None
    first = access.bearer()
    (tmp_path / "token").write_text("two\n")

    assert (first, access.bearer()) == ("one", "two")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"current-context": "there"}, "there is no context 'there'; known: here"),
        ({"clusters": []}, "has no server"),
        ({"users": [{"name": "u", "user": {"exec": {"command": "aws"}}}]}, "from a plugin"),
        (
            {"users": [{"name": "u", "user": {"client-certificate-data": "%%%"}}]},
            "client-certificate cannot be read",
        ),
        ({"contexts": "x"}, "known: none"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(StewardError, match=problem) as caught:
        find_access(kubeconfig(tmp_path, **changes))

    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "- 1", "\xff\xfe"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text, encoding="latin-1")

    with pytest.raises(StewardError):
        find_access(str(tmp_path / "config"))


def test_a_pod_is_read_with_its_requests_and_its_owner() -> None:
    read = pod_from(pod("a1", gpus=2))

    assert read is not None
    assert (read.gpus, read.cpus, read.memory_limit_bytes) == (2, 1.5, 80 * 2**30)
    assert (read.owner_kind, read.namespace, read.node) == ("PyTorchJob", "bio", "n1")


def test_a_node_is_read_with_its_gpus() -> None:
    read = node_from(node("n1"))

    assert read is not None
    assert (read.gpus, read.ready, read.gpu_product) == (8, True, "NVIDIA-H100")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )
)
def test_objects_that_are_nonsense_inside_are_read_as_far_as_they_go(inside: Any) -> None:
    raw = {"metadata": {"uid": "x", "labels": inside}, "spec": inside, "status": inside}

    assert pod_from(raw) is not None
    assert node_from(raw) is not None
    assert warned_from({**raw, "involvedObject": inside}) is None


@given(st.integers(0, 10**9))
def test_a_quantity_in_thousandths_is_the_same_as_a_whole_one(number: int) -> None:
    assert quantity(f"{number * 1000}m") == pytest.approx(quantity(number))
