"""One rule for all connections: TLS, or this machine, or an explicit setting for plain HTTP."""

from __future__ import annotations

import pytest

from steward.clients.otlp import OtlpGrpc
from steward.clients.prometheus import Exporter, PrometheusServer
from steward.clients.transport_rule import check_transport, is_loopback
from steward.clients.web import Endpoint
from steward.config import Settings
from steward.config.forward import targets_of, wrong_receivers
from steward.config.rulebook import endpoint_of
from steward.config.settings import RulesSettings
from steward.errors import StewardError
from steward.observe.collectors.prometheus import Prometheus

FAR = "http://prometheus.site:9090"


@pytest.mark.parametrize("url", [FAR, "http://10.0.0.1", "http://[2001:db8::1]:9090", "http://"])
def test_plain_http_to_another_machine_is_refused_with_both_ways_out(url: str) -> None:
    with pytest.raises(StewardError, match="plain HTTP to another machine") as fault:
        check_transport(url, plain_http=False)

    assert "https://" in fault.value.hint
    assert "plain_http = true" in fault.value.hint
    assert "--plain-http" in fault.value.hint


@pytest.mark.parametrize(
    "url", ["https://far.site", "http://localhost:1", "http://127.0.0.1", "http://[::1]:9090/x"]
)
def test_tls_and_this_machine_need_no_setting(url: str) -> None:
    check_transport(url, plain_http=False)


def test_plain_http_works_when_it_is_allowed() -> None:
    check_transport(FAR, plain_http=True)


def test_listening_on_all_addresses_is_not_this_machine() -> None:
    assert not is_loopback("0.0.0.0")  # noqa: S104 - the case itself
    assert not is_loopback("::")
    assert not is_loopback("")


def test_every_client_of_an_endpoint_follows_the_rule() -> None:
    with pytest.raises(StewardError, match="plain HTTP"):
        Endpoint(url=FAR)

    allowed = Endpoint(url=FAR, plain_http=True)

    for client in (PrometheusServer, Exporter, OtlpGrpc):
        client(allowed)


def test_a_forward_without_tls_is_a_mistake_of_the_configuration() -> None:
    settings = Settings.model_validate({"forward": {"far": {"url": f"{FAR}/api/v1/write"}}})
    allowed = Settings.model_validate(
        {"forward": {"far": {"url": f"{FAR}/api/v1/write", "plain_http": True}}}
    )

    (wrong,) = wrong_receivers(settings)
    assert "plain HTTP to another machine" in wrong.problem
    assert not [*wrong_receivers(allowed)]
    assert targets_of(allowed)[0].endpoint.plain_http


def test_questions_to_a_prometheus_follow_the_rule() -> None:
    with pytest.raises(StewardError, match="plain HTTP"):
        endpoint_of(RulesSettings(prometheus=FAR))
    with pytest.raises(StewardError, match="plain HTTP"):
        Prometheus(server=FAR, queries={"up": "up"})
    with pytest.raises(StewardError, match="plain HTTP"):
        Prometheus(targets=("http://n01:9400/metrics",))

    assert endpoint_of(RulesSettings(prometheus=FAR, prometheus_plain_http=True)).plain_http
    assert Prometheus(server=FAR, queries={"up": "up"}, plain_http=True).available().status == "ok"
