"""What a gateway runs with: the settings of a file, and what the command line adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from steward.clients.transport_rule import check_transport, is_loopback
from steward.config.gateway_settings import ClassSettings, GatewaySettings, UpstreamSettings
from steward.config.settings import Settings
from steward.errors import StewardError, unknown_name
from steward.model.serving.requests import BATCH, INTERACTIVE, DeadlineClass

__all__ = ["GatewayOptions", "GatewaySetup", "gateway_setup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """What the command line says; it wins over the file."""

    upstreams: tuple[str, ...] = ()  # URLs
    classes: tuple[str, ...] = ()  # as `chat:ttft_s=2,itl_s=0.1`
    limit: int | None = None  # of the upstreams given here
    settings: Mapping[str, Any] | None = None  # keys of [gateway]; None values are not given


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySetup:
    """Everything that a reload may change."""

    settings: GatewaySettings
    upstreams: Mapping[str, UpstreamSettings]
    classes: tuple[DeadlineClass, ...]


def gateway_setup(settings: Settings, options: GatewayOptions) -> GatewaySetup:
    """Put settings and options together, or raise what does not fit."""
    given = {k: v for k, v in (options.settings or {}).items() if v is not None}
    gateway = settings.gateway.model_copy(update=given)
    classes = tuple(each.as_class(name) for name, each in settings.deadline_classes.items())
    classes = (*classes, *(_class_of(each) for each in options.classes)) or (INTERACTIVE, BATCH)
    upstreams = dict(settings.upstreams)
    for number, url in enumerate(options.upstreams, len(upstreams) + 1):
        upstreams[f"upstream-{number}"] = _upstream(url, options.limit)
    names = [each.name for each in classes]
    if gateway.default_class and gateway.default_class not in names:
        raise unknown_name("class", gateway.default_class, names, where="gateway.default_class")
    _check_exposure(gateway)
    for each in upstreams.values():
        check_transport(each.url, plain_http=gateway.plain_http)
    return GatewaySetup(settings=gateway, upstreams=upstreams, classes=_once(classes))


def _once(classes: Sequence[DeadlineClass]) -> tuple[DeadlineClass, ...]:
    """Return the classes by name, the last of each."""
    return tuple({each.name: each for each in classes}.values())


def _check_exposure(gateway: GatewaySettings) -> None:
    """Refuse to be reached by other machines without a certificate or without keys."""
    if is_loopback(gateway.host):
        return
    if not (gateway.tls_certificate or gateway.plain_http):
        raise StewardError(
            f"'{gateway.host}' can be reached from other machines, and there is no certificate: "
            "keys and prompts would cross the network in the clear",
            where="gateway.host",
            hint="set gateway.tls_certificate, or allow it: gateway.plain_http, --plain-http",
        )
    if not (gateway.keys_file or gateway.anonymous):
        raise StewardError(
            f"'{gateway.host}' can be reached from other machines, and there are no API keys: "
            "everybody could use the model servers, and change them",
            where="gateway.keys_file",
            hint="make one with `steward serve key new NAME --keys FILE`, or allow it: "
            "gateway.anonymous = true",
        )


def _upstream(url: str, limit: int | None) -> UpstreamSettings:
    given: dict[str, Any] = {"url": url if "://" in url else f"http://{url}"}
    if limit is not None:
        given["limit"] = limit
    try:
        return UpstreamSettings.model_validate(given)
    except ValidationError:
        raise StewardError(
            f"'{url}' is not an address", where="--upstream", hint="write http://HOST:PORT"
        ) from None


def _class_of(text: str) -> DeadlineClass:
    """Read `NAME:key=value,…`."""
    name, _, rest = text.partition(":")
    pairs = [each.partition("=") for each in rest.split(",") if each]
    values: dict[str, Any] = {}
    known = tuple(ClassSettings.model_fields)
    for key, _, value in pairs:
        if key not in known:
            raise unknown_name("promise", key, known, where=f"--class {text}")
        try:
            values[key] = int(value) if key == "rank" else float(value)
        except ValueError:
            raise _wrong_class(text) from None
    try:
        return ClassSettings.model_validate(values).as_class(_named(name, text))
    except ValidationError:
        raise _wrong_class(text) from None


def _named(name: str, text: str) -> str:
    if not name.strip():
        raise _wrong_class(text)
    return name


def _wrong_class(text: str) -> StewardError:
    return StewardError(
        f"'{text}' is not a class",
        where="--class",
        hint="write NAME:ttft_s=2,itl_s=0.1,completion_s=60,rank=0, with what is promised",
    )
