"""The client of a gateway: what it reads, what it changes, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beds.serving_gateway import GatewayDouble, gateway_double, progress
from certificates import make_certificates
from patience import free_port
from steward.clients.gateway import GatewayClient, snapshot_of
from steward.errors import PermanentError, StewardError, TemporaryError
from steward.observe.serving_gateway import ServingGateway


@pytest.fixture
def double() -> Iterator[GatewayDouble]:
    with gateway_double() as running:
        yield running


@pytest.fixture
def client(double: GatewayDouble) -> Iterator[GatewayClient]:
    made = GatewayClient(double.url + "/")
    yield made
    made.close()


def test_a_status_becomes_a_snapshot(double: GatewayDouble, client: GatewayClient) -> None:
    double.add("chat-1", running=2, waiting=1, state="serving", draining=True)
    double.classes = [
        progress(queued=3, met=8, missed=2, expected_wait_s=1.5),
        progress("batch", deadline_s=None),
    ]

    snapshot = client.snapshot(7.0)

    assert snapshot.seen_s == 7.0
    assert snapshot.servers[0].state == "draining"
    assert snapshot.servers[0].in_flight == 3
    assert (snapshot.met, snapshot.judged) == (8, 10)
    assert snapshot.classes[0].expected_wait_s == 1.5
    assert snapshot.classes[1].deadline_s is None


def test_a_status_without_fields_is_a_gateway_without_requests() -> None:
    snapshot = snapshot_of({"instances": [{"name": "a"}], "classes": [{"name": "b"}]}, seen_s=1.0)

    assert snapshot.servers[0].state == "serving"
    assert snapshot.classes[0].queued == 0
    assert snapshot_of({}, seen_s=2.0).t_s == 2.0


@pytest.mark.parametrize(
    "raw", [{"instances": [{}]}, {"classes": [3]}, {"instances": 5}, {"t_s": "noon"}]
)
def test_a_status_that_makes_no_sense_is_an_error_with_a_hint(raw: dict[str, object]) -> None:
    with pytest.raises(StewardError, match="makes no sense") as fault:
        snapshot_of(raw, seen_s=1.0, where="here")

    assert fault.value.hint


def test_what_the_gateway_does_not_have_is_false_and_no_error(client: GatewayClient) -> None:
    assert [client.drain("a"), client.configure("a", limit=3), client.remove("a")] == [False] * 3


def test_names_with_slashes_stay_one_name(double: GatewayDouble, client: GatewayClient) -> None:
    client.drain("a/b")

    assert double.asked[-1][1].endswith("/a%2Fb")


def test_a_key_that_may_not_is_permanent_and_says_which_setting(double: GatewayDouble) -> None:
    double.key = "secret"
    client = GatewayClient(double.url)

    with pytest.raises(PermanentError, match="401: this key may not") as fault:
        client.status()
    client.close()

    assert "serving.key_file" in fault.value.hint
    assert "secret" not in str(fault.value)


def test_the_right_key_is_sent(double: GatewayDouble) -> None:
    double.key = "secret"
    client = GatewayClient(double.url, key="secret")

    assert client.status()["policy"] == "edf"
    client.close()


def test_a_gateway_that_is_not_there_may_come_back(double: GatewayDouble) -> None:
    client = GatewayClient(f"http://127.0.0.1:{free_port()}")

    with pytest.raises(TemporaryError, match="does not answer"):
        client.status()
    client.close()


def test_an_answer_that_is_not_json_is_tried_again(
    double: GatewayDouble, client: GatewayClient
) -> None:
    double.garbage = True

    with pytest.raises(TemporaryError, match="not JSON"):
        client.status()


def test_plain_http_to_another_machine_is_refused() -> None:
    with pytest.raises(StewardError, match="plain HTTP"):
        GatewayClient("http://far.site")

    GatewayClient("http://far.site", plain_http=True).close()


def test_the_collector_looks_at_the_gateway_and_lists_after_its_first_answer(
    double: GatewayDouble,
) -> None:
    collector = ServingGateway(GatewayClient(double.url))
    double.add("chat-1")

    before, state = collector.has_listed(), collector.available()
    seen = collector.collect(5.0)

    assert (before, collector.has_listed()) == (False, True)
    assert state.status == "ok"
    assert "1 instances" in state.reason
    assert seen.serving is not None
    assert seen.serving.seen_s == 5.0
    collector.close()


def test_the_collector_says_that_a_gateway_is_missing() -> None:
    collector = ServingGateway(GatewayClient(f"http://127.0.0.1:{free_port()}"))

    state = collector.available()

    assert state.status == "missing"
    assert "steward serve gateway" in state.hint
    collector.close()


@pytest.mark.real  # needs the program `openssl`
def test_a_gateway_with_a_certificate_of_its_own_authority_is_read_by_that(tmp_path: Path) -> None:
    with gateway_double(make_certificates(tmp_path)) as double:
        trusting = GatewayClient(double.url, ca=str(tmp_path / "ca.pem"))
        untrusting = GatewayClient(double.url)

        assert trusting.status()["policy"] == "edf"
        with pytest.raises(TemporaryError, match="certificate") as fault:
            untrusting.status()
        trusting.close()
        untrusting.close()

    assert "serving.ca_file" in fault.value.hint


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match=r"ca\.pem: the certificate file is not there"):
        GatewayClient("https://gw.example.org", ca=str(tmp_path / "ca.pem"))
