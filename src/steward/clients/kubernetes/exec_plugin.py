"""Runs the credential plugin that a kubeconfig names, as kubectl does, and keeps its answer.

Managed clusters (EKS, GKE, AKS) have kubeconfigs without a token: a program such as `aws` prints an
`ExecCredential` with one that lasts minutes. It is run again when that has expired or was refused.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from steward.errors import StewardError

__all__ = ["ExecCredential", "ExecPlugin"]

TIMEOUT_S = 30.0
_EARLY_S = 10.0  # run again so long before the credential expires
_MESSAGE_CHARS = 300  # of what a plugin prints on its error output


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCredential:
    """What a plugin printed: a token, or a client certificate with its key, as PEM text."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    expires_s: float = float("inf")


class ExecPlugin:
    """The `exec` entry of a kubeconfig's user. Thread-safe: several watches share it."""

    def __init__(
        self,
        entry: Mapping[str, Any],
        *,
        where: str,
        cluster: Mapping[str, Any],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._command = str(entry.get("command") or "")
        self._arguments = [str(each) for each in entry.get("args") or ()]
        self._hint = str(entry.get("installHint") or "").strip()
        self._version = str(entry.get("apiVersion") or "client.authentication.k8s.io/v1")
        self._where, self._clock = where, clock
        self._lock = threading.Lock()
        self._known: ExecCredential | None = None
        spec: dict[str, Any] = {"interactive": False}
        if entry.get("provideClusterInfo"):
            spec["cluster"] = dict(cluster)
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": spec}
        given = {str(each["name"]): str(each["value"]) for each in entry.get("env") or ()}
        self._env = {**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        if not self._command:
            raise StewardError("its exec plugin has no command", where=where)
        if entry.get("interactiveMode") == "Always":
            hint = "use a kubeconfig with a service account's token: `kubectl create token steward`"
            raise StewardError("its exec plugin is interactive", where=where, hint=hint)

    def credential(self) -> ExecCredential:
        """Return a credential that is valid now; runs the program where none is."""
        with self._lock:
            known = self._known
            if known is None or self._clock() >= known.expires_s - _EARLY_S:
                known = self._known = self._run()
            return known

    def forget(self) -> None:
        """Run the program again at the next call: the server has refused what it gave."""
        with self._lock:
            self._known = None

    def _run(self) -> ExecCredential:
        path = shutil.which(self._command)
        if path is None:
            hint = self._hint or "install it here, or use a service account's token"
            raise StewardError(f"there is no {self._command}", where=self._where, hint=hint)
        try:
            done = subprocess.run(  # noqa: S603 - what kubectl would run for the same file
                [path, *self._arguments],
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as fault:
            problem = f"{self._command} did not give a credential: {fault}"
            raise StewardError(problem, where=self._where, hint=self._hint) from fault
        if done.returncode:
            message = done.stderr.decode("utf-8", "replace").strip()[-_MESSAGE_CHARS:]
            problem = (
                f"{self._command} ended with {done.returncode}: {message or 'no reason given'}"
            )
            raise StewardError(problem, where=self._where, hint=self._hint)
        return self._parsed(done.stdout)

    def _parsed(self, output: bytes) -> ExecCredential:
        try:
            status = json.loads(output)["status"]
            expires = status.get("expirationTimestamp")
            expires_s = datetime.fromisoformat(expires).timestamp() if expires else float("inf")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
            problem = f"{self._command} printed no ExecCredential"
            raise StewardError(problem, where=self._where, hint=self._hint) from fault
        made = ExecCredential(
            token=str(status.get("token") or ""),
            certificate=str(status.get("clientCertificateData") or ""),
            key=str(status.get("clientKeyData") or ""),
            expires_s=expires_s,
        )
        if not made.token and not made.certificate:
            problem = f"{self._command} printed neither a token nor a certificate"
            raise StewardError(problem, where=self._where, hint=self._hint)
        return made
