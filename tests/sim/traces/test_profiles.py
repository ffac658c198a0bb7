import gzip
import os
from pathlib import Path

import pytest

from steward.errors import StewardError
from steward.model.goodput import alone_s
from steward.sim.traces.profiles import read_profiles

DATA = Path(os.environ.get("STEWARD_DATA", Path(__file__).resolve().parents[4] / "shared" / "data"))


def written(folder: Path, *, types: tuple[str, ...] = ()) -> Path:
    """Write a profile of two applications, one of which nobody saw learning."""
    kind = "gpu_type," if types else ""
    placements = [f"application,{kind}placement,local_bsz,step_time_s,sync_time_s"]
    counts = [f"application,{kind}num_nodes,num_replicas,local_bsz,step_time_s,sync_time_s"]
    for name in ("ncf", "unseen"):
        for own in [f"{each}," for each in types] or [""]:
            placements += [f"{name},{own}1,16,0.2,0", f"{name},{own}1,8,0.1,0"]
            placements += [f"{name},{own}4,8,0.15,0.05"]
            counts += [f"{name},{own}6,6,8.0,0.3,0.1"]
    curves = ["application,batch_size,epoch_index,progress,iteration,metric,grad_sqr,grad_var"]
    curves += ["ncf,32,0,100,50,1,1,2", "ncf,8,1,200,200,1,1,2", "ncf,8,0,100,100,1,1,2"]
    for name, lines in (
        ("placements", placements),
        ("scalability", counts),
        ("validation", curves),
    ):
        (folder / f"profile_{name}.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


def test_step_times_and_learning_of_an_application_come_together(tmp_path: Path) -> None:
    found = read_profiles(written(tmp_path))

    assert list(found) == ["ncf"]
    times = found["ncf"].on(None)
    assert times.pass_s((1,), 12) == pytest.approx((0.15, 0.0))
    assert times.by_count.tolist() == [[6, 6, 8, 0.3, 0.1]]
    assert found["ncf"].learning.batches == (8, 32)
    assert found["ncf"].learning.epochs == 1  # as far as every batch was seen
    assert (found["ncf"].most_replicas, found["ncf"].restart_s) == (1, 30.0)


def test_where_gpu_types_are_told_apart_restart_times_are_those_of_each_model(
    tmp_path: Path,
) -> None:
    found = read_profiles(written(tmp_path, types=("aws", "rtx")), learning_from=tmp_path)

    assert list(found["ncf"].step_times) == ["aws", "rtx"]
    assert (found["ncf"].restart_s, found["ncf"].slowdown) == (15.0, 1.5)


def test_a_folder_without_profiles_is_refused_with_what_it_should_hold(tmp_path: Path) -> None:
    with pytest.raises(StewardError, match="not there") as refused:
        read_profiles(tmp_path)

    assert "profile_placements" in refused.value.hint


@pytest.mark.data
def test_every_application_of_the_folder_is_there_and_takes_plausibly_long() -> None:
    pollux, sia = DATA / "traces" / "pollux", DATA / "traces" / "sia"

    ours = read_profiles(pollux)
    theirs = read_profiles(sia, learning_from=pollux)

    assert sorted(ours) == ["bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3"]
    assert sorted(theirs) == sorted(ours)
    assert alone_s(ours["cifar10"], replicas=6, batch=2048) == pytest.approx(897.3, abs=0.1)
    on = {
        kind: alone_s(theirs["bert"], replicas=4, batch=96, gpu_type=kind)
        for kind in ("aws", "rtx", "dgx-ext")
    }
    assert on["aws"] > on["rtx"] > on["dgx-ext"]
