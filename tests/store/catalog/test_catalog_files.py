"""Catalogue files: read whole, written without loss, and hostile ones refused with their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.errors import StewardError
from steward.model.planning.catalog import (
    Accelerator,
    Basis,
    Catalog,
    CatalogSite,
    Charging,
    Engine,
    Queue,
    Source,
)
from steward.store.catalog import (
    CatalogFaults,
    CatalogPackage,
    builtin_file,
    catalog_text,
    examine,
    merge,
    parse_catalog,
    read_packages,
)
from steward.store.catalog.amounts import (
    read_size,
    read_tera,
    read_time,
    size_text,
    tera_text,
    time_text,
)

SITE = """\
sites:
  - name: pitzer
    engine: slurm
    source: {text: osc.edu, as_of: 2026-08-12}
    queues:
      - name: gpu
        cores_per_node: 40
        memory_per_node: 160 GB
        gpus_per_node: 2
        gpu_model: V100
        max_time: 96 h
        charging: {basis: core-hour, rate: 0.003, gpu_rate: 0.09, memory_per_core: 4.2 GB}
"""


def faults(text: str) -> list[str]:
    with pytest.raises(CatalogFaults) as caught:
        parse_catalog(text, file="f")
    return [f"{each} [{each.hint}]" for each in caught.value.faults]


def test_a_site_is_written_in_a_dozen_lines() -> None:
    (site,) = parse_catalog(SITE).sites

    source = Source(text="osc.edu", as_of="2026-08-12")
    assert site == CatalogSite(
        name="pitzer",
        engine=Engine.SLURM,
        source=source,
        queues=(
            Queue(
                name="gpu",
                cores_per_node=40,
                memory_bytes_per_node=160 * 10**9,
                gpus_per_node=2,
                gpu_model="V100",
                max_s=96 * 3600.0,
                source=source,  # that of the site
                charging=Charging(
                    basis=Basis.CORE_S,
                    rate=0.003,
                    gpu_rate=0.09,
                    memory_per_core_bytes=4_200_000_000,
                ),
            ),
        ),
    )


def test_the_catalogue_that_comes_with_steward_is_right() -> None:
    (package,) = read_packages([builtin_file()])

    catalog = package.catalog
    h100 = catalog.accelerator("NVIDIA H100 80GB HBM3")
    assert len(catalog.accelerators) >= 15
    assert merge([package]).conflicts == ()
    assert h100 is not None
    assert (h100.memory_bytes, h100.flops["bf16"]) == (80 * 10**9, 989e12)
    assert all(each.source.as_of for each in catalog.accelerators)


def test_every_fault_is_reported_at_once_with_its_place_and_what_was_possible() -> None:
    text = """\
sites:
  - name: a
    engine: slurmm
    queues:
      - name: q
        cpus: 4
        memory_per_node: 160
        max_time: 48
        min_nodes: 3
        max_nodes: 2
      - name: q
        charging: {basis: node-hours, rate: -1}
    source: {as_of: yesterday}
  - engine: slurm
"""

    found = faults(text)

    assert [each.split(": ")[0] for each in found] == [
        "f:3:13",
        "f:6:9",
        "f:7:26",
        "f:8:19",
        "f:11:15",
        "f:12:27",
        "f:12:45",
        "f:13:21",
        "f:14:5",
    ]
    assert "did you mean 'slurm'?" in found[0]
    assert "did you mean 'cores_per_node'?" in found[1]
    assert "has no unit" in found[2]
    assert "a second queue 'q'; the first is in f:5:15" in found[4]
    assert "did you mean 'node-hour'?" in found[5]
    assert "`rate` is -1" in found[6]
    assert "write it as 2026-08-12" in found[7]
    assert "`name` is missing" in found[8]


def test_limits_that_contradict_each_other_are_faults() -> None:
    text = "sites:\n  - name: a\n    engine: slurm\n    queues:\n"
    text += "      - {name: q, min_nodes: 3, max_nodes: 2}\n"

    (only,) = faults(text)
    assert only.startswith("f:5:9: a: queue 'q': min_nodes is 3, and max_nodes is 2")
    assert only.endswith("[no job could run there]")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "this file is empty"),
        ("just words", "has to be a mapping, and this is 'just words'"),
        ("sites: 3", "`sites` has to be a list"),
        ("sites: [3]", "`site` has to be a mapping"),
        ("site: []", "there is no key `site`"),
        ("sites: [{name: a, engine: slurm, queues: [[]]}]", "`queue` has to be a mapping"),
        ("sites: [{name: '', engine: slurm}]", "'' cannot be a name"),
        ("sites: [{name: 'a\\tb', engine: slurm, name: b}]", "`name` is written twice"),
        ('sites: [{name: "a\\u202eb", engine: slurm}]', "cannot be a name"),
        ("sites: [{name: a, engine: slurm, grams_per_kwh: .inf}]", "is a number"),
        ("sites: [{name: a, engine: slurm, grams_per_kwh: '4'}]", "is a number"),
        ("sites: [{name: a, engine: slurm, pue: 0.5}]", "no key `pue`"),
        (
            "sites: [{name: a, engine: slurm, power_usage_effectiveness: 0.5}]",
            "site 'a': power_usage_effectiveness is 0.5",
        ),
        (
            "sites: [{name: a, engine: slurm, queues: [{name: q, max_time: 1e30 d}]}]",
            "is more than there is",
        ),
        (
            "sites: [{name: a, engine: slurm, queues: [{name: q, max_time: 2 weeks}]}]",
            "has a unit 'weeks'",
        ),
        (
            "sites: [{name: a, engine: slurm, queues: [{name: q, memory_per_node: lots}]}]",
            "'lots' is not a size",
        ),
        ("accelerators: [{name: a}]", "`memory` is missing"),
        (
            "accelerators: [{name: a, memory: 1 GB, bandwidth: 1 GB, watts: 1, tflops: {int4: 1}}]",
            "there is no key `int4`",
        ),
        ("sites: [{name: a, engine: slurm}, {name: a, engine: local}]", "a second site 'a'"),
        ("a: &a [*a]", "stands inside"),
        ("x: !!python/object:os.system [b]", "tags are not allowed"),
        ("\tsites: []", "this is no YAML"),
        ("[" * 200 + "]" * 200, "levels inside one another"),
    ],
)
def test_hostile_and_broken_files_are_refused_in_a_sentence(text: str, says: str) -> None:
    assert says in " ".join(faults(text))


def test_anchors_cannot_become_a_billion_values() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]

    assert "with anchors unfolded" in faults("\n".join(lines))[0]


@given(st.text(max_size=200))
def test_any_text_is_a_catalogue_or_gets_an_error(text: str) -> None:
    try:
        parse_catalog(text, file="f")
    except StewardError as fault:
        assert fault.problem


def test_a_folder_is_one_package_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("sites: [{name: a, engine: slurm}]")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.yml").write_text("sites: [{name: b, engine: local}]")
    (tmp_path / ".hidden.yaml").write_text("nonsense")
    (tmp_path / "README.md").write_text("about it")

    (package,) = read_packages([tmp_path])

    assert [site.name for site in package.catalog.sites] == ["a", "b"]


def test_faults_of_all_files_come_in_one_message(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("sites: [{name: a, engine: slurmm}]")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").mkdir()

    with pytest.raises(CatalogFaults) as caught:
        read_packages([tmp_path, tmp_path / "empty", tmp_path / "nowhere.yaml"])

    message = str(caught.value)
    assert message.startswith("4 faults in the catalogue")
    assert "did you mean 'slurm'?" in message
    assert "no UTF-8 text" in message
    assert "a folder without catalogue files" in message
    assert "No such file" in message


def test_a_single_fault_is_a_sentence_with_its_place() -> None:
    with pytest.raises(CatalogFaults) as caught:
        parse_catalog("sites: [{name: a, engine: slurmm}]", file="f")

    assert caught.value.where == "f:1:27"
    assert caught.value.hint == "did you mean 'slurm'?"


def test_examining_keeps_what_is_right(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("sites: [{name: a, engine: slurm}, {name: b, engine: x}]")

    found = examine(file)

    assert [site.name for site in found.package.catalog.sites] == ["a"]
    assert len(found.faults) == 1


letters = st.characters(categories=["L", "N", "P", "S"])
names = st.sampled_from(["q", "gpu", "no", "null", "1e3", "a: b", "'x'", "# x"]) | st.text(
    letters, min_size=1, max_size=8
)
texts = st.just("") | names
amounts = st.floats(0, 1e15) | st.integers(0, 10**6).map(float)
sizes = st.integers(0, 10**15) | st.integers(0, 4096).map(lambda n: n * 2**30)
sources = st.builds(Source, text=texts, as_of=st.sampled_from(["", "2026-08-12", "2024-02-29"]))
charges = st.builds(
    Charging,
    basis=st.sampled_from(Basis),
    rate=amounts,
    gpu_rate=amounts,
    unit=st.sampled_from(["USD", "SU"]),
    usd_per_unit=st.none() | amounts,
    memory_per_core_bytes=sizes,
    memory_per_gpu_bytes=sizes,
    cores_per_gpu=st.integers(0, 64),
    whole_nodes_if_several=st.booleans(),
    minimum_s=amounts,
    minimum_units=amounts,
)
queues = st.builds(
    Queue,
    name=names,
    cores_per_node=st.integers(0, 512),
    memory_bytes_per_node=sizes,
    gpus_per_node=st.integers(1, 16),
    gpu_model=texts,
    nodes=st.none() | st.integers(4, 10_000),
    min_nodes=st.integers(1, 4),
    max_nodes=st.none() | st.integers(4, 10_000),
    max_s=st.none() | st.floats(1e-6, 1e12),
    shared_nodes=st.booleans(),
    interruptible=st.booleans(),
    start_s=amounts,
    charging=charges,
    source=sources,
)
sites = st.builds(
    CatalogSite,
    name=names,
    engine=st.sampled_from(Engine),
    queues=st.lists(queues, max_size=3, unique_by=lambda each: each.name).map(tuple),
    region=texts,
    grams_per_kwh=st.none() | amounts,
    power_usage_effectiveness=st.floats(1.0, 3.0),
    steward_site=texts,
    source=sources,
)
accelerators = st.builds(
    Accelerator,
    name=names,
    memory_bytes=sizes,
    memory_bytes_per_s=amounts,
    watts=amounts,
    flops=st.dictionaries(st.sampled_from(["fp64", "fp32", "bf16"]), amounts),
    aliases=st.lists(names, max_size=3).map(tuple),
    source=sources,
)
catalogs = st.builds(
    Catalog,
    sites=st.lists(sites, max_size=3, unique_by=lambda each: each.name).map(tuple),
    accelerators=st.lists(accelerators, max_size=3, unique_by=lambda each: each.name).map(tuple),
)


@given(catalogs)
def test_what_is_written_reads_back_as_it_was(catalog: Catalog) -> None:
    assert parse_catalog(catalog_text(catalog, heading="made by\na test")) == catalog


@given(st.integers(0, 10**24), st.floats(0, 1e20), st.floats(0, 1e12))
def test_amounts_are_written_without_rounding(size: int, number: float, time_s: float) -> None:
    assert read_size(size_text(size)) == size
    assert float(read_size(size_text(number))) == number
    assert read_tera(tera_text(number)) == number
    assert read_time(time_text(time_s)) == time_s


@given(catalogs)
def test_merging_a_catalogue_with_itself_changes_nothing(catalog: Catalog) -> None:
    package = CatalogPackage(name="p", catalog=catalog)
    once = merge([package])

    again = merge([CatalogPackage(name="p", catalog=once.catalog)] * 2)

    assert again.catalog == once.catalog
    assert again.conflicts == ()


@given(catalogs, catalogs)
def test_merging_keeps_every_site_queue_and_accelerator(one: Catalog, two: Catalog) -> None:
    merged = merge(
        [CatalogPackage(name="one", catalog=one), CatalogPackage(name="two", catalog=two)]
    ).catalog

    for given_ in (one, two):
        for site in given_.sites:
            kept = {queue.name for queue in merged.site(site.name).queues}
            assert {queue.name for queue in site.queues} <= kept
    for site in two.sites:  # the later wins
        assert set(site.queues) <= set(merged.site(site.name).queues)
    assert {each.name for each in merged.accelerators} == {
        each.name for each in (*one.accelerators, *two.accelerators)
    }


def package(name: str, *sites: CatalogSite, gpus: tuple[Accelerator, ...] = ()) -> CatalogPackage:
    return CatalogPackage(name=name, catalog=Catalog(sites=sites, accelerators=gpus))


def site(**changes: Any) -> CatalogSite:
    values: dict[str, Any] = {"name": "s", "engine": Engine.SLURM, "queues": ()}
    return CatalogSite(**(values | changes))


def gpu(name: str, *aliases: str, watts: float = 1.0) -> Accelerator:
    return Accelerator(
        name=name, memory_bytes=1, memory_bytes_per_s=1.0, watts=watts, flops={}, aliases=aliases
    )


def test_the_later_package_wins_and_the_difference_is_reported() -> None:
    old = Queue(name="q", cores_per_node=4, memory_bytes_per_node=0)
    new = replace(old, cores_per_node=8)
    first = package("first", site(queues=(old,), region="us", grams_per_kwh=400.0))
    second = package("second", site(queues=(new,), grams_per_kwh=300.0, engine=Engine.LOCAL))

    merged = merge([first, second])

    assert merged.catalog.site("s") == site(
        queues=(new,), region="us", grams_per_kwh=300.0, engine=Engine.LOCAL
    )
    assert merged.origins == {"s": "first, second"}
    assert [str(each) for each in merged.conflicts] == [
        "engine of site s is in first as well; that of second counts",
        "grams_per_kwh of site s is in first as well; that of second counts",
        "queue s/q is in first as well; that of second counts",
    ]


def test_a_package_may_add_what_another_left_open() -> None:
    first = package("first", site())
    second = package("second", site(grams_per_kwh=300.0))

    merged = merge([first, second])

    assert merged.catalog.site("s").grams_per_kwh == 300.0
    assert merged.conflicts == ()


def test_an_alias_means_one_accelerator() -> None:
    first = package("first", gpus=(gpu("A100", "a-card", "B200"), gpu("L4", watts=70.0)))
    second = package("second", gpus=(gpu("B200", "A-Card"), gpu("L4", watts=72.0)))

    merged = merge([first, second])

    found = {name: merged.catalog.accelerator(name) for name in ("a-card", "B200", "L4")}
    assert {name: each.name for name, each in found.items() if each} == {
        "a-card": "B200",
        "B200": "B200",
        "L4": "L4",
    }
    assert [each.about for each in merged.conflicts] == [
        "accelerator L4",
        "'a-card', an alias of A100 and of B200,",
        "'B200', an alias of A100 and a name,",
    ]
