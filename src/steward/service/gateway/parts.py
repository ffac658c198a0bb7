"""The parts of a gateway as its settings name them."""

from __future__ import annotations

import os
import ssl
import time
from dataclasses import replace
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from steward.config.gateway_settings import UpstreamSettings
from steward.config.gateway_setup import GatewaySetup
from steward.decide.serving import DISPATCHERS
from steward.errors import StewardError
from steward.learn.estimators.serving import SERVING_ESTIMATORS
from steward.model.serving.instance_type import H200_LLAMA_8B, InstanceType
from steward.model.serving.view import ANY_CLASS, SERVING
from steward.ports import Dispatcher, ServingEstimator
from steward.registry import resolve
from steward.service.gateway.access import Access
from steward.service.gateway.kept_connections import use_tracing
from steward.service.gateway.live_view import InstanceRow, LiveView
from steward.service.gateway.waits import WaitBoard
from steward.service.listening import check_certificate
from steward.store.api_keys import ApiKeys

__all__ = [
    "access_of",
    "dispatcher_of",
    "estimator_of",
    "kind_of",
    "open_session",
    "secret_of",
    "server_tls",
    "trust_of",
    "warm_up",
]


def dispatcher_of(name: str) -> Dispatcher:
    """Return the dispatcher of a name."""
    return resolve("dispatcher", name, DISPATCHERS)()


def estimator_of(name: str) -> ServingEstimator | None:
    """Return the estimator of a name; `none` is none."""
    if name == "none":
        return None
    return resolve("serving-estimator", name, SERVING_ESTIMATORS)()


def access_of(keys_file: str) -> Access:
    """Return who may come in: the keys of a file, or everybody."""
    keys = ApiKeys(Path(keys_file).expanduser()) if keys_file else None
    return Access(keys, time.monotonic)


def open_session(connect_within_s: float, *, kept: bool = True) -> ClientSession:
    """Return what requests are sent to upstreams with; their connections are kept, or not."""
    return ClientSession(
        connector=(
            TCPConnector(limit=0, keepalive_timeout=15.0)
            if kept
            else TCPConnector(limit=0, force_close=True)
        ),
        timeout=ClientTimeout(total=None, sock_connect=connect_within_s),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        trace_configs=[use_tracing()],
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        max_line_size=65536,
        max_field_size=65536,
    )


def server_tls(setup: GatewaySetup) -> ssl.SSLContext | None:
    """Return the certificate that clients see, if one is configured."""
    settings = setup.settings
    check_certificate(settings.tls_certificate, settings.tls_key, "gateway")
    if not settings.tls_certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings.tls_certificate, settings.tls_key or None)
    return context


def trust_of(settings: UpstreamSettings) -> ssl.SSLContext | bool:
    """Return the certificates that an upstream's own is checked against."""
    if not settings.ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as fault:  # ssl.SSLError is one
        raise StewardError(
            f"the certificates cannot be read: {fault.strerror or fault}",
            where=settings.ca_file,
            hint="give a file in PEM form",
        ) from fault


def secret_of(name: str, settings: UpstreamSettings) -> str:
    """Return the key that an upstream wants, or an empty text."""
    if not settings.api_key_env:
        return ""
    secret = os.environ.get(settings.api_key_env, "")
    if not secret:
        raise StewardError(
            f"the environment variable {settings.api_key_env} is not set",
            where=f"upstreams.{name}.api_key_env",
            hint="set it to the key that this model server wants",
        )
    return secret


def kind_of(settings: UpstreamSettings) -> InstanceType:
    """Return the type that estimates start from: measured, or an H200's."""
    if not settings.profile:
        return H200_LLAMA_8B
    from steward.learn.step_profiles import instance_types  # noqa: PLC0415 - few have one

    kinds = instance_types([Path(settings.profile).expanduser()], H200_LLAMA_8B)
    fitting = [each for each in kinds if each.model in settings.models]
    return (fitting or list(kinds))[0]


def warm_up(setup: GatewaySetup) -> None:
    """Compile what estimates and decides, or load it: the first requests must not wait for that."""
    view = LiveView(setup.classes)
    for name in ("one", "another"):
        view.enter(
            arrival_s=0.0,
            deadline_s=1.0,
            prompt_tokens=1,
            deadline_class=0,
            tenant=-1,
            model=view.model_code(name),
        )
    kind = view.type_code(replace(H200_LLAMA_8B, model="one"))
    row = InstanceRow(type=kind, model=0, state=SERVING, limit=1, room=1, role=ANY_CLASS)
    now = view.moment(0.0, [row])
    estimator = estimator_of(setup.settings.estimator)
    if estimator is not None:
        now = view.moment(0.0, [row], estimator.predict(now))
    WaitBoard(setup.settings.policy).refresh(now)
    dispatcher_of(setup.settings.policy).dispatch(now)
