"""Files, batches and claims: what is accepted is kept, and every item is answered once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.store.batches import (
    BatchDatabase,
    BatchRecord,
    BatchStore,
    Claims,
    FileStore,
    Item,
    ItemAnswer,
    LineFault,
    NewItem,
    open_batches,
)

HOUR_S = 3600.0


def new_items(count: int, *, first: int = 1) -> Iterator[NewItem]:
    for line in range(first, first + count):
        yield NewItem(line=line, custom_id=f"c-{line}", model="m", body=b'{"model":"m"}')


def stored_file(database: BatchDatabase, content: bytes = b"{}\n", tenant: str = "ann") -> str:
    files = FileStore(database=database)
    id_ = files.begin(tenant=tenant, purpose="batch")
    files.add_part(id_, 0, content)
    return files.finish(id_, filename="in.jsonl", size_bytes=len(content)).id


def new_batch(database: BatchDatabase, *, within_s: float = HOUR_S) -> BatchRecord:
    return BatchStore(database=database).create(
        tenant="ann",
        endpoint="/v1/completions",
        input_file=stored_file(database),
        window="1h",
        within_s=within_s,
        metadata={"for": "a test"},
    )


def begun(database: BatchDatabase, count: int = 3, *, within_s: float = HOUR_S) -> str:
    batch = new_batch(database, within_s=within_s).id
    assert BatchStore(database=database).begin(batch, new_items(count))
    return batch


def claims_of(database: BatchDatabase) -> Claims:
    claims = Claims.of(database)
    claims.renew()
    return claims


def answer_to(item: Item, *, failed: bool = False) -> ItemAnswer:
    line = json.dumps({"custom_id": item.custom_id}).encode() + b"\n"
    return ItemAnswer(batch=item.batch, line=item.line, answer=line, failed=failed)


def lines_of(database: BatchDatabase, file: str | None) -> list[dict[str, object]]:
    assert file is not None
    content = b"".join(FileStore(database=database).parts(file))
    return [json.loads(line) for line in content.splitlines()]


def shown(database: BatchDatabase, batch: str) -> BatchRecord:
    found = BatchStore(database=database).find(batch, "ann")
    assert found is not None
    return found


def test_a_batch_ends_with_every_answer_in_the_order_of_its_lines(
    database: BatchDatabase,
) -> None:
    batch, store, claims = begun(database, 1203), BatchStore(database=database), claims_of(database)
    assert not store.finalize(batch)

    items = claims.claim(2000)
    assert claims.claim(10) == []
    answers = [answer_to(each, failed=each.line == 7) for each in reversed(items)]
    assert all(claims.answer(answers))
    assert store.ready() == [batch]
    assert store.finalize(batch)

    found = shown(database, batch)
    assert (found.status, found.completed, found.failed) == ("completed", 1202, 1)
    expected = [f"c-{line}" for line in range(1, 1204) if line != 7]
    assert [row["custom_id"] for row in lines_of(database, found.output_file)] == expected
    assert lines_of(database, found.error_file) == [{"custom_id": "c-7"}]
    assert not store.finalize(batch)
    assert store.counts() == (0, 0, 1202, 1)


def test_an_answer_counts_once_and_only_from_the_owner(database: BatchDatabase) -> None:
    batch, ours, others = begun(database, 1), claims_of(database), Claims.of(database)
    (item,) = ours.claim(5)

    assert others.answer([answer_to(item)]) == [False]
    assert ours.answer([answer_to(item)]) == [True]
    assert ours.answer([answer_to(item)]) == [False]
    assert shown(database, batch).completed == 1


def test_the_most_urgent_batch_goes_first(database: BatchDatabase) -> None:
    late, soon = begun(database, 2, within_s=2 * HOUR_S), begun(database, 2)

    claimed = claims_of(database).claim(3)

    assert [each.batch for each in claimed] == [soon, soon, late]
    assert HOUR_S - 60 < claimed[0].within_s <= HOUR_S


def test_an_item_that_failed_waits_before_it_is_sent_again(
    database: BatchDatabase, clock: object
) -> None:
    begun(database, 1)
    claims = claims_of(database)
    (item,) = claims.claim(1)

    claims.put_back([item], after_s=HOUR_S / 2)
    assert claims.claim(1) == []
    if not database.shared:
        clock.now_s += HOUR_S / 2 + 1  # type: ignore[attr-defined]
        (again,) = claims.claim(1)
        assert again.attempts == 1


def test_what_a_gateway_gives_back_another_may_send(database: BatchDatabase) -> None:
    begun(database, 3)
    ours, others = claims_of(database), claims_of(database)
    assert len(ours.claim(3)) == 3

    ours.resign()

    assert [each.attempts for each in others.claim(5)] == [0, 0, 0]


def test_a_gateway_that_was_killed_loses_its_claims_at_the_next_start(tmp_path: Path) -> None:
    database = open_batches(f"sqlite:///{tmp_path}/batches.sqlite3")
    begun(database, 4)
    dead = claims_of(database)
    (first, *_) = dead.claim(3)
    dead.answer([answer_to(first)])
    database.close()

    again = open_batches(f"sqlite:///{tmp_path}/batches.sqlite3")
    claims = Claims.of(again)
    freed = claims.renew()

    assert freed == 2
    assert sorted(each.line for each in claims.claim(9)) == [2, 3, 4]
    again.close()


def test_lines_with_faults_are_in_the_error_file_and_in_the_batch(database: BatchDatabase) -> None:
    batch, store = new_batch(database).id, BatchStore(database=database)
    fault = LineFault(line=2, code="invalid_json_line", message="line 2: it is no JSON")
    broken = NewItem(line=2, custom_id=None, fault=fault)

    store.begin(batch, [*new_items(1), broken, *new_items(1, first=3)])
    claims = claims_of(database)
    claims.answer([answer_to(each) for each in claims.claim(9)])
    store.finalize(batch)

    found = shown(database, batch)
    assert found.errors == (fault,)
    assert (found.total, found.completed, found.failed) == (3, 2, 1)
    (line,) = lines_of(database, found.error_file)
    error = {"code": fault.code, "message": fault.message, "line": 2, "param": None}
    assert (line["custom_id"], line["response"], line["error"]) == (None, None, error)


def test_a_batch_without_a_good_line_fails_as_a_whole(database: BatchDatabase) -> None:
    store = BatchStore(database=database)
    fault = LineFault(line=1, code="invalid_json_line", message="line 1: it is no JSON")
    broken, empty = new_batch(database).id, new_batch(database).id

    store.begin(broken, [NewItem(line=1, custom_id=None, fault=fault)])
    store.begin(empty, [])

    assert (shown(database, broken).status, shown(database, broken).errors) == ("failed", (fault,))
    assert shown(database, empty).errors[0].code == "empty_file"
    assert claims_of(database).claim(9) == []


def test_a_batch_is_begun_once(database: BatchDatabase) -> None:
    batch, store = new_batch(database).id, BatchStore(database=database)

    assert store.begin(batch, new_items(2))
    assert not store.begin(batch, new_items(2))
    store.fail(batch, LineFault(line=0, code="late", message="too late"))

    assert (shown(database, batch).status, shown(database, batch).total) == ("in_progress", 2)


def test_a_cancelled_batch_finishes_what_was_sent_and_names_the_rest(
    database: BatchDatabase,
) -> None:
    batch, store, claims = begun(database, 3), BatchStore(database=database), claims_of(database)
    (sent,) = claims.claim(1)

    cancelled = store.cancel(batch, "ann")
    assert cancelled is not None
    assert cancelled.status == "cancelling"
    assert claims.claim(9) == []
    assert not store.finalize(batch)
    assert claims.answer([answer_to(sent)]) == [True]
    assert store.finalize(batch)

    found = shown(database, batch)
    assert (found.status, found.completed, found.failed) == ("cancelled", 1, 2)
    codes = [row["error"]["code"] for row in lines_of(database, found.error_file)]  # type: ignore[index]
    assert codes == ["batch_cancelled"] * 2


def test_cancelling_what_is_over_changes_nothing(database: BatchDatabase) -> None:
    batch, store, claims = begun(database, 1), BatchStore(database=database), claims_of(database)
    claims.answer([answer_to(each) for each in claims.claim(1)])
    store.finalize(batch)
    before = shown(database, batch)

    assert store.cancel(batch, "ann") == before
    assert store.cancel("batch_none", "ann") is None


def test_what_is_not_answered_in_time_expires(database: BatchDatabase) -> None:
    batch, store = begun(database, 3, within_s=0.0), BatchStore(database=database)
    claims = claims_of(database)
    assert claims.claim(9) == []

    assert store.expire() == 1
    assert store.expire() == 0
    assert store.finalize(batch)

    found = shown(database, batch)
    assert (found.status, found.output_file, found.failed) == ("expired", None, 3)
    assert found.reached_s["expired"] is not None
    codes = {row["error"]["code"] for row in lines_of(database, found.error_file)}  # type: ignore[index]
    assert codes == {"batch_expired"}


def test_an_answer_after_the_end_is_not_kept(database: BatchDatabase, clock: object) -> None:
    if database.shared:
        pytest.skip("its clock is its own")
    batch, claims = begun(database, 1), claims_of(database)
    (item,) = claims.claim(1)
    clock.now_s += HOUR_S + 1  # type: ignore[attr-defined]
    BatchStore(database=database).expire()

    assert claims.answer([answer_to(item)]) == [False]
    assert shown(database, batch).failed == 1


def test_tenants_see_their_own_only(database: BatchDatabase) -> None:
    batch = begun(database)
    file = stored_file(database)
    files, store = FileStore(database=database), BatchStore(database=database)

    assert files.find(file, "bob") is None
    assert files.delete(file, "bob") == "unknown"
    assert store.find(batch, "bob") is None
    assert store.cancel(batch, "bob") is None
    assert shown(database, batch).status == "in_progress"
    assert store.page_of("bob", after=None, limit=5) == ([], False)


def test_pages_follow_one_another_without_gaps(database: BatchDatabase) -> None:
    wanted = [stored_file(database, b"%d\n" % each) for each in range(7)]
    files = FileStore(database=database)

    for newest_first in (True, False):
        seen: list[str] = []
        after, more = None, True
        while more:
            rows, more = files.page_of(
                "ann", purpose="batch", after=after, limit=3, newest_first=newest_first
            )
            seen += [each.id for each in rows]
            after = seen[-1]
        assert sorted(seen) == sorted(wanted)


def test_a_file_that_was_broken_off_never_shows_and_is_deleted(database: BatchDatabase) -> None:
    files = FileStore(database=database)
    file = files.begin(tenant="ann", purpose="batch")
    files.add_part(file, 0, b"half")

    assert files.find(file, "ann") is None
    assert files.discard_abandoned() == (0 if database.shared else 1)


def test_a_file_that_a_batch_is_about_to_read_is_kept(database: BatchDatabase) -> None:
    batch = new_batch(database)
    files = FileStore(database=database)

    assert files.delete(batch.input_file, "ann") == "needed"
    BatchStore(database=database).begin(batch.id, new_items(1))
    assert files.delete(batch.input_file, "ann") == "deleted"
    assert list(files.parts(batch.input_file)) == []


def test_a_second_gateway_on_one_sqlite_file_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/batches.sqlite3"
    database = open_batches(url)

    with pytest.raises(StewardError, match="another process has it open") as refused:
        open_batches(url)

    assert "PostgreSQL" in refused.value.hint
    database.close()


def test_a_url_that_is_none_is_named_with_its_setting() -> None:
    with pytest.raises(StewardError, match=r"\[batches\] store"):
        open_batches("mysql://somewhere/x")


@pytest.mark.real
@pytest.mark.parametrize("journal_url", ["postgresql"], indirect=True)
def test_gateways_that_claim_at_once_never_get_the_same(database: BatchDatabase) -> None:
    begun(database, 600)
    taken: list[list[int]] = []

    def claim_all() -> None:
        claims = claims_of(database)
        mine: list[int] = []
        while items := claims.claim(7):
            mine += [each.line for each in items]
        taken.append(mine)

    threads = [threading.Thread(target=claim_all) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(line for mine in taken for line in mine) == list(range(1, 601))


@pytest.mark.real
@pytest.mark.parametrize("journal_url", ["postgresql"], indirect=True)
def test_a_lease_that_ended_frees_what_was_claimed(database: BatchDatabase) -> None:
    begun(database, 2)
    alive, dying = claims_of(database), Claims(database=database, owner="dying", lease_s=-1.0)
    dying.renew()
    (item,) = dying.claim(1)
    assert len(alive.claim(1)) == 1

    assert alive.renew() == 1

    (again,) = alive.claim(9)
    assert again.line == item.line
    assert dying.answer([answer_to(item)]) == [False]
    assert alive.answer([answer_to(again)]) == [True]
