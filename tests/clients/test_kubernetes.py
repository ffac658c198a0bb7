"""Credentials from a kubeconfig or a pod, and objects of the API server."""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beds.kubernetes import node, pod
from steward.clients.kubernetes.annotations import DECISION, decision_note
from steward.clients.kubernetes.api import Api, GoneError, KubernetesError
from steward.clients.kubernetes.credentials import find_credentials
from steward.clients.kubernetes.objects import node_from, pod_from, quantity, warned_from
from steward.clients.kubernetes.reflector import Reflector
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


def test_a_kubeconfig_reports_server_and_token(tmp_path: Path) -> None:
    access = find_credentials(kubeconfig(tmp_path))

    assert access is not None
    assert (access.server, access.bearer()) == ("https://k8s:6443", "abc")


def test_certificates_may_be_inside_or_next_to_the_file(tmp_path: Path) -> None:
    how = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", tmp_path / "key", "-out", tmp_path / "crt", "-subj", "/CN=x"]
    subprocess.run(["openssl", "req", *how, *files], check=True, capture_output=True)
    inside = base64.b64encode((tmp_path / "key").read_bytes()).decode()
    user = {"client-certificate": "crt", "client-key-data": inside}
    cluster = {"server": "https://k8s", "certificate-authority": "crt"}

    access = find_credentials(
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
    access = find_credentials(file)
    assert access is not None
    first = access.bearer()
    (tmp_path / "token").write_text("two\n")

    assert (first, access.bearer()) == ("one", "two")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"current-context": "there"}, "there is no context 'there'; known: here"),
        ({"clusters": []}, "has no server"),
        ({"users": [{"name": "u", "user": {"auth-provider": {}}}]}, "auth-provider"),
        ({"users": [{"name": "u", "user": {"exec": {"args": []}}}]}, "has no command"),
        (
            {"users": [{"name": "u", "user": {"client-certificate-data": "%%%"}}]},
            "client-certificate cannot be read",
        ),
        ({"contexts": "x"}, "known: none"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_has_a_reason(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(StewardError, match=problem) as caught:
        find_credentials(kubeconfig(tmp_path, **changes))

    assert str(tmp_path) in str(caught.value)


TOKEN = {"token": "abc"}


def plugin(folder: Path, body: str, **entry: Any) -> str:
    """Return a kubeconfig whose token comes from a program that runs `body`."""
    program = folder / "print-token"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    user = {"exec": {"command": str(program), **entry}}
    return kubeconfig(folder, users=[{"name": "u", "user": user}])


def credential(status: dict[str, str]) -> str:
    return json.dumps({"kind": "ExecCredential", "status": status})


def test_an_exec_plugin_gives_the_token_and_is_run_again_when_that_has_expired(
    tmp_path: Path,
) -> None:
    answer = credential({"token": "$N", "expirationTimestamp": "2020-01-01T00:00:00Z"})
    body = f"echo >> {tmp_path}/runs; N=$(wc -l < {tmp_path}/runs)\ncat <<END\n{answer}\nEND"
    access = find_credentials(plugin(tmp_path, body))
    assert access is not None

    assert [access.bearer(), access.bearer()] == ["1", "2"]


def test_an_exec_plugins_token_is_kept_until_the_server_refuses_it(tmp_path: Path) -> None:
    body = f"echo >> {tmp_path}/runs\necho '{credential(TOKEN)}'"
    access = find_credentials(plugin(tmp_path, body))
    assert access is not None
    assert access.plugin is not None

    tokens = [access.bearer(), access.bearer()]
    access.plugin.forget()
    tokens.append(access.bearer())

    assert tokens == ["abc"] * 3
    assert (tmp_path / "runs").read_text() == "\n\n"


def test_an_exec_plugin_is_reported_what_kubectl_would_report_it(tmp_path: Path) -> None:
    body = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$1 $A" > {tmp_path}/given\n'
    body += f"echo '{credential(TOKEN)}'"
    entry = {"args": ["first"], "env": [{"name": "A", "value": "b"}], "provideClusterInfo": True}
    access = find_credentials(plugin(tmp_path, body, **entry))
    assert access is not None

    access.bearer()

    result = json.loads((tmp_path / "info").read_text())
    assert result["spec"] == {"interactive": False, "cluster": {"server": "https://k8s:6443/"}}
    assert (tmp_path / "given").read_text() == "first b\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo no such profile >&2; exit 3", "ended with 3: no such profile"),
        ("echo hello", "printed no ExecCredential"),
        ("echo '{\"status\": {}}'", "neither a token nor a certificate"),
    ],
)
def test_an_exec_plugin_that_fails_has_a_reason(tmp_path: Path, body: str, problem: str) -> None:
    access = find_credentials(plugin(tmp_path, body, installHint="install it"))
    assert access is not None

    with pytest.raises(StewardError, match=problem) as caught:
        access.bearer()

    assert caught.value.hint == "install it"


def test_an_exec_plugin_that_is_not_there_reports_how_to_get_it(tmp_path: Path) -> None:
    user = {"exec": {"command": "no-such-plugin", "installHint": "see example.org"}}
    access = find_credentials(kubeconfig(tmp_path, users=[{"name": "u", "user": user}]))
    assert access is not None

    with pytest.raises(StewardError, match="there is no no-such-plugin") as caught:
        access.bearer()

    assert caught.value.hint == "see example.org"


def test_an_interactive_exec_plugin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="is interactive"):
        find_credentials(plugin(tmp_path, "true", interactiveMode="Always"))


class Watches:
    """An API whose watches end as the test sets; each takes no time by default."""

    def __init__(self, *ends: Exception | float) -> None:
        self.ends = list(ends)
        self.now_s = 0.0
        self.pauses: list[float] = []
        self.lists = 0
        self.reflector: Reflector[Any] = Reflector(
            cast("Api", self),
            "/api/v1/pods",
            make=pod_from,
            clock=lambda: self.now_s,
            pause=self.pauses.append,
        )

    def list(self, _path: str) -> tuple[list[dict[str, Any]], str]:
        self.lists += 1
        return [], "7"

    def watch(self, _path: str, _version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        end = self.ends.pop(0)
        if not self.ends:
            self.reflector.stop()
        if isinstance(end, Exception):
            raise end
        self.now_s += end
        return iter(())


@pytest.mark.parametrize(
    "end",
    [0.0, GoneError("too old"), KubernetesError("no"), StewardError("no")],
    ids=["closed at once", "410", "refused", "unreachable"],
)
def test_watches_that_fail_or_end_at_once_are_tried_again_ever_more_rarely(
    end: Exception | float,
) -> None:
    watches = Watches(*[end] * 10)

    watches.reflector._run()

    assert len(watches.pauses) == 10
    for earlier, later in itertools.pairwise(watches.pauses[:6]):
        assert later > earlier * 0.9
    assert watches.pauses[0] <= 0.5
    assert max(watches.pauses) > 10.0
    assert all(15.0 <= pause <= 30.0 for pause in watches.pauses[7:])


def test_a_watch_that_has_lasted_is_opened_again_at_once() -> None:
    watches = Watches(0.0, 0.0, 0.0, 240.0, 240.0, 0.0)

    watches.reflector._run()

    assert len(watches.pauses) == 4
    assert watches.pauses[-1] <= 0.5  # the count begins anew


@pytest.mark.parametrize("text", ["a: [", "- 1", "\xff\xfe"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text, encoding="latin-1")

    with pytest.raises(StewardError):
        find_credentials(str(tmp_path / "config"))


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


def test_an_annotation_that_no_number_can_hold_is_no_note_of_ours() -> None:
    for t_s in ("1" + "0" * 400, "1e999", "NaN"):
        text = f'{{"id": "x", "did": "y", "t_s": {t_s}}}'
        assert decision_note({DECISION: text}) is None
