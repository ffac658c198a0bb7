"""What `--inside idle` keeps of a submission, and what it refuses with the reason."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from steward.clients.slurm_jobs.loan_run import keep_run
from steward.clients.slurm_jobs.sbatch_options import Draft, draft_of
from steward.errors import PermanentError, StewardError

NAME = "abcd"
TOKEN = {"token": NAME}
SCRIPT = "#!/bin/bash\npython train.py\n"


def draft(script: str = SCRIPT, **given: str) -> Draft:
    options = {**TOKEN, "gpu-memory": "24G", **given}
    return draft_of(("train.sh", "--lr", "1"), options, script=script, inside=True)


def test_the_comment_says_that_it_may_run_inside_and_how_much_memory_it_needs(
    tmp_path: Path,
) -> None:
    made = draft(chdir=str(tmp_path))

    assert "--comment=steward:job=abcd steward:inside=24G" in made.submission(Path()).command
    assert made.folder == tmp_path


@pytest.mark.parametrize(
    ("script", "given", "words"),
    [
        (f"{SCRIPT}  srun hostname\n", {}, "calls srun"),
        (f"trap save USR2\n{SCRIPT}", {}, "handles USR2 itself"),
        (SCRIPT, {"array": "0-9"}, "--array"),
        (SCRIPT, {"nodes": "2", "dependency": "afterok:1"}, "--dependency, --nodes"),
        (f"#!/bin/bash\n#SBATCH --export=NONE\n{SCRIPT}", {}, "--export"),
        (SCRIPT, {"gpu-memory": "much"}, "how much memory"),
        (SCRIPT, {"gpu-memory": "0"}, "how much memory"),
    ],
)
def test_what_cannot_run_inside_another_job_is_refused(
    script: str, given: dict[str, str], words: str
) -> None:
    with pytest.raises(StewardError, match=words):
        draft(script, **given)


def test_one_node_and_the_whole_environment_are_no_reason_to_refuse() -> None:
    assert draft(nodes="1", ntasks="1", export="ALL").mark.inside_bytes == 24 * 2**30


def test_memory_on_a_gpu_means_nothing_to_slurm_without_it() -> None:
    with pytest.raises(StewardError, match="--gpu-memory: Slurm does not share GPUs"):
        draft_of(("train.sh",), {**TOKEN, "gpu-memory": "24G"}, script=SCRIPT)


def test_script_arguments_and_environment_are_kept_for_their_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")

    keep_run(tmp_path, user=getpass.getuser(), token=NAME, text="#!", arguments=("--lr", "1"))

    folder = tmp_path / f".steward-{getpass.getuser()}" / "abcd"
    kept = json.loads((folder / "run.json").read_text())
    assert (kept["arguments"], kept["environment"]["MINE"]) == (["--lr", "1"], "1")
    assert (folder / "batch").read_text() == "#!"
    assert (folder / "run.json").stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0


def test_nothing_is_kept_in_a_folder_that_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / ".steward-nobody-here").mkdir()

    with pytest.raises(PermanentError, match="does not belong"):
        keep_run(tmp_path, user="nobody-here", token=NAME, text="", arguments=())
