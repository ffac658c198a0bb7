"""`steward learn kinds`: recognise kinds of work in telemetry."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steward.cli.options import Json
from steward.cli.output import print_json, print_lines, print_table, print_warnings, waiting
from steward.errors import StewardError

if TYPE_CHECKING:
    from steward.learn.workloads.classifier import KindClassifier
    from steward.learn.workloads.scoring import KindScores, ShotScores
    from steward.learn.workloads.signals import RunSignals

__all__ = ["kinds"]

Train = Annotated[
    str | None,
    typer.Option(
        "--train", metavar="TELEMETRY,EVENTS", help="Labelled runs to learn from: two files."
    ),
]
Score = Annotated[
    str | None,
    typer.Option(
        "--score",
        metavar="TELEMETRY[,EVENTS]",
        help="Runs to recognise; with events that name their kinds, the answers are scored.",
    ),
]
Model = Annotated[
    Path | None,
    typer.Option(
        "--model", metavar="FILE", dir_okay=False, help="A saved classifier, instead of --train."
    ),
]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", dir_okay=False, help="Write the classifier here."),
]
Shots = Annotated[
    int | None,
    typer.Option(
        "--shots", min=1, max=1000, help="Also learn from so many runs of each kind, drawn 5 times."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="For the draws of --shots.")]


def kinds(  # noqa: PLR0913 - options of a command
    *,
    train: Train = None,
    score: Score = None,
    model: Model = None,
    save: Save = None,
    shots: Shots = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Learn kinds of work from labelled runs, and recognise them in others.

    Kinds that --score has and --train lacks are the unknown ones: `unknown_auroc` is how well the
    unknown score tells their runs from those of known kinds. Runs of behaviour that fits no kind
    are grouped into clusters. Give --train or --model, and --score or --save.
    """
    from steward.learn.workloads.scoring import score as score_rows
    from steward.learn.workloads.scoring import score_shots

    _check(train, score, model, save, shots)
    learnt: list[RunSignals] = []
    if train is not None:
        learnt = _read(train, "--train", needs_events=True)
    with waiting("learning kinds of work"):
        classifier = _classifier(learnt, model)
    if save is not None:
        _save(save, classifier, train or str(model))
    if score is None:
        _print_saved(classifier, save, as_json=as_json)
        return
    runs = _read(score, "--score", needs_events=False)
    with waiting("recognising runs"):
        scores = score_rows(classifier, classifier.rows(runs))
        few = score_shots(learnt, runs, shots=shots, seed=seed) if shots else None
    labelled = any(run.kind for run in runs)
    figures = _figures(scores, few) if labelled else {}
    rows = _rows(classifier, runs)
    if as_json:
        print_json({**figures, "classifier": classifier.selection, "runs": rows})
    else:
        _print(figures, rows)


def _check(
    train: str | None, score: str | None, model: Path | None, save: Path | None, shots: int | None
) -> None:
    faults = []
    if (train is None) == (model is None):
        faults.append("give one of --train and --model")
    if score is None and save is None:
        faults.append("give --score, --save or both")
    if shots is not None and (train is None or score is None):
        faults.append("--shots draws from --train and needs --score")
    if faults:
        raise StewardError(
            "; ".join(faults), hint="for example --train telemetry.csv.gz,events.jsonl --save FILE"
        )


def _read(pair: str, option: str, *, needs_events: bool) -> list[RunSignals]:
    from steward.learn.workloads.files import read_runs

    names = [name.strip() for name in pair.split(",") if name.strip()]
    if not 1 + needs_events <= len(names) <= 2:
        raise StewardError(
            f"{option} names {len(names)} files",
            where=pair,
            hint="two files with a comma between them: telemetry (CSV or Parquet), events (JSONL)",
        )
    with waiting(f"reading {names[0]}"):
        runs, faults = read_runs(Path(names[0]), Path(names[1]) if len(names) > 1 else None)
    print_warnings(f"{names[0]}: {line}" for line in faults.lines())
    return runs


def _classifier(runs: list[RunSignals], model: Path | None) -> KindClassifier:
    from steward.learn.workloads.classifier import KindClassifier
    from steward.learn.workloads.storage import load_classifier

    return KindClassifier.learn(runs) if model is None else load_classifier(model)[0]


def _save(path: Path, classifier: KindClassifier, source: str) -> None:
    from steward.learn.workloads.storage import save_classifier

    save_classifier(path, classifier, learnt_from={"source": source})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One run as it is printed."""

    run: str
    kind: str | None
    recognised: str
    best_known: str
    coarse: str
    probability: float
    unknown_score: float
    unknown_p_value: float
    cluster: str | None

    def cells(self) -> tuple[str, ...]:
        return (
            self.run,
            self.kind or "",
            self.recognised,
            f"{self.probability:.2f} {self.best_known}",
            f"{self.unknown_score:.2f}",
            self.cluster or "",
        )


def _rows(classifier: KindClassifier, runs: list[RunSignals]) -> list[_Row]:
    from steward.learn.workloads.behaviours import Behaviours

    rows = classifier.rows(runs)
    recognised = classifier.recognise(rows)
    strange = [place for place, each in enumerate(recognised) if each.abstains]
    clusters = Behaviours.of_classifier(classifier).assign(rows.take(strange))
    named = dict(zip(strange, clusters, strict=True))
    return [
        _Row(
            run=each.run,
            kind=run.kind or None,
            recognised=each.answer,
            best_known=each.kind,
            coarse=each.coarse,
            probability=each.probability,
            unknown_score=each.unknown_score,
            unknown_p_value=each.unknown_p_value,
            cluster=named.get(place) or None,
        )
        for place, (each, run) in enumerate(zip(recognised, runs, strict=True))
    ]


def _figures(scores: KindScores, few: ShotScores | None) -> dict[str, object]:
    found: dict[str, object] = {
        "macro_f1_by_run": scores.macro_f1_by_run,
        "macro_f1_by_window": scores.macro_f1_by_window,
        "coarse_f1_by_run": scores.coarse_f1_by_run,
        "unknown_auroc": scores.unknown_auroc,
        "unknown_recall": scores.unknown_recall,
        "false_unknown_share": scores.false_unknown_share,
        "calibration_error": scores.calibration_error,
        "known_runs": scores.runs,
        "unknown_runs": scores.unknown_runs,
    }
    if few is not None:
        difference = few.macro_f1_by_run - (scores.macro_f1_by_run or 0.0)
        found |= {
            "shots": few.shots,
            "shots_macro_f1_by_run": few.macro_f1_by_run,
            "shots_lowest": few.lowest,
            "shots_highest": few.highest,
            "shots_difference": difference,
        }
    return found


def _print_saved(classifier: KindClassifier, save: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"saved": save, "kinds": classifier.kinds, "classifier": classifier.selection})
        return
    print_lines([f"{len(classifier.kinds)} kinds of {len(classifier.runs)} runs saved in {save}"])


def _print(figures: dict[str, object], rows: list[_Row]) -> None:
    columns = ("run", "kind", "recognised", "best known", "unknown score", "cluster")
    print_table(columns, [row.cells() for row in rows], empty="no runs")
    lines = [
        f"  {name}: {value:.3f}" if isinstance(value, float) else f"  {name}: {value}"
        for name, value in figures.items()
        if not is_dataclass(value)
    ]
    print_lines(["", "scores", *lines] if lines else [])
