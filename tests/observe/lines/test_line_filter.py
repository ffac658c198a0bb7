"""Lines on their way: storms become a number, events are found, nothing else is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.cgroups import CgroupReader
from steward.model.event import LogLine, Observation
from steward.observe.lines import KERNEL, EntityResolver, LineFilter
from steward.observe.lines.storm_filter import shape_of, shapes_of

NOW_S = 1_794_752_357.0
XID = "NVRM: Xid (PCI:0000:{bus}:00): 79, GPU has fallen off the bus."


def line_filter(**options: int) -> LineFilter:
    nowhere = Path("/nonexistent")
    gpus = {f"0000:{bus:02x}:00": bus for bus in range(8)}
    made = EntityResolver("n1", cgroups=CgroupReader(root=nowhere, proc=nowhere), gpu_at=gpus.get)
    return LineFilter(made, name="test", **options)


def look(
    made: LineFilter, *texts: str, t_s: float = NOW_S, source: str = "/var/log/app"
) -> Observation:
    made.begin(t_s)
    made.add_texts(list(texts), [0] * len(texts), entity="n1", source=source, now_s=t_s)
    return made.drain()


def kernel(made: LineFilter, *texts: str, t_s: float = NOW_S) -> Observation:
    made.begin(t_s)
    for text in texts:
        made.add(LogLine(t_s=t_s, entity="n1", source=KERNEL, text=text))
    return made.drain()


def test_ordinary_lines_pass_as_they_are() -> None:
    seen = look(line_filter(), "hello", "world")

    assert [line.text for line in seen.lines] == ["hello", "world"]
    assert {(line.t_s, line.entity, line.source, line.level) for line in seen.lines} == {
        (NOW_S, "n1", "/var/log/app", 6)
    }
    assert seen.events == ()


def test_a_line_without_a_time_has_that_of_the_line_before() -> None:
    seen = look(
        line_filter(), "2026-11-15T10:00:00Z Traceback:", "  File x", "2026-11-15T10:00:05Z go"
    )

    first, second, third = (line.t_s for line in seen.lines)
    assert first == second == third - 5.0


def test_a_kernel_line_in_a_file_is_an_event_and_a_programs_text_is_not() -> None:
    line = "May 19 07:08:57 n1 kernel: [680111.646286] nfs: server n9 not responding, still trying"

    seen = look(
        line_filter(), line, "my program: nfs: server n9 not responding", "python[3]: segfault at 0"
    )

    assert [(event.kind, event.subject) for event in seen.events] == [("files.silent", "n1")]
    assert seen.events[0].text.endswith(line)
    assert len(seen.lines) == 3


def test_a_storm_becomes_some_lines_and_a_number() -> None:
    made = line_filter()
    storm = [f"retry {i} at 0x{i:x}" for i in range(100_000)]

    seen = look(made, *storm)
    same_window = look(made, *storm[:7], t_s=NOW_S + 1.0)
    later = look(made, *storm[:7], t_s=NOW_S + 10.0)

    assert [line.text for line in seen.lines] == [
        *storm[:50],
        f"repeated 99950 more times: {storm[-1]}",
    ]
    assert [line.text for line in same_window.lines] == [f"repeated 7 more times: {storm[6]}"]
    assert [line.text for line in later.lines] == storm[:7]


def test_other_lines_of_the_same_file_pass_through_a_storm() -> None:
    mixed = ["again and again"] * 1000 + ["something else"] + ["again and again"] * 1000

    seen = look(line_filter(), *mixed)

    assert [line.text for line in seen.lines].count("something else") == 1
    assert len(seen.lines) == 52


def test_a_storm_in_one_source_takes_nothing_from_another() -> None:
    made = line_filter()
    look(made, *["x"] * 1000, source="/a")

    assert len(look(made, "x", source="/b").lines) == 1


def test_each_gpu_has_its_own_events_in_a_storm_of_faults() -> None:
    made = line_filter()
    storm = [XID.format(bus=f"{gpu:02x}") for gpu in range(8)] * 1000

    seen = kernel(made, *storm)
    later = kernel(made, t_s=NOW_S + 10.0)

    assert {event.subject for event in seen.events} == {f"n1/gpu{gpu}" for gpu in range(8)}
    assert len(seen.events) == 8 * 5
    assert len(later.events) == 8
    assert all(each.text.startswith("repeated 995 more times in 10 s: ") for each in later.events)


def test_the_kernel_reports_twice_that_it_killed_a_process_and_that_is_one_event() -> None:
    oom = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
        "oom_memcg=/slurm/uid_0/job_812,task_memcg=/slurm/uid_0/job_812/step_0,task=python,"
        "pid=4711,uid=0"
    )
    killed = "Memory cgroup out of memory: Killed process 4711 (python) total-vm:3149468kB"

    seen = kernel(line_filter(), oom, killed)

    assert [(event.kind, event.subject) for event in seen.events] == [
        ("process.out-of-memory", "job:812")
    ]
    assert len(seen.lines) == 2


def test_a_read_ends_at_its_limit() -> None:
    made = line_filter(at_most=10)
    made.begin(NOW_S)

    texts = [f"line {'xyz'[i % 3]}" for i in range(9)]
    made.add_texts(texts, [0] * 9, entity="n", source="s", now_s=NOW_S)
    assert not made.full
    made.add_texts(["one more"], [0], entity="n", source="s", now_s=NOW_S)

    assert made.full


def test_a_clock_that_goes_back_ends_the_window() -> None:
    made = line_filter()
    look(made, *["x"] * 100)

    later = look(made, "x", t_s=NOW_S - 3600.0)

    assert [line.text for line in later.lines] == ["x"]


def test_what_goes_wrong_at_every_look_is_reported_now_and_then_with_a_number() -> None:
    made = line_filter()
    for i in range(100):
        made.report("log.unreadable", f"3 lines at look {i}", NOW_S + i)
    first = made.drain().events

    made.report("log.unreadable", "3 lines", NOW_S + 600.0)
    (later,) = made.drain().events

    assert len(first) == 10
    assert later.text == "3 lines (and 90 times more in the 600 s before)"


def test_an_event_quotes_no_endless_line() -> None:
    seen = kernel(line_filter(), "nfs: server n9 not responding" + "x" * 100_000)

    assert len(seen.events[0].text) < 3000
    assert len(seen.lines[0].text) > 100_000


@given(st.lists(st.text(alphabet="xyz019\ud800ü", min_size=1, max_size=6), max_size=300))
def test_every_line_is_kept_or_counted(texts: list[str]) -> None:
    seen = look(line_filter(), *texts)

    repeated = [line.text for line in seen.lines if line.text.startswith("repeated ")]
    counted = sum(int(text.split()[1]) for text in repeated)
    assert len(seen.lines) - len(repeated) + counted == len(texts)


@pytest.mark.parametrize("texts", [["a"], ["", "x1", "ü 0xff"], ["\ud800 broken", "b"]])
def test_shapes_of_many_are_those_of_each(texts: list[str]) -> None:
    assert shapes_of(texts) == [shape_of(text) for text in texts]


def test_a_kernel_line_of_another_host_is_no_event_of_this_machine() -> None:
    line = f"Nov 14 10:00:00 gpu02 kernel: {XID.format(bus='03')}"

    seen = look(line_filter(), line, line.replace("gpu02", "n1"))

    assert [event.subject for event in seen.events] == ["n1/gpu3"]
    assert len(seen.lines) == 2
