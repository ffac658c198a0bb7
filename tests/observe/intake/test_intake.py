"""The intake: what was acknowledged reaches the loop once, whatever happens in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from factories import cluster, node, samples
from observe.parcels import BUSY, T0, full, label, parcel, small
from steward.errors import StewardError, TemporaryError
from steward.model.cluster import Cluster, Link, LinkKind
from steward.model.event import Event, Observation
from steward.model.identity import TenantId
from steward.model.job import Tenant
from steward.observe.agent.parcel import Parcel, open_parcel, pack_parcel
from steward.observe.intake import Intake, StreamPosition
from steward.store.spool import SpoolFullError


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    with closing(Intake(tmp_path / "intake")) as opened:
        yield opened


def once(number: int, stream: str = "a-1/r-1") -> StreamPosition:
    return StreamPosition(stream=stream, number=number)


def times(seen: Observation) -> list[float]:
    return sorted(t_s - T0 for table in seen.tables for t_s in table["t_s"])


def test_what_was_accepted_is_collected_once_and_in_order(intake: Intake) -> None:
    for sequence in (1, 2, 3):
        assert intake.accept("parcel", parcel(sequence), position=once(sequence))

    seen = intake.collect(T0)

    assert times(seen) == [1, 2, 3]
    assert len(seen.frames) == 1  # tables with the same columns are one
    assert times(intake.collect(T0)) == []


def test_everything_in_a_parcel_arrives(intake: Intake) -> None:
    intake.accept("parcel", pack_parcel(label(), full()))

    seen, expected = intake.collect(T0), full()

    assert seen.events == expected.events
    assert seen.lines == expected.lines
    assert seen.spans == expected.spans
    assert seen.jobs == expected.jobs
    assert seen.health == expected.health
    assert seen.draining == expected.draining
    assert seen.other.equals(expected.other)
    assert seen.cluster is not None
    assert seen.cluster.nodes == expected.cluster.nodes  # type: ignore[union-attr]


def test_a_parcel_that_comes_again_is_not_taken_again(intake: Intake) -> None:
    intake.accept("parcel", parcel(5), position=once(5))

    assert not intake.accept("parcel", parcel(5), position=once(5))
    assert not intake.accept("parcel", parcel(4), position=once(4))
    assert intake.accept("parcel", parcel(5), position=once(5, "another"))
    assert times(intake.collect(T0)) == [5, 5]
    assert (intake.stats.accepted, intake.stats.repeated) == (2, 2)


def test_what_was_not_kept_is_collected_again_after_a_crash(tmp_path: Path) -> None:
    with closing(Intake(tmp_path)) as before:
        before.accept("parcel", parcel(1), position=once(1))
        before.collect(T0)
        before.accept("parcel", parcel(2), position=once(2))

    with closing(Intake(tmp_path)) as after:
        assert not after.accept("parcel", parcel(2), position=once(2))
        assert after.stats.waiting_bodies == 2
        assert times(after.collect(T0)) == [1, 2]


def test_what_was_kept_is_not_and_its_numbers_are_still_known(tmp_path: Path) -> None:
    with closing(Intake(tmp_path)) as before:
        before.accept("parcel", parcel(1), position=once(1))
        before.collect(T0)
        before.collect(T0)
        before.release(before.stored)

    with closing(Intake(tmp_path)) as after:
        assert times(after.collect(T0)) == []
        assert not after.accept("parcel", parcel(1), position=once(1))


def test_the_newest_observation_is_not_released_yet(tmp_path: Path) -> None:
    with closing(Intake(tmp_path)) as before:
        before.accept("parcel", parcel(1), position=once(1))
        before.collect(T0)
        before.release(before.stored)  # the turn that collected it may be late

    with closing(Intake(tmp_path)) as after:
        assert times(after.collect(T0)) == [1]


def test_numbers_are_learned_from_the_spool_when_the_small_file_is_lost(tmp_path: Path) -> None:
    with closing(Intake(tmp_path)) as before:
        before.accept("parcel", parcel(3), position=once(3))
    (tmp_path / "streams.json").write_text("{broken")

    with closing(Intake(tmp_path)) as after:
        assert not after.accept("parcel", parcel(3), position=once(3))


def test_what_does_not_fit_into_memory_waits_on_disk(tmp_path: Path) -> None:
    with closing(Intake(tmp_path, max_open_bytes=1000)) as intake:
        for sequence in range(1, 11):
            intake.accept("parcel", parcel(sequence), position=once(sequence))

        seen: list[float] = []
        looks = 0
        while len(seen) < 10:
            seen += times(intake.collect(T0))
            intake.release(intake.stored)
            looks += 1

        assert seen == list(range(1, 11))
        assert looks > 3


def test_nothing_more_is_collected_while_the_store_keeps_nothing(tmp_path: Path) -> None:
    with closing(Intake(tmp_path, max_open_bytes=1000)) as intake:
        for sequence in range(1, 11):
            intake.accept("parcel", parcel(sequence), position=once(sequence))
        while times(intake.collect(T0)):
            pass

        assert intake.stats.waiting_bodies > 0
        intake.release(intake.stored)
        assert times(intake.collect(T0)) != []


def test_senders_are_queried_to_wait_when_the_disk_share_is_used_up(tmp_path: Path) -> None:
    with closing(Intake(tmp_path, max_bytes=6000)) as intake:
        accepted = 0
        while intake.stats.held_bytes < 6000 - 2 * len(parcel(1)):
            accepted += 1
            intake.accept("parcel", parcel(accepted), position=once(accepted))
        with pytest.raises(SpoolFullError):
            intake.accept(
                "parcel", pack_parcel(label(accepted + 1), full()), position=once(accepted + 1)
            )
        intake.collect(T0)
        intake.collect(T0)
        intake.release(intake.stored)

        assert intake.accept("parcel", parcel(accepted + 1), position=once(accepted + 1))
        assert times(intake.collect(T0)) == [accepted + 1]


def test_bad_bodies_are_refused_and_leave_nothing(intake: Intake) -> None:
    with pytest.raises(StewardError, match="no parcel"):
        intake.accept("parcel", b"rubbish", position=once(1))
    with pytest.raises(StewardError, match="no kind of body called 'post'"):
        intake.accept("post", b"")

    assert intake.stats.waiting_bodies == 0
    assert intake.accept("parcel", parcel(1), position=once(1))


def test_a_check_can_refuse_what_was_decoded(intake: Intake) -> None:
    def check(seen: Observation | Parcel) -> None:
        assert isinstance(seen, Parcel)
        raise StewardError("not yours", where=seen.label.node)

    with pytest.raises(StewardError, match="not yours"):
        intake.accept("parcel", parcel(1), position=once(1), check=check)

    assert intake.stats.waiting_bodies == 0


def test_a_decoder_of_others_is_used_and_its_bugs_are_the_senders_fault(intake: Intake) -> None:
    def decode(body: bytes) -> Observation:
        message = json.loads(body)
        return Observation(frame=samples(T0 + message["t"], {"x": {BUSY: 1.0}}))

    intake.decoders["json"] = decode
    intake.accept("json", b'{"t": 1}')
    intake.accept("json", b'{"t": 2}')
    with pytest.raises(StewardError, match="JSONDecodeError"):
        intake.accept("json", b"{")

    seen = intake.collect(T0)

    assert times(seen) == [1, 2]
    assert len(seen.frames) == 1


def test_a_panic_of_a_library_over_a_body_is_the_senders_fault(intake: Intake) -> None:
    def decode(_body: bytes) -> Observation:
        raise pl.exceptions.PanicException("index out of bounds")

    intake.decoders["odd"] = decode

    with pytest.raises(StewardError, match="index out of bounds"):
        intake.accept("odd", b"x")


def test_a_body_that_cannot_be_decoded_is_reported_and_skipped(tmp_path: Path) -> None:
    with closing(Intake(tmp_path)) as before:
        before.decoders["old"] = lambda _body: Observation()
        before.accept("old", b"?")
        before.accept("parcel", parcel(1))

    with closing(Intake(tmp_path)) as after:
        assert times(after.collect(T0)) == [1]
        assert after.stats.unreadable == 1
        (event,) = after.collect(T0 + 10).events
        assert event.kind == "telemetry.damaged"
        assert "no kind of body called 'old'" in event.text


def test_damage_of_the_spool_is_reported_once(tmp_path: Path) -> None:
    with closing(Intake(tmp_path)) as before:
        before.accept("parcel", parcel(1))
        before.accept("parcel", parcel(2))
    (file,) = tmp_path.glob("*.spool")
    file.write_bytes(file.read_bytes()[:-3])

    with closing(Intake(tmp_path)) as after:
        seen = after.collect(T0)
        assert times(seen) == [1]
        assert [event.kind for event in seen.events] == ["telemetry.damaged"]
        assert after.collect(T0).events == ()


def test_the_same_parcel_twice_at_the_same_time_is_taken_once(intake: Intake) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(body: bytes) -> Parcel:
        inside.set()
        go_on.wait(60)
        return open_parcel(body)

    intake.decoders["parcel"] = slow
    results: list[bool] = []
    first = threading.Thread(
        target=lambda: results.append(intake.accept("parcel", parcel(1), position=once(1)))
    )
    first.start()
    inside.wait(60)
    with pytest.raises(TemporaryError, match="still being written"):
        intake.accept("parcel", parcel(1), position=once(1))
    go_on.set()
    first.join()

    assert results == [True]
    assert not intake.accept("parcel", parcel(1), position=once(1))
    assert times(intake.collect(T0)) == [1]


def test_many_threads_lose_nothing_while_the_loop_collects(intake: Intake) -> None:
    def send(owner: int) -> None:
        for sequence in range(1, 21):
            seen = small(T0 + sequence, entity=f"n{owner}/gpu0")
            body = pack_parcel(label(sequence, agent=f"a-{owner}"), seen)
            assert intake.accept("parcel", body, position=once(sequence, f"a-{owner}"))

    threads = [threading.Thread(target=send, args=(owner,)) for owner in range(6)]
    for thread in threads:
        thread.start()
    collected = []
    while any(thread.is_alive() for thread in threads):
        collected += list(intake.collect(T0).tables)
        intake.release(intake.stored)
    collected += list(intake.collect(T0).tables)

    rows = pl.concat(collected)
    assert rows.height == rows.unique(["t_s", "entity"]).height == 6 * 20


def test_clusters_of_all_agents_are_one(intake: Intake) -> None:
    for name in ("n1", "n2"):
        result = Observation(cluster=cluster(node(name)))
        intake.accept("parcel", pack_parcel(label(node=name), result))
    first = intake.collect(T0).cluster
    intake.accept("parcel", pack_parcel(label(), Observation(cluster=cluster(node("n3")))))
    second = intake.collect(T0).cluster

    assert first is not None
    assert [each.id for each in first.nodes] == ["n1", "n2"]
    assert second is not None
    assert [each.id for each in second.nodes] == ["n1", "n2", "n3"]
    assert intake.collect(T0).cluster is None


def test_a_cluster_that_does_not_fit_to_the_rest_costs_only_itself(intake: Intake) -> None:
    good = cluster(node("n1"))
    link = Link(a="n1", b="n1/gpu0", kind=LinkKind.PCIE, bytes_per_s=1.0)
    loses_its_gpus = Cluster(id="n1", nodes=(node("n1", gpus=0),))
    intake.accept(
        "parcel",
        pack_parcel(
            label(), Observation(cluster=Cluster(id="n1", nodes=good.nodes, links=(link,)))
        ),
    )
    intake.collect(T0)
    intake.accept("parcel", pack_parcel(label(), Observation(cluster=loses_its_gpus)))
    intake.accept("parcel", pack_parcel(label(), Observation(cluster=cluster(node("n2")))))

    seen = intake.collect(T0)

    assert seen.cluster is not None
    assert [each.id for each in seen.cluster.nodes] == ["n1", "n2"]
    assert [event.kind for event in seen.events] == ["cluster.refused"]


def test_what_the_server_has_to_report_comes_with_the_next_look(intake: Intake) -> None:
    event = Event(t_s=T0, kind="agent.renamed", subject="n2", text="was n1", source="intake")
    intake.add_event(event)

    assert intake.collect(T0).events == (event,)
    assert intake.collect(T0).events == ()
    assert intake.available().status == "ok"


def test_tenants_of_all_agents_are_one_list_and_none_loses_its_share(intake: Intake) -> None:
    favoured = Tenant(id=TenantId("a"), guaranteed_gpus=8)
    for named in ((favoured,), (Tenant(id=TenantId("a")), Tenant(id=TenantId("b")))):
        intake.accept("parcel", pack_parcel(label(), Observation(tenants=named)))

    assert intake.collect(T0).tenants == (favoured, Tenant(id=TenantId("b")))
    intake.accept("parcel", pack_parcel(label(), Observation(tenants=(Tenant(id=TenantId("b")),))))
    assert intake.collect(T0).tenants is None
