"""`steward estimate catalog`: sites by hand, imported, checked, shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from told import steward

RECORDED = Path(__file__).parents[1] / "data" / "slurm-22.05"
OLD = """\
sites:
  - name: pitzer
    engine: slurm
    grams_per_kwh: 480
    steward_site: osc
    source: {text: osc.edu, as_of: 2019-08-12}
    queues:
      - name: gpu
        cores_per_node: 40
        memory_per_node: 160 GB
        gpus_per_node: 2
        gpu_model: V100
        max_nodes: 4
        max_time: 96 h
        charging: {basis: core-hour, rate: 0.003, gpu_rate: 0.09}
      - {name: free, shared_nodes: no, interruptible: yes}
"""
PRICES = """\
cloud,instance_type,accelerator,acc_count,gpu_mem_mib,vcpus,mem_gib,region,usd_per_hour,spot_usd_per_hour
aws,p5,H100,8.0,81920.0,192.0,2048.0,us-east-1,55.04,20.5
aws,p4,A100,8.0,40960.0,96.0,1152.0,eu-west-1,32.77,
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a configuration that names one catalogue file."""
    (tmp_path / "site.yaml").write_text(OLD)
    (tmp_path / "steward.toml").write_text(
        f'[store]\nfolder = "{tmp_path / "store"}"\n'
        f'[planning]\ncatalog = ["{tmp_path / "site.yaml"}"]\n'
    )
    return tmp_path


def test_sites_are_listed_and_old_facts_are_marked(folder: Path) -> None:
    answer = steward("estimate", "catalog", "list", "--config", folder / "steward.toml")

    assert answer.code == 0
    assert "pitzer" in answer.out
    assert "2019-08-12 (old)" in answer.out
    assert "older than a year" in answer.err


def test_the_list_as_json_says_what_is_old(folder: Path) -> None:
    (site,) = steward(
        "estimate", "catalog", "list", "--config", folder / "steward.toml", "--json"
    ).json

    assert (site["name"], site["old"], site["as_of"]) == ("pitzer", True, "2019-08-12")
    assert site["queues"] == ["gpu", "free"]


def test_without_a_catalogue_there_are_accelerators_and_a_hint(tmp_path: Path) -> None:
    sites = steward("estimate", "catalog", "list", "--data", tmp_path)
    cards = steward("estimate", "catalog", "list", "--accelerators", "--data", tmp_path)
    as_json = steward("estimate", "catalog", "list", "--accelerators", "--data", tmp_path, "--json")

    assert "steward estimate catalog import" in sites.err
    assert "H100-SXM5-80GB" in cards.out
    assert len(as_json.json) >= 15


def test_a_site_is_shown_with_limits_and_charges_and_their_age(folder: Path) -> None:
    answer = steward("estimate", "catalog", "show", "pitzer", "--config", folder / "steward.toml")

    assert answer.code == 0
    assert "0.003 USD/core-hour + 0.09 USD/gpu-hour" in answer.out
    assert "480 g/kWh" in answer.out
    assert "submitted to as the site 'osc'" in answer.out
    assert "? cores, ? GB, whole nodes, interruptible" in answer.out
    assert "limits and prices of pitzer/gpu are of 2019-08-12" in answer.err
    assert "1 more queues are as old" in answer.err


def test_a_site_as_json_carries_the_notes(folder: Path) -> None:
    shown = ("show", "pitzer", "--queue", "g*", "--config", folder / "steward.toml", "--json")
    found = steward("estimate", "catalog", *shown).json

    assert [queue["name"] for queue in found["queues"]] == ["gpu"]
    assert found["queues"][0]["max_s"] == 96 * 3600.0
    assert "2019-08-12" in found["notes"][0]


@pytest.mark.parametrize(
    ("args", "problem", "hint"),
    [
        (("show", "pitzr"), "there is no site 'pitzr'", "did you mean 'pitzer'?"),
        (("show", "pitzer", "--queue", "x*"), "no queue is called 'x*'", "gpu, free"),
        (("import", "slrum", "f"), "no kind of catalogue called 'slrum'", "did you mean 'slurm'?"),
        (("import", "prices", "/no/such"), "cannot be read: No such file", "name a file"),
        (("import", "slurm", RECORDED / "scontrol-nodes.txt"), "no name", "--site NAME"),
        (("import", "prices", RECORDED / "sinfo.json"), "columns are missing", "CSV"),
        (
            ("import", "gpus", RECORDED / "sinfo.json", RECORDED / "sinfo.json"),
            "takes one file",
            "one by one",
        ),
        (("verify", "/no/such"), "there is no such file", "steward estimate catalog pack"),
        (("pack", "/no/such"), "cannot be read", "docs/catalog.md"),
        (("remove", "nobody"), "no package 'nobody'", "steward estimate catalog packages"),
    ],
)
def test_mistakes_are_told_with_what_was_possible(
    folder: Path, args: tuple[object, ...], problem: str, hint: str
) -> None:
    settled = () if args[0] == "pack" else ("--config", folder / "steward.toml")

    answer = steward("estimate", "catalog", *args, *settled)

    assert answer.code == 2
    assert problem in answer.err
    assert hint in answer.err


def test_a_faulty_catalogue_of_the_configuration_stops_with_its_place(folder: Path) -> None:
    (folder / "site.yaml").write_text("sites: [{name: a, engine: slurmm}]")

    answer = steward("estimate", "catalog", "list", "--config", folder / "steward.toml")

    assert answer.code == 2
    assert "site.yaml:1:27" in answer.err
    assert "did you mean 'slurm'?" in answer.err


def test_a_broken_catalogue_can_be_imported_anew(folder: Path) -> None:
    (folder / "site.yaml").write_text("sites: 3")
    files = (RECORDED / "scontrol-partitions.txt", RECORDED / "scontrol-nodes.txt")
    given = ("--site", "bed", "--out", folder / "site.yaml", "--config", folder / "steward.toml")

    made = steward("estimate", "catalog", "import", "slurm", *files, *given)

    assert made.code == 0
    assert "the catalogue is not used to name GPUs" in made.err
    assert steward("estimate", "catalog", "check", folder / "site.yaml").code == 0


def test_nodes_of_a_kubernetes_are_imported_from_a_file(folder: Path) -> None:
    labels = '{"nvidia.com/gpu.product": "NVIDIA-H200", "topology.kubernetes.io/region": "eu"}'
    has = '{"cpu": "64", "memory": "1024Gi", "nvidia.com/gpu": "8"}'
    meta = f'{{"uid": "1", "name": "n1", "labels": {labels}}}'
    node = f'{{"kind": "Node", "metadata": {meta}, "status": {{"allocatable": {has}}}}}'
    (folder / "nodes.json").write_text(f'{{"items": [{node}]}}')

    answer = steward(
        "estimate", "catalog", "import", "kubernetes", folder / "nodes.json", "--site", "kube"
    )

    assert answer.code == 0
    assert "gpu_model: H200-SXM-141GB" in answer.out
    assert "region: eu" in answer.out
    assert "memory_per_node: 1024 GiB" in answer.out


def test_files_are_checked_whole(folder: Path) -> None:
    (folder / "bad.yaml").write_text("sites: [{name: a, engine: x}, {engine: slurm, nome: b}]")

    good = steward("estimate", "catalog", "check", folder / "site.yaml")
    bad = steward("estimate", "catalog", "check", folder / "bad.yaml", "--json")

    assert good.code == 0
    assert "1 sites with 2 queues and 0 accelerators: no fault" in good.out
    assert "2019-08-12" in good.err
    assert bad.code == 1
    assert len(bad.json["faults"]) == 3
    assert all(each["where"].startswith(str(folder)) for each in bad.json["faults"])
    lines = steward("estimate", "catalog", "check", folder / "bad.yaml")
    assert "3 faults" in lines.out


def test_unknown_gpus_of_a_file_are_told(folder: Path) -> None:
    (folder / "site.yaml").write_text(OLD.replace("V100", "Z9000"))

    answer = steward("estimate", "catalog", "check", folder / "site.yaml")

    assert answer.code == 0
    assert "no accelerator is called Z9000" in answer.err


def test_what_slurm_printed_becomes_a_site_that_can_be_used(folder: Path) -> None:
    files = (RECORDED / "scontrol-partitions.txt", RECORDED / "scontrol-nodes.txt")
    out = folder / "bed.yaml"

    made = steward("estimate", "catalog", "import", "slurm", *files, "--site", "bed", "--out", out)
    (folder / "steward.toml").write_text(f'[planning]\ncatalog = ["{out}"]\n')
    shown = steward("estimate", "catalog", "show", "bed", "--config", folder / "steward.toml")

    assert made.code == 0
    assert "1 sites, 5 queues" in made.out
    assert "'a100' is taken for A100-SXM4-40GB" in made.err
    assert "8 x A100-SXM4-40GB" in shown.out


def test_prices_are_imported_by_pattern_with_carbon_and_a_day(folder: Path) -> None:
    (folder / "prices.csv").write_text(PRICES)
    (folder / "carbon.csv").write_text(
        "provider,region,g_co2_per_kwh,pue\naws,us-east-1,380,1.1\naws,eu-west-1,290,1.1\n"
    )
    given = (folder / "prices.csv", "--carbon", folder / "carbon.csv", "--as-of", "2026-08-22")

    answer = steward("estimate", "catalog", "import", "prices", *given, "--site", "aws-us-*")

    assert answer.code == 0
    assert "name: aws-us-east-1" in answer.out
    assert "grams_per_kwh: 380" in answer.out
    assert "aws-eu-west-1" not in answer.out
    assert "as_of: '2026-08-22'" in answer.out


def test_undated_prices_and_unknown_patterns_are_told(folder: Path) -> None:
    (folder / "prices.csv").write_text(PRICES)
    out = ("--out", folder / "out.yaml", "--json")

    undated = steward("estimate", "catalog", "import", "prices", folder / "prices.csv", *out)
    nobody = steward(
        "estimate", "catalog", "import", "prices", folder / "prices.csv", "--site", "gcp-*"
    )
    wrong = steward(
        "estimate", "catalog", "import", "prices", folder / "prices.csv", "--as-of", "May"
    )

    assert undated.json["sites"] == 2
    assert undated.json["notes"] == ["as of when it holds is not known: --as-of"]
    assert nobody.code == 2
    assert "it has: aws-us-east-1, aws-eu-west-1" in nobody.err
    assert wrong.code == 2
    assert "'May' is not a day" in wrong.err


def test_the_region_of_a_site_is_looked_up_in_a_table_of_states(folder: Path) -> None:
    (folder / "states.csv").write_text("state,code,g_co2_per_kwh\nohio,OH,600\n")
    given = (RECORDED / "scontrol-nodes.txt", "--site", "osc", "--carbon", folder / "states.csv")

    found = steward("estimate", "catalog", "import", "slurm", *given, "--region", "OH")
    wrong = steward("estimate", "catalog", "import", "slurm", *given, "--region", "XX")

    assert "grams_per_kwh: 600.0" in found.out
    assert wrong.code == 2
    assert "no carbon is known for 'XX'" in wrong.err


def test_carbon_of_countries_needs_a_site_to_belong_to(folder: Path) -> None:
    (folder / "states.csv").write_text("state,code,g_co2_per_kwh\nohio,OH,600\n")
    (folder / "regions.csv").write_text("provider,region,g_co2_per_kwh\naws,x,600\n")

    wrong = steward("estimate", "catalog", "import", "carbon", folder / "states.csv")
    right = steward("estimate", "catalog", "import", "carbon", folder / "regions.csv")

    assert wrong.code == 2
    assert "--carbon FILE --region KEY" in wrong.err
    assert "name: aws-x" in right.out


def test_catalogues_are_shared_as_signed_packages(folder: Path) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "site.yaml").write_text(OLD.replace("pitzer", "theirs"))
    package, config = folder / "p.tar.gz", ("--config", folder / "steward.toml")

    packed = steward(
        "estimate", "catalog", "pack", folder / "shared", "--new-key", folder / "key",
        "--out", package, "--json",
    )  # fmt: skip
    key = packed.json["signed_by"]
    distrusted = steward("estimate", "catalog", "verify", package, *config)
    verified = steward("estimate", "catalog", "verify", package, "--trust", key, *config)
    before = steward("estimate", "catalog", "show", "theirs", *config)
    installed = steward("estimate", "catalog", "install", package, "--trust", key, *config)
    after = steward("estimate", "catalog", "show", "theirs", *config)
    listed = steward("estimate", "catalog", "packages", *config, "--json")
    removed = steward("estimate", "catalog", "remove", "shared", *config, "--json")

    assert packed.json["entries"] == 1
    assert distrusted.code == 2
    assert "not trusted here" in distrusted.err
    assert "would be put into use" in verified.out
    assert before.code == 2
    assert "is in use; signed with key" in installed.out
    assert after.code == 0
    assert [each["name"] for each in listed.json["packages"]] == ["shared"]
    assert removed.json == {"name": "shared", "version": "0.1.0", "entries": 1}


def test_a_package_of_catalogues_is_none_of_rules_and_changed_bytes_are_noticed(
    folder: Path,
) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "site.yaml").write_text(OLD)
    package, config = folder / "p.tar.gz", ("--config", folder / "steward.toml")
    steward("estimate", "catalog", "pack", folder / "shared", "--out", package)

    as_rules = steward("rules", "install", package, "--unsigned", *config)
    package.write_bytes(package.read_bytes()[:-40])
    cut = steward("estimate", "catalog", "verify", package, "--unsigned", *config)

    assert as_rules.code == 2
    assert "this is a package of kind 'catalog', not 'rules'" in as_rules.err
    assert "`steward estimate catalog install` takes it" in as_rules.err
    assert cut.code == 2


def test_a_folder_with_faults_is_not_packed(folder: Path) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "site.yaml").write_text("sites: [{name: a, engine: x}]")

    answer = steward("estimate", "catalog", "pack", folder / "shared", "--out", folder / "p.tar.gz")

    assert answer.code == 2
    assert not (folder / "p.tar.gz").exists()
