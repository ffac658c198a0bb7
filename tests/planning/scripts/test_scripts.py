"""Scripts of a plan: whole, quoted, and as their schedulers take them."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from plans import HOUR_S, NOW_S, about, catalog_of, choice, exactly, queue, request, site, way
from steward.clients.kubernetes.batch_job import batch_job_from
from steward.decide.planning.planner import plan
from steward.errors import StewardError
from steward.model.planning.catalog import Catalog, CatalogSite, Engine
from steward.model.planning.outlook import Outlook
from steward.planning.scripts.folder import scripts_of, write_scripts
from steward.planning.scripts.job import Program, Script

HOSTILE = 'it\'s $HOME `id` "x"; rm -rf /\n#'
TRAIN = Program(argv=("python", "train.py", HOSTILE), image="pytorch:2.9")
TEXT = {"type": "string", "minLength": 1}
RESOURCES = {
    "type": "object",
    "additionalProperties": {"type": "string", "pattern": "^[0-9]+(Mi)?$"},
}
# Of `batch/v1`, the fields that are written here; no other may be.
JOB: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "batch/v1"},
        "kind": {"const": "Job"},
        "metadata": {
            "additionalProperties": False,
            "properties": {
                "generateName": {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?-$", "maxLength": 58}
            },
        },
        "spec": {
            "additionalProperties": False,
            "required": ["template"],
            "properties": {
                "parallelism": {"type": "integer", "minimum": 1},
                "completions": {"type": "integer", "minimum": 1},
                "completionMode": {"const": "Indexed"},
                "backoffLimit": {"type": "integer", "minimum": 0},
                "podFailurePolicy": {"type": "object"},
                "template": {
                    "additionalProperties": False,
                    "properties": {
                        "spec": {
                            "additionalProperties": False,
                            "properties": {
                                "restartPolicy": {"const": "Never"},
                                "terminationGracePeriodSeconds": {"type": "integer", "minimum": 0},
                                "affinity": {"type": "object"},
                                "activeDeadlineSeconds": {"type": "integer", "minimum": 1},
                                "containers": {
                                    "type": "array",
                                    "minItems": 1,
                                    "items": {
                                        "additionalProperties": False,
                                        "required": ["name", "image", "command"],
                                        "properties": {
                                            "name": TEXT,
                                            "image": TEXT,
                                            "command": {
                                                "type": "array",
                                                "items": {"type": "string"},
                                            },
                                            "workingDir": TEXT,
                                            "resources": {
                                                "additionalProperties": False,
                                                "properties": {
                                                    "requests": RESOURCES,
                                                    "limits": RESOURCES,
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                        }
                    },
                },
            },
        },
    },
}


def scripts(
    at: CatalogSite, program: Program = TRAIN, *, outlook: Outlook | None = None, **but: Any
) -> tuple[Script, ...]:
    facts = {"ways": (way(run_s=about(2.0)),), "cores": 8, "memory_bytes": 16 * 10**9}
    catalog = catalog_of(at)
    asked = request(**(facts | but))
    return scripts_of(plan(asked, catalog, outlook or Outlook()), catalog, program, most=20)


def is_shell(text: str) -> bool:
    found = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    return found.returncode == 0


def options(text: str) -> dict[str, str]:
    lines = [each for each in text.splitlines() if each.startswith("#SBATCH --")]
    pairs = (each.removeprefix("#SBATCH --").partition("=") for each in lines)
    return {name: value.strip('"') for name, _, value in pairs}


def test_a_batch_script_asks_for_what_was_planned() -> None:
    two_nodes = way(gpus=8, run_s=about(2.0))
    at = site("pitzer", queue("gpu-exp", max_s=24 * HOUR_S), engine=Engine.SLURM)

    (found,) = scripts(at, replace(TRAIN, account="PAS1", folder="/data/my job"), ways=(two_nodes,))

    asked = options(found.text)
    assert is_shell(found.text)
    assert asked["partition"] == "gpu-exp"
    assert asked["account"] == "PAS1"
    assert asked["chdir"] == "/data/my job"
    assert (asked["nodes"], asked["gpus-per-node"], asked["cpus-per-task"]) == ("2", "4", "8")
    assert asked["mem"] == "15259M"
    assert asked["time"] in ("3:17:00", "3:18:00")
    assert found.start == "sbatch 01-pitzer-gpu-exp.sbatch"
    assert shlex.quote(HOSTILE) in found.text


def test_a_chain_is_submitted_link_by_link_and_stops_when_its_work_is_done() -> None:
    at = site("pitzer", queue(max_s=4 * HOUR_S), engine=Engine.SLURM)
    long = way(run_s=exactly(10 * HOUR_S))

    batch, submit = scripts(at, ways=(long,), saves=True, save_s=30.0)

    assert is_shell(batch.text)
    assert is_shell(submit.text)
    assert options(batch.text)["time"] == "4:00:00"
    assert options(batch.text)["signal"] == "TERM@60"
    assert "for _ in $(seq 2 3); do" in submit.text
    assert "--dependency=afterany" in submit.text
    assert batch.start == ""
    assert submit.start == "bash 01-pitzer-gpu.submit.sh"
    assert 'if [ -e "$done_file" ]; then exit 0; fi' in batch.text


def test_submitting_a_chain_really_chains_its_jobs(tmp_path: Path) -> None:
    at = site("pitzer", queue(max_s=4 * HOUR_S), engine=Engine.SLURM)
    made = scripts(at, ways=(way(run_s=exactly(10 * HOUR_S)),), saves=True)
    write_scripts(made, tmp_path)
    program = tmp_path / "sbatch"
    program.write_text(f'#!/bin/bash\necho "$@" >> {tmp_path}/calls\nwc -l < {tmp_path}/calls\n')
    program.chmod(0o755)

    done = subprocess.run(
        ["bash", made[1].name],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )

    assert b"submitted 1\n" in done.stdout
    assert (tmp_path / "calls").read_text().splitlines() == [
        "--parsable 01-pitzer-gpu.sbatch",
        "--parsable --dependency=afterany:1 01-pitzer-gpu.sbatch",
        "--parsable --dependency=afterany:2 01-pitzer-gpu.sbatch",
    ]


def greener() -> Outlook:
    hours = {"de": [500.0] * 6 + [100.0] * 18}
    return Outlook(waits={"here": exactly(0.0)}, grams_by_hour=hours, hours_from_s=NOW_S)


@pytest.mark.parametrize("engine", [Engine.SLURM, Engine.KUBERNETES, Engine.LOCAL])
def test_a_later_start_is_kept(engine: Engine) -> None:
    found = scripts(site("here", region="de", engine=engine), outlook=greener())

    later_s = NOW_S + 6 * HOUR_S
    dated = [each for each in found if f"{later_s:.0f}" in each.text]
    assert len(dated) == 1
    assert is_shell(dated[0].text)
    assert dated[0].start.startswith("bash ")


def test_where_jobs_are_stopped_for_others_they_are_queued_again() -> None:
    at = site("here", queue(interruptible=True), engine=Engine.SLURM)

    (found,) = scripts(at, saves=True)

    assert "#SBATCH --requeue" in found.text
    assert options(found.text)["open-mode"] == "append"


def test_a_manifest_is_a_job_as_kubernetes_takes_it() -> None:
    at = site("lab", queue(max_s=8 * HOUR_S), engine=Engine.KUBERNETES)

    (found,) = scripts(at, replace(TRAIN, folder="/work"), name="Train: ResNet 50")

    raw = yaml.safe_load(found.text)
    assert [each.message for each in jsonschema_rs.validator_for(JOB).iter_errors(raw)] == []
    (container,) = raw["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == HOSTILE.replace("$", "$$")
    assert container["resources"]["limits"] == {"memory": "15259Mi", "nvidia.com/gpu": "1"}
    assert raw["metadata"]["generateName"] == "train-resnet-50-"
    assert found.start == "kubectl create -f 01-lab-gpu.yaml"
    given_by_server = {"metadata": {"name": "a", "namespace": "n", "uid": "u"}}
    job = batch_job_from({**raw, **given_by_server})
    assert job is not None
    assert job.ignores_evictions


def test_where_a_site_has_several_gpus_a_manifest_names_those_that_were_planned() -> None:
    alike = site("lab", queue("a"), queue("b"), engine=Engine.KUBERNETES)
    mixed = site("lab", queue("a"), queue("b", gpu_model="T4"), engine=Engine.KUBERNETES)

    def pod(at: CatalogSite) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(scripts(at)[0].text)["spec"]["template"]["spec"]
        return found

    assert "affinity" not in pod(alike)
    required = pod(mixed)["affinity"]["nodeAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A100", "a100-80gb"]}
    ]


def test_a_manifest_needs_an_image() -> None:
    with pytest.raises(StewardError, match="needs an image") as raised:
        scripts(site("lab", engine=Engine.KUBERNETES), Program(argv=("true",)))

    assert "--image" in raised.value.hint


def test_a_job_without_gpus_or_memory_asks_for_none() -> None:
    cpu = way(gpu_model="", gpus=0, run_s=about(1.0), watts=exactly(0.0))
    at = {"ways": (cpu,), "memory_bytes": 0}

    (batch,) = scripts(site("a", engine=Engine.SLURM), **at)
    (manifest,) = scripts(site("a", engine=Engine.KUBERNETES), **at)

    assert not {"gpus-per-node", "mem"} & options(batch.text).keys()
    resources = yaml.safe_load(manifest.text)["spec"]["template"]["spec"]["containers"][0]
    assert resources["resources"] == {"requests": {"cpu": "8"}}


def test_a_rented_instance_is_named_in_its_script() -> None:
    at = site("aws", queue("p4d spot", interruptible=True), engine=Engine.CLOUD, region="eu")

    (found,) = scripts(at, replace(TRAIN, folder="/data"), ways=(way(gpus=8),), saves=True)

    assert "2 x an interruptible instance of type p4d spot in eu" in found.text
    assert "cd /data\n" in found.text
    assert is_shell(found.text)


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1, max_size=3))
def test_whatever_the_command_is_the_shell_reads_it_back(argv: list[str]) -> None:
    argv = ["printf", "%s\\0", *argv]

    (found,) = scripts(site("here"), Program(argv=tuple(argv)))

    last = found.text.split("set -euo pipefail\n", 1)[1]
    assert shlex.split(last.removeprefix("exec ")) == argv


def test_the_local_script_really_runs_the_command(tmp_path: Path) -> None:
    made = scripts(site("here"), Program(argv=("printf", "%s", HOSTILE)))
    write_scripts(made, tmp_path / "new")

    done = subprocess.run([str(tmp_path / "new" / made[0].name)], capture_output=True, check=True)

    assert done.stdout.decode() == HOSTILE


def test_names_of_files_are_safe_and_in_the_order_of_the_plan() -> None:
    at = [site("../etc", queue("a b/c")), site("b", engine=Engine.SLURM, grams_per_kwh=1.0)]
    catalog: Catalog = catalog_of(*at)

    found = scripts_of(plan(request(), catalog), catalog, TRAIN, most=2)

    assert [each.name for each in found] == ["01-etc-a-b-c.sh", "02-b-gpu.sbatch"]


@pytest.mark.parametrize("partition", ['a"b', "a\nb"])
def test_a_partition_that_no_script_can_hold_is_refused(partition: str) -> None:
    with pytest.raises(StewardError, match="cannot be written"):
        scripts(site("here", queue(partition), engine=Engine.SLURM))


def test_a_command_is_needed_and_has_no_null_characters() -> None:
    with pytest.raises(StewardError, match="no command"):
        Program(argv=())
    with pytest.raises(StewardError, match="null character"):
        Program(argv=("a\0b",))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StewardError, match="scripts cannot be written"):
        write_scripts((Script(name="a.sh", text=""),), tmp_path / "file")


def test_a_comment_cannot_break_out_of_its_line() -> None:
    at = site("here")
    noted = choice(notes=("first\nrm -rf /",))
    found = replace(plan(request(), catalog_of(at)), front=(noted,))

    (made,) = scripts_of(found, catalog_of(at), TRAIN, most=1)

    assert "\n# first rm -rf /\n" in made.text
