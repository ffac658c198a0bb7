"""Finds out how to reach the API server: from inside a pod, or by a kubeconfig.

Exec plugins are run, as kubectl does; auth-provider plugins, which kubectl 1.26 removed, are not.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steward.clients.kubernetes.exec_plugin import ExecPlugin
from steward.errors import StewardError

__all__ = ["Credentials", "find_credentials"]

_MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Address of the server and how we authenticate. Certificates are PEM text."""

    server: str
    ca: str = ""
    token: str = ""
    token_file: str = ""  # read anew each time: such tokens change every hour
    certificate: str = ""
    key: str = ""
    insecure: bool = False
    found_in: str = ""
    plugin: ExecPlugin | None = None
    namespace: str = ""  # of the context, or of the pod that we run in

    def bearer(self) -> str:
        """Return the token as it is now; empty where a certificate is used."""
        if self.plugin is not None:
            return self.plugin.credential().token
        if not self.token_file:
            return self.token
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except OSError as fault:
            problem = f"cannot read the token in {self.token_file}: {fault.strerror}"
            raise StewardError(problem, where="kubernetes") from fault

    def tls(self) -> ssl.SSLContext | bool:
        """Return how the server is verified, with our certificate where there is one."""
        if not self.server.startswith("https:"):
            return False
        given = self.plugin.credential() if self.plugin is not None else self
        try:
            context = ssl.create_default_context(cadata=self.ca or None)
            if self.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if given.certificate:
                # Python reads certificates from files only.
                with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:
                    pem.write(f"{given.certificate}\n{given.key}")
                    pem.flush()
                    context.load_cert_chain(pem.name)
        except (ssl.SSLError, ValueError) as fault:
            problem = f"its certificates cannot be used: {fault}"
            raise StewardError(problem, where=self.found_in or "kubernetes") from fault
        return context


def find_credentials(kubeconfig: str = "", *, context: str = "") -> Credentials | None:
    """Return how to reach a server: as given, by $KUBECONFIG, from inside a pod, or by ~/.kube."""
    given = kubeconfig or os.environ.get("KUBECONFIG", "").partition(":")[0]
    if given:
        return _from_file(Path(given).expanduser(), context)
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if host and (_MOUNTED / "token").exists():
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        name = f"[{host}]" if ":" in host else host
        return Credentials(
            server=f"https://{name}:{port}",
            ca=_text(_MOUNTED / "ca.crt"),
            token_file=str(_MOUNTED / "token"),
            found_in="this pod's service account",
            namespace=_text(_MOUNTED / "namespace"),
        )
    usual = Path.home() / ".kube" / "config"
    return _from_file(usual, context) if usual.exists() else None


def _from_file(file: Path, context: str) -> Credentials:
    raw = _read(file)
    where = str(file)
    wanted = context or str(raw.get("current-context") or "")
    names = [str(each.get("name")) for each in _list(raw, "contexts")]
    chosen = _named(raw, "contexts", "context", wanted)
    if chosen is None:
        problem = f"there is no context '{wanted}'; known: {', '.join(names) or 'none'}"
        hint = "set current-context in it, or plugs.kubernetes.context"
        raise StewardError(problem, where=where, hint=hint)
    cluster = _named(raw, "clusters", "cluster", str(chosen.get("cluster"))) or {}
    user = _named(raw, "users", "user", str(chosen.get("user"))) or {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        problem = f"context '{wanted}' has no server"
        raise StewardError(problem, where=where, hint="its cluster needs a `server: https://…`")
    if "auth-provider" in user:
        problem = f"context '{wanted}' gets its token from an auth-provider, which is not supported"
        hint = "make a kubeconfig with a service account's token: `kubectl create token steward`"
        raise StewardError(problem, where=where, hint=hint)
    return Credentials(
        server=server.rstrip("/"),
        ca=_pem(cluster, "certificate-authority", file),
        token=str(user.get("token") or ""),
        token_file=_relative_to(file, str(user.get("tokenFile") or "")),
        certificate=_pem(user, "client-certificate", file),
        key=_pem(user, "client-key", file),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        found_in=where,
        plugin=_plugin(user, cluster, where),
        namespace=str(chosen.get("namespace") or ""),
    )


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip() if file.exists() else ""


def _plugin(user: Mapping[str, Any], cluster: Mapping[str, Any], where: str) -> ExecPlugin | None:
    entry = user.get("exec")
    return ExecPlugin(entry, where=where, cluster=cluster) if isinstance(entry, dict) else None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as fault:
        raise StewardError("PyYAML is not installed", hint="pip install pyyaml") from fault
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault).splitlines()[0]
        raise StewardError(f"cannot be read: {reason}", where=str(file)) from fault
    if not isinstance(raw, dict):
        hint = "see `kubectl config view`"
        raise StewardError("is not a kubeconfig", where=str(file), hint=hint)
    return raw


def _list(raw: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = raw.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _named(raw: Mapping[str, Any], many: str, one: str, name: str) -> Mapping[str, Any] | None:
    found = next((each for each in _list(raw, many) if each.get("name") == name), None)
    value = found.get(one) if found else None
    return value if isinstance(value, dict) else None


def _pem(raw: Mapping[str, Any], name: str, file: Path) -> str:
    """Return a certificate that is in the file, or in another next to it."""
    inline = raw.get(f"{name}-data")
    try:
        if inline:
            return base64.b64decode(str(inline), validate=True).decode("ascii")
        path = _relative_to(file, str(raw.get(name) or ""))
        return Path(path).read_text(encoding="ascii") if path else ""
    except (OSError, binascii.Error, UnicodeDecodeError) as fault:
        raise StewardError(f"{name} cannot be read: {fault}", where=str(file)) from fault


def _relative_to(file: Path, path: str) -> str:
    return str(file.parent / path) if path else ""
