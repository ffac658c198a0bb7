"""Published tables of prices, sites, GPUs and carbon become values of the catalogue."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.clients.catalogs import (
    GpuNames,
    carbon_sites,
    read_carbon,
    read_gpus,
    read_prices,
    read_sites,
)
from steward.decide.planning.charges import charge
from steward.errors import StewardError
from steward.model.planning.catalog import Accelerator, Basis, Catalog, Source
from steward.store.catalog import builtin_file, catalog_text, parse_catalog, read_packages

SOURCE = Source(text="a page", as_of="2026-08-22")
PRICES = (
    "cloud,instance_type,accelerator,acc_count,gpu_mem_mib,vcpus,mem_gib,region,"
    "usd_per_hour,spot_usd_per_hour,zones\n"
)
QUEUES = (
    "site,cluster,queue,min_nodes,max_nodes,max_hours,cores_per_node,gpus_per_node,gpu,"
    "mem_gb_per_node,node_sharing,charge_unit,charge_rate,charge_basis,as_of,source\n"
)
DATA = Path(os.environ.get("STEWARD_DATA", Path("..", "shared", "data"))) / "catalog"


def known() -> tuple[Accelerator, ...]:
    (package,) = read_packages([builtin_file()])
    return package.catalog.accelerators


def names() -> GpuNames:
    return GpuNames(known())


# -- names of GPUs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "memory_mib", "gpus", "found"),
    [
        ("H100-SXM", None, 1, "H100-SXM5-80GB"),
        ("A100", 40960, 1, "A100-SXM4-40GB"),
        ("A100", 81920, 1, "A100-SXM4-80GB"),
        ("V100", 32768, 1, "V100-SXM2-32GB"),
        ("RTX 4090", None, 1, "RTX4090"),
        ("H200", 144384, 8, "H200-SXM-141GB"),
        ("H200", 8 * 143771, 8, "H200-SXM-141GB"),  # some write the memory of all of them
        ("NVIDIA-A100-SXM4-80GB", None, 1, "A100-SXM4-80GB"),
        ("", None, 0, ""),
    ],
)
def test_gpus_are_known_by_what_clouds_and_drivers_call_them(
    text: str, memory_mib: int | None, gpus: int, found: str
) -> None:
    memory_bytes = None if memory_mib is None else memory_mib * 2**20

    assert names().name(text, memory_bytes, gpus=gpus) == found


def test_unknown_gpus_keep_their_name_and_are_listed() -> None:
    found = names()

    assert found.name("Inferentia") == "Inferentia"
    (note,) = found.note()
    assert "called Inferentia:" in note
    assert names().note() == ()


# -- prices --------------------------------------------------------------------------------------


def test_an_instance_becomes_a_queue_and_another_for_its_spot_price() -> None:
    rows = PRICES + "aws,p5.48xlarge,H100,8.0,81920.0,192.0,2048.0,us-east-1,55.04,20.5,2\n"
    carbon = read_carbon(
        "provider,region,g_co2_per_kwh,pue\naws,us-east-1,380.0,1.15\n", where="carbon"
    )

    found = read_prices(rows, source=SOURCE, names=names(), carbon=carbon, where="prices")

    (site,) = found.sites
    demand, spot = site.queues
    assert (site.name, site.grams_per_kwh, site.power_usage_effectiveness) == (
        "aws-us-east-1",
        380.0,
        1.15,
    )
    assert (demand.name, demand.gpu_model, demand.gpus_per_node) == (
        "p5.48xlarge",
        "H100-SXM5-80GB",
        8,
    )
    assert demand.memory_bytes_per_node == 2048 * 2**30
    assert (spot.name, spot.submit_as, spot.interruptible) == (
        "p5.48xlarge-spot",
        "p5.48xlarge",
        True,
    )
    assert charge(demand, nodes=1, cores=1, gpus=1, run_s=3600.0).usd == 55.04
    assert charge(spot, nodes=1, cores=1, gpus=1, run_s=1800.0).usd == 10.25
    assert demand.source == SOURCE


def test_what_is_no_price_is_left_out_and_counted() -> None:
    rows = (
        PRICES
        + "mithril,a100,A100,1.0,81920.0,26.0,190.0,x,0.01,0.01,1\n"
        + "aws,g6f.large,L4,0.125,2861.0,2.0,8.0,us-east-1,0.2,,1\n"
        + "aws,nothing,L4,1.0,,2.0,8.0,us-east-1,,,1\n"
        + "aws,free,L4,1.0,,2.0,8.0,us-east-1,0,,1\n"
    )

    found = read_prices(rows, source=SOURCE, names=names(), where="prices")

    assert found.sites == ()
    assert found.notes == (
        "1 rows left out: floors of auctions at mithril, not prices",
        "2 rows left out: no price",
        "1 rows left out: parts of a GPU",
    )


def test_the_cheapest_of_two_rows_counts_and_types_of_one_name_stay_apart() -> None:
    rows = (
        PRICES
        + "c,a,L4,1.0,,2.0,8.0,r,2.0,,1\nc,a,L4,1.0,,2.0,8.0,r,1.0,,1\n"
        + "c,vm,tpu-v5,1.0,,,,r,3.0,,1\nc,vm,tpu-v6,1.0,,,,r,4.0,,1\n"
    )

    (site,) = read_prices(rows, source=SOURCE, names=names(), where="prices").sites

    assert {queue.name: queue.charging.rate for queue in site.queues} == {
        "a": 1.0,
        "vm": 3.0,
        "vm tpu-v6": 4.0,
    }
    assert site.queue("vm tpu-v6").submit_as == "vm"
    assert site.queue("vm").cores_per_node == 0  # unknown


def test_rows_without_accelerators_are_instances_of_cores() -> None:
    rows = "cloud,instance_type,vcpus,mem_gib,region,usd_per_hour\naws,a1,8.0,16.0,r,0.2\n"

    (site,) = read_prices(rows, source=SOURCE, names=names(), where="prices").sites

    assert (site.queues[0].cores_per_node, site.queues[0].gpus_per_node) == (8, 0)


# -- sites ---------------------------------------------------------------------------------------


def queue_of(rule: str, *, gpus: int = 4, sharing: str = "yes", rate: str = "1") -> str:
    node = f"64,{gpus},{'A100-SXM4-40GB' if gpus else ''},250,{sharing},SU,{rate}"
    return f'{QUEUES}NCSA,delta,q,1,,48,{node},"{rule}",2025-05-28,docs\n'


def test_delta_charges_gpus_with_their_share_of_cores_and_memory() -> None:
    text = queue_of("GPU-hour x factor (16 cores or 62.5/250 GB per GPU)")

    (site,) = read_sites(text, source=SOURCE, names=names(), where="f").sites

    (queue,) = site.queues
    assert site.name == "ncsa-delta"
    assert (queue.charging.basis, queue.charging.cores_per_gpu) == (Basis.GPU_S, 16)
    assert queue.charging.memory_per_gpu_bytes == 62_500_000_000
    assert queue.max_s == 48 * 3600.0
    assert queue.source == Source(text="docs", as_of="2025-05-28")


def test_osc_charges_cores_their_memory_and_gpus_by_a_rate_given_apart() -> None:
    text = queue_of(
        "max(cores, mem/default)-core-hour + GPU-hour (see README)",
        sharing="yes (multi-node jobs: whole nodes)",
        rate="0.003",
    ).replace(",SU,", ",USD,")

    with_rate = read_sites(text, source=SOURCE, names=names(), gpu_rate=0.09, where="f")
    without = read_sites(text, source=SOURCE, names=names(), where="f")

    rule = with_rate.sites[0].queues[0].charging
    assert (rule.rate, rule.gpu_rate, rule.whole_nodes_if_several) == (0.003, 0.09, True)
    assert rule.memory_per_core_bytes == 250 * 10**9 // 64
    assert with_rate.notes == ()
    assert "ncsa-delta/q: give it by --gpu-rate" in without.notes[0]


def test_a_rule_that_is_not_known_is_a_fault_with_those_that_are() -> None:
    with pytest.raises(StewardError, match="row 2: charge_basis is 'by the moon'; known: node"):
        read_sites(queue_of("by the moon"), source=SOURCE, names=names(), where="f")


def test_contradictions_and_bad_days_of_rows_are_faults_with_their_row() -> None:
    text = queue_of("node-hour").replace("q,1,,48", "q,3,2,48").replace("2025-05-28", "May 2025")
    text += text.splitlines()[1].replace("q,3,2", "q,1,2").replace("May 2025", "2025-05-28") + "\n"
    text += text.splitlines()[2] + "\n"

    with pytest.raises(StewardError) as caught:
        read_sites(text, source=SOURCE, names=names(), where="f")

    assert "row 2: as_of: 'May 2025' is not a day" in caught.value.problem
    assert "row 2: min_nodes is 3, and max_nodes is 2" in caught.value.problem
    assert "row 4: a second row for 'ncsa-delta/q'" in caught.value.problem


# -- GPUs and carbon -----------------------------------------------------------------------------


def test_accelerators_without_power_or_memory_are_left_out_by_name() -> None:
    text = "name,mem_gb,mem_bw_gbs,tdp_w,fp32_tflops,sources\nX1,8,100,70,8.1,N\nX2,8,,70,1,\n"

    found = read_gpus(text, source=SOURCE, where="f")

    assert found.accelerators == (
        Accelerator(
            name="X1",
            memory_bytes=8 * 10**9,
            memory_bytes_per_s=100e9,
            watts=70.0,
            flops={"fp32": 8.1e12},
            source=Source(text="a page (N)", as_of="2026-08-22"),
        ),
    )
    assert found.notes == ("memory, bandwidth or power is blank, left out: X2",)


def test_rows_of_gpus_without_a_name_or_twice_are_faults() -> None:
    text = "name,mem_gb,mem_bw_gbs,tdp_w\nX,1,1,1\nX,1,1,1\n,1,1,1\n"

    with pytest.raises(StewardError, match="2 faults"):
        read_gpus(text, source=SOURCE, where="f")


@pytest.mark.parametrize(
    ("text", "key", "grams"),
    [
        ("provider,region,g_co2_per_kwh\naws,us-east-2,400\n", "aws-us-east-2", 400.0),
        ("iso,year,g_co2_per_kwh\nDEU,2022,354.0\n", "DEU", 354.0),
        ("state,code,g_co2_per_kwh\nohio,OH,600\nnone,XX,\n", "OH", 600.0),
    ],
)
def test_carbon_is_read_by_region_country_and_state(text: str, key: str, grams: float) -> None:
    found = read_carbon(text, where="f")

    assert {name: each.grams_per_kwh for name, each in found.items()} == {key: grams}


def test_cloud_regions_become_sites_to_merge_with_their_prices() -> None:
    text = "provider,region,g_co2_per_kwh,pue,source\naws,r,400,1.2,cc\ngcp,s,1,,cc\n"

    sites = carbon_sites(read_carbon(text, where="f"), source=SOURCE).sites

    assert [(each.name, each.power_usage_effectiveness) for each in sites] == [
        ("aws-r", 1.2),
        ("gcp-s", 1.4),
    ]
    assert sites[0].source.text == "a page, cc"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "columns are missing: g_co2_per_kwh"),
        ("a,b\n1,2\n", "columns are missing"),
        ("g_co2_per_kwh\n1\n", "no column names a place"),
        ("iso,g_co2_per_kwh\nA,-1\n", "row 2: g_co2_per_kwh is '-1'"),
        ("iso,g_co2_per_kwh\nA,nan\n", "row 2: g_co2_per_kwh is 'nan'"),
        ("iso,g_co2_per_kwh\nA,lots\n", "row 2: g_co2_per_kwh is 'lots'"),
        ("iso,g_co2_per_kwh\nA,1,2\n", "row 2: 3 values for 2 columns"),
        ("iso,g_co2_per_kwh,pue\nA,1,0.5\n", "row 2: pue is 0.5"),
        ('iso,g_co2_per_kwh\n"A,1\n', "this is no CSV"),
    ],
)
def test_broken_tables_are_refused_with_their_rows(text: str, says: str) -> None:
    with pytest.raises(StewardError) as caught:
        read_carbon(text, where="carbon.csv")

    assert says in caught.value.problem
    assert caught.value.where == "carbon.csv"
    assert caught.value.hint


def test_many_faults_are_cut_to_a_screen() -> None:
    text = "iso,g_co2_per_kwh\n" + "A,x\n" * 100

    with pytest.raises(StewardError) as caught:
        read_carbon(text, where="f")

    assert caught.value.problem.startswith("100 faults\n")
    assert caught.value.problem.endswith("and 80 more")


@given(st.text(max_size=300))
def test_any_text_is_a_table_or_gets_an_error(text: str) -> None:
    for read in (
        lambda: read_prices(PRICES + text, source=SOURCE, names=GpuNames(()), where="f"),
        lambda: read_sites(QUEUES + text, source=SOURCE, names=GpuNames(()), where="f"),
        lambda: read_carbon(text, where="f"),
        lambda: read_gpus(text, source=SOURCE, where="f"),
    ):
        try:
            read()
        except StewardError as fault:
            assert fault.where == "f"


# -- the shared files ----------------------------------------------------------------------------


def shared(path: str) -> str:
    return (DATA / path).read_text(encoding="utf-8")


@pytest.mark.data
def test_the_shared_sites_give_the_published_charges() -> None:
    found = read_sites(
        shared("hpc_sites/queues.csv"), source=SOURCE, names=names(), gpu_rate=0.09, where="f"
    )
    catalog = Catalog(sites=found.sites)

    assert sum(len(site.queues) for site in found.sites) == 62
    owens = catalog.site("osc-owens")
    cpu = charge(owens.queue("serial"), nodes=1, cores=28, gpus=0, run_s=9.2 * 3600)
    gpu = charge(owens.queue("gpuserial"), nodes=1, cores=28, gpus=1, run_s=2.4 * 3600)
    assert (cpu.usd, gpu.usd) == (pytest.approx(0.7728), pytest.approx(0.4176))
    h100 = catalog.site("tacc-stampede3").queue("h100")
    assert charge(h100, nodes=2, cores=1, gpus=8, run_s=3600.0).units == 8.0  # 4 SU per node-hour
    a100 = catalog.site("ncsa-delta").queue("gpuA100x4")
    assert charge(a100, nodes=1, cores=64, gpus=4, run_s=3600.0).units == 4.0
    cpus = catalog.site("ncsa-delta").queue("cpu")
    assert charge(cpus, nodes=1, cores=128, gpus=0, run_s=3600.0).units == 128.0


@pytest.mark.data
def test_the_shared_prices_are_read_whole_and_written_back() -> None:
    found = read_prices(
        shared("cloud_prices/gpu_instances.csv"), source=SOURCE, names=names(), where="f"
    )

    catalog = Catalog(sites=found.sites)
    assert parse_catalog(catalog_text(catalog)) == catalog
    assert len(found.sites) > 200
    assert "6 rows left out: floors of auctions at mithril, not prices" in found.notes
    hourly = [
        queue.charging.rate / queue.gpus_per_node
        for site in found.sites
        for queue in site.queues
        if queue.gpu_model.startswith("H100") and not queue.interruptible
    ]
    assert 1.0 < min(hourly) < 1.5  # Hyperbolic, 1.29
    assert not [site.name for site in found.sites if site.name.startswith("mithril")]


@pytest.mark.data
def test_the_shared_cpu_prices_gpus_and_carbon_are_read_whole() -> None:
    prices = read_prices(
        shared("cloud_prices/cpu_instances.csv"), source=SOURCE, names=names(), where="f"
    )
    gpus = read_gpus(shared("gpu_specs/gpus.csv"), source=SOURCE, where="f")

    assert sum(len(site.queues) for site in prices.sites) > 8946
    assert len(gpus.accelerators) == 47
    assert len(read_carbon(shared("carbon/cloud_regions.csv"), where="f")) == 101
    assert read_carbon(shared("carbon/countries.csv"), where="f")["DEU"].grams_per_kwh > 300
    assert read_carbon(shared("carbon/us_states_2016.csv"), where="f")["OH"].grams_per_kwh > 500


@pytest.mark.data
def test_our_own_table_agrees_with_the_shared_one() -> None:
    theirs = {
        each.name: each
        for each in read_gpus(shared("gpu_specs/gpus.csv"), source=SOURCE, where="f").accelerators
    }

    for ours in known():
        other = theirs[ours.name]
        assert ours.memory_bytes == other.memory_bytes
        assert ours.memory_bytes_per_s == pytest.approx(other.memory_bytes_per_s, rel=0.01)
        for name in {"fp64", "fp32", "bf16"} & set(ours.flops):
            assert ours.flops[name] == pytest.approx(other.flops[name], rel=0.07), ours.name
