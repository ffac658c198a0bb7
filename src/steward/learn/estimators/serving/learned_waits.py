"""Estimator of the work and the waiting time of requests to model servers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steward.model.serving.forecasts import ServingForecasts
from steward.model.serving.view import OFF, ServingView

__all__ = ["LearnedWaits"]

Floats = NDArray[np.float64]


class LearnedWaits:
    """Learn how long answers are from requests that ended; work follows from the step times."""

    def __init__(self) -> None:
        self.name = "learned-waits"
        self._seen = np.zeros(3)  # requests, their tokens, the squares of these
        self._columns = np.zeros((0, 0, 0))
        self._made_for = np.zeros(0)

    def learn(self, view: ServingView, ended: NDArray[np.int64]) -> None:
        tokens = view.requests.generated_tokens[ended].astype(np.float64)
        self._seen += (len(tokens), tokens.sum(), (tokens**2).sum())

    def predict(self, view: ServingView) -> ServingForecasts:
        count, total, squares = (self._seen + np.array([4.0, 1000.0, 4.0 * 400.0**2])).tolist()
        mean = total / count
        sd = max(squares / count - mean**2, 1.0) ** 0.5
        rows = len(view.requests.arrival_s)
        if self._columns.shape != (6, len(view.types), rows):
            self._columns = np.zeros((6, len(view.types), rows))
            self._made_for = np.full(rows, -1.0)
        queue = view.queue[self._made_for[view.queue] != view.requests.arrival_s[view.queue]]
        self._made_for[queue] = view.requests.arrival_s[queue]
        out = self._columns
        for kind, each in enumerate(view.types):
            prompt = view.requests.prompt_tokens[queue]
            times, most = each.step_times, each.max_sequences
            prefill_s = np.array([times.step_s(prefill_tokens=float(p)) for p in prompt])
            step_s = times.step_s(decode_sequences=most, kv_tokens=0.5 * each.kv_tokens)
            out[0, kind, queue], out[1, kind, queue] = mean, sd
            out[2, kind, queue] = prefill_s + mean * step_s / most
            out[3, kind, queue] = sd * step_s / most
            out[4, kind, queue] = prefill_s + step_s
            out[5, kind, queue] = prefill_s + mean * step_s
        return ServingForecasts(
            output_tokens=out[0, 0],
            output_sd=out[1, 0],
            work_s=out[2],
            work_sd_s=out[3],
            first_token_s=out[4],
            run_s=out[5],
            bound_share=0.1,
            bound_sds=1.3,
            backlog_s=np.where(view.instances.state == OFF, np.inf, 0.0),
            backlog_sd_s=np.zeros(len(view.instances)),
        )
