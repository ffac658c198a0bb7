"""The tools `queue` and `cluster`: what waits, and what GPUs, nodes and tenants do now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from steward.model.cluster_snapshot import ClusterSnapshot, GpuState, NodeRow, TenantRow
from steward.questions.facts import Fact, Reply, Sentence, say, unknown
from steward.questions.records import Records
from steward.questions.tools.shapes import Arguments
from steward.questions.tools.sources import fact_at, journal_source, no_such

__all__ = ["ClusterArguments", "QueueArguments", "cluster", "queue"]

MOST_NAMED = 5
NOBODY = "No steward runs here now, so what happens at this moment is not known."
WORDS: Mapping[GpuState, str] = {
    GpuState.BUSY: "busy",
    GpuState.IDLE: "held but idle",
    GpuState.LENT: "lent",
    GpuState.FREE: "free",
    GpuState.FAILED: "failed",
    GpuState.UNKNOWN: "silent",
}


class QueueArguments(Arguments):
    """What about the queue."""

    about: Literal["length", "longest"] = Field(
        "length", description="length: how many wait; longest: who has waited longest"
    )


class ClusterArguments(Arguments):
    """What about the cluster; a GPU, node or tenant by its name."""

    about: Literal["use", "free", "gpu", "node", "tenant", "tenants", "loans"] = Field(
        "use",
        description="use: what all GPUs do; free: GPUs that are free; gpu, node, tenant: one of "
        "that name; tenants: all of them by GPUs; loans: whose GPUs are lent to whom",
    )
    name: str = Field("", max_length=200, description="of the GPU (NODE/gpuN), node or tenant")
    gpus: int | None = Field(None, ge=1, le=100_000, description="for `free`: how many are wanted")


def queue(records: Records, asked: QueueArguments) -> Reply:
    """Answer about the jobs that wait."""
    shown = records.cluster
    if shown is None:
        return unknown(NOBODY)

    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("queue", "", shown.t_s, label, value, unit)

    if not shown.queue:
        none = fact("jobs that wait", 0, "jobs")
        return Reply(sentences=(say("The queue is empty: {none} wait.", none=none),))
    first = shown.queue[0]
    if asked.about == "longest":
        facts = {
            "job": fact("job that waits longest", first.id),
            "user": fact("its user", first.user or "unknown"),
            "waited": fact("longest wait", first.waiting_s, "s"),
            "gpus": fact("GPUs it asks for", first.gpus, "GPUs"),
        }
        text = "Job {job} of {user} has waited longest: {waited}, for {gpus}."
        return Reply(sentences=(say(text, **facts),))
    facts = {
        "count": fact("jobs that wait", len(shown.queue), "jobs"),
        "gpus": fact("GPUs they ask for", sum(each.gpus for each in shown.queue), "GPUs"),
        "waited": fact("longest wait", first.waiting_s, "s"),
    }
    return Reply(
        sentences=(say("{count} wait, for {gpus} in all; the longest wait is {waited}.", **facts),)
    )


def cluster(records: Records, asked: ClusterArguments) -> Reply:
    """Answer about GPUs, nodes and tenants at this moment."""
    if records.cluster is None:
        return unknown(NOBODY)
    return _TOLD[asked.about](records, records.cluster, asked)


def _cluster_fact(
    shown: ClusterSnapshot, label: str, value: str | float, unit: str = "GPUs"
) -> Fact:
    return fact_at("cluster", "", shown.t_s, label, value, unit)


def _use(_records: Records, shown: ClusterSnapshot, _asked: ClusterArguments) -> Reply:
    gpus = list(shown.gpus)
    if not gpus:
        return unknown("No GPU is known here.")
    told = [say("There are {all}.", all=_cluster_fact(shown, "GPUs in all", len(gpus)))]
    parts = {
        state.value: _cluster_fact(shown, f"GPUs that are {word}", shown.states[state])
        for state, word in WORDS.items()
        if shown.states.get(state)
    }
    fields = ", ".join(f"{{{state}}} {WORDS[GpuState(state)]}" for state in parts)
    told.append(say(f"Of them: {fields}.", **parts))
    known = [gpu.busy_share for gpu in gpus if gpu.busy_share is not None]
    if known:
        mean = _cluster_fact(
            shown, "mean use of GPUs that report it", sum(known) / len(known), "share"
        )
        told.append(say("Their mean use is {mean}.", mean=mean))
    return Reply(sentences=tuple(told))


def _free(_records: Records, shown: ClusterSnapshot, asked: ClusterArguments) -> Reply:
    rooms = [(node, _free_on(node)) for node in shown.nodes if not node.draining]
    rooms = sorted((each for each in rooms if each[1]), key=lambda each: (-each[1], each[0].id))
    count = _cluster_fact(shown, "free GPUs", sum(free for _, free in rooms))
    told = [say("{count} are free on nodes that take jobs.", count=count)]
    if asked.gpus is not None:
        told.append(_room(shown, rooms, asked.gpus))
    if rooms:
        named = [
            (fact_at("node", node.id, shown.t_s, "node", node.id), _free_fact(shown, node.id, free))
            for node, free in rooms[:MOST_NAMED]
        ]
        text = ", ".join(f"{node.text} ({free.text})" for node, free in named)
        facts = tuple(fact for pair in named for fact in pair)
        told.append(Sentence(text=f"Most are on {text}.", facts=facts))
    return Reply(sentences=tuple(told))


def _free_fact(shown: ClusterSnapshot, node: str, free: int) -> Fact:
    return fact_at("node", node, shown.t_s, "free GPUs there", free, "GPUs")


def _free_on(node: NodeRow) -> int:
    return sum(gpu.state is GpuState.FREE for gpu in node.gpus)


def _room(shown: ClusterSnapshot, rooms: Sequence[tuple[NodeRow, int]], wanted: int) -> Sentence:
    asked = _cluster_fact(shown, "GPUs asked for", wanted)
    if rooms and rooms[0][1] >= wanted:
        node = fact_at("node", rooms[0][0].id, shown.t_s, "node with room", rooms[0][0].id)
        return say("There is room for {asked} on one node: {node}.", asked=asked, node=node)
    if sum(free for _, free in rooms) >= wanted:
        return say("There is room for {asked}, on several nodes only.", asked=asked)
    return say("There is no room for {asked} now.", asked=asked)


def _gpu(_records: Records, shown: ClusterSnapshot, asked: ClusterArguments) -> Reply:
    found = next((gpu for gpu in shown.gpus if gpu.id == asked.name), None)
    if found is None:
        return no_such("gpu", asked.name, [gpu.id for gpu in shown.gpus], shown.t_s)

    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("gpu", asked.name, shown.t_s, label, value, unit)

    gpu = fact("GPU", found.id)
    state = fact("state", WORDS[found.state])
    told = [say("{gpu} is {state}.", gpu=gpu, state=state)]
    if found.owner:
        told.append(
            _holder(fact, "Job {job} of tenant {tenant} holds it.", found.owner, found.tenant)
        )
    if found.borrower:
        text = "Job {job} of tenant {tenant} borrows it."
        told.append(_holder(fact, text, found.borrower, found.borrower_tenant))
    if not found.owner and not found.borrower:
        told.append(say("No job holds {gpu}.", gpu=gpu))
    if found.busy_share is not None:
        told.append(
            say("It is busy {busy} of the time.", busy=fact("use now", found.busy_share, "share"))
        )
    return Reply(sentences=tuple(told))


def _holder(fact: Callable[..., Fact], text: str, job: str, tenant: str | None) -> Sentence:
    return say(text, job=fact("job", job), tenant=fact("tenant", tenant or "unknown"))


def _node(records: Records, shown: ClusterSnapshot, asked: ClusterArguments) -> Reply:
    found = next((node for node in shown.nodes if node.id == asked.name), None)
    if found is None:
        return no_such("node", asked.name, [node.id for node in shown.nodes], shown.t_s)

    def fact(label: str, value: str | float, unit: str = "name") -> Fact:
        return fact_at("node", asked.name, shown.t_s, label, value, unit)

    facts = {
        "node": fact("node", found.id),
        "gpus": fact("GPUs", len(found.gpus), "GPUs"),
        "state": fact(
            "takes jobs", "draining: nothing new starts there" if found.draining else "up"
        ),
    }
    told = [say("Node {node} has {gpus} and is {state}.", **facts)]
    counts = {
        state.value: fact(f"GPUs that are {word}", n, "GPUs")
        for state, word in WORDS.items()
        if (n := sum(gpu.state is state for gpu in found.gpus))
    }
    if counts:
        fields = ", ".join(f"{{{state}}} {WORDS[GpuState(state)]}" for state in counts)
        told.append(say(f"Of them: {fields}.", **counts))
    told += _jobs_on(fact, found, shown)
    told += _found_on(records, found.id)
    return Reply(sentences=tuple(told))


def _jobs_on(
    fact: Callable[..., Fact], node: NodeRow, shown: ClusterSnapshot
) -> Iterator[Sentence]:
    held = [job for gpu in node.gpus for job in (gpu.owner, gpu.borrower) if job]
    seen = [job.id for job in shown.running if node.id in job.nodes]
    jobs = list(dict.fromkeys((*held, *seen)))
    count = fact("jobs on it", len(jobs), "jobs")
    if not jobs:
        yield say("It runs {count}.", count=count)
        return
    named = tuple(fact("job", job) for job in jobs[:MOST_NAMED])
    some = "among them " if len(jobs) > len(named) else ""
    yield Sentence(
        text=f"It runs {count.text}: {some}{', '.join(f.text for f in named)}.",
        facts=(count, *named),
    )


def _found_on(records: Records, node: str) -> Iterator[Sentence]:
    about = [f for f in records.open_findings if f.place.partition("/")[0] == node]
    for each in about[:MOST_NAMED]:
        source, link = journal_source("finding", each.id)
        id_ = Fact(label="finding", value=each.id, source=source, link=link)
        title = Fact(label="title", value=each.title, unit="text", source=source, link=link)
        yield say("Finding {id} is open: {title}.", id=id_, title=title)


def _tenant(_records: Records, shown: ClusterSnapshot, asked: ClusterArguments) -> Reply:
    found = next((each for each in shown.tenants if each.id == asked.name), None)
    if found is None:
        return no_such("tenant", asked.name, [each.id for each in shown.tenants], shown.t_s)
    return Reply(sentences=(_tenant_line(shown, found), _against(shown, found)))


def _tenant_fact(
    shown: ClusterSnapshot, row: TenantRow, label: str, value: str | float, unit: str = "GPUs"
) -> Fact:
    return fact_at("tenant", row.id, shown.t_s, label, value, unit)


def _tenant_line(shown: ClusterSnapshot, row: TenantRow) -> Sentence:
    facts = {
        "name": _tenant_fact(shown, row, "tenant", row.id, "name"),
        "held": _tenant_fact(shown, row, "GPUs held", row.held),
        "borrowed": _tenant_fact(shown, row, "GPUs borrowed", row.borrowed),
        "waiting": _tenant_fact(shown, row, "GPUs waited for", row.waiting),
    }
    return say("Tenant {name} holds {held}, borrows {borrowed} and waits for {waiting}.", **facts)


def _against(shown: ClusterSnapshot, row: TenantRow) -> Sentence:
    facts = {
        "sure": _tenant_fact(shown, row, "GPUs guaranteed", row.guaranteed),
        "fair": _tenant_fact(shown, row, "fair share", row.fair_share),
    }
    return say("It is guaranteed {sure}; its fair share is {fair}.", **facts)


def _tenants(_records: Records, shown: ClusterSnapshot, _asked: ClusterArguments) -> Reply:
    rows = sorted(shown.tenants, key=lambda each: (-each.held, each.id))
    if not rows:
        return unknown("No tenant is known here.")
    told = tuple(_tenant_line(shown, row) for row in rows[:MOST_NAMED])
    if len(rows) > MOST_NAMED:
        count = _cluster_fact(shown, "tenants", len(rows), "tenants")
        told = (*told, say("These hold most, of {count}.", count=count))
    return Reply(sentences=told)


def _loans(records: Records, shown: ClusterSnapshot, _asked: ClusterArguments) -> Reply:
    loans = records.view.loans if records.view is not None else ()
    gpus = _cluster_fact(shown, "GPUs that are lent", sum(len(each.gpus) for each in loans))
    count = _cluster_fact(shown, "loans", len(loans), "loans")
    told = [say("{gpus} are lent, in {count}.", gpus=gpus, count=count)]
    for each in loans[:MOST_NAMED]:
        source, link = journal_source("decision", each.id)

        def fact(
            label: str, value: str | float, unit: str = "name", of: tuple[str, str] = (source, link)
        ) -> Fact:
            return Fact(label=label, value=value, unit=unit, source=of[0], link=of[1])

        facts = {
            "owner": fact("owner", each.owner),
            "borrower": fact("borrower", each.borrower),
            "n": fact("GPUs of the loan", len(each.gpus), "GPUs"),
            "id": fact("decision", each.id),
        }
        told.append(say("Job {owner} lends {n} to job {borrower}, by decision {id}.", **facts))
    return Reply(sentences=tuple(told))


_TOLD: Mapping[str, Callable[[Records, ClusterSnapshot, ClusterArguments], Reply]] = {
    "use": _use,
    "free": _free,
    "gpu": _gpu,
    "node": _node,
    "tenant": _tenant,
    "tenants": _tenants,
    "loans": _loans,
}
