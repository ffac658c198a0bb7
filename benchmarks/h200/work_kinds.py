"""Kinds of work that no threshold was tuned on: networks, troubles, and things beside training.

`KINDS` is in the order in which they are recorded: each entry is what runs at once on the one GPU.
"""

from __future__ import annotations

import functools
import importlib
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "Work"]


def until(end_s: float, work: Callable[[], object], every_s: float = 0.0) -> None:
    """Do something again and again until it is time, with pauses of about so long."""
    while time.time() < end_s:
        work()
        if every_s:
            time.sleep(random.expovariate(1 / every_s))


class Images:
    """Images that a loader's worker makes: cheap enough that eight of them keep up."""

    def __init__(self, torch: Any, channels: int) -> None:  # noqa: ANN401 - a module
        self._torch = torch
        self._channels = channels

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, at: int) -> Any:  # noqa: ANN401 - a tensor
        return self._torch.rand(self._channels, 96, 1).expand(-1, -1, 96)


class Work:
    """What can be done on a device for a while. On a processor it is small: does it run at all?"""

    def __init__(self, device: str, said: Callable[[str], None]) -> None:
        self.torch: Any = importlib.import_module("torch")
        importlib.import_module("torch.utils.checkpoint")
        self.nn = self.torch.nn
        self.device = device
        self.said = said
        self.scale = 1 if device == "cuda" else 16
        self.width = 1024 // self.scale

    # -- parts ---------------------------------------------------------------------------------

    def normal(self, *shape: int) -> Any:  # noqa: ANN401 - a tensor
        return self.torch.randn(*shape, device=self.device)

    def tokens(self, batch: int, length: int = 512) -> Any:  # noqa: ANN401 - a tensor
        return self.normal(max(1, batch // self.scale), length // self.scale, self.width)

    def transformer(self) -> Any:  # noqa: ANN401 - a module
        layer = self.nn.TransformerEncoderLayer(self.width, 16, batch_first=True)
        return self.nn.TransformerEncoder(layer, 6)

    def convolutions(self, channels: int, *, groups: int = 1, up: bool = False) -> Any:  # noqa: ANN401 - a module
        nn = self.nn
        kind = nn.ConvTranspose2d if up else nn.Conv2d
        layers = []
        for _ in range(8):
            layers += [kind(channels, channels, 3, 1, 1, groups=groups), nn.GELU()]
            layers += [nn.Conv2d(channels, channels, 1), nn.BatchNorm2d(channels)]
        return nn.Sequential(*layers)

    def stepper(
        self,
        model: Any,  # noqa: ANN401 - a module
        batch: Callable[[], Any],
        *,
        forward: Callable[[Any], Any] | None = None,
        half: bool = True,
    ) -> Callable[[], float]:
        """Return a step of training that waits for its end; in bf16 unless told otherwise."""
        model = model.to(self.device)
        optimiser = self.torch.optim.SGD(model.parameters(), 1e-6)
        torch = self.torch

        def step() -> float:
            with torch.autocast(self.device, torch.bfloat16, enabled=half):
                out = (forward or model)(batch())
                loss = (out[0] if isinstance(out, tuple) else out).float().square().mean()
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return float(loss.item())

        return step

    # -- kinds ---------------------------------------------------------------------------------

    def loader(self, end_s: float) -> None:
        """Train on what eight workers load: sound."""
        channels, pinned = 64 // self.scale, self.device == "cuda"
        loaded = iter(
            self.torch.utils.data.DataLoader(
                Images(self.torch, channels), 64 // self.scale, num_workers=8, pin_memory=pinned
            )
        )
        model = self.convolutions(channels)
        until(end_s, self.stepper(model, lambda: next(loaded).to(self.device, non_blocking=True)))

    def gan(self, end_s: float) -> None:
        """Train a generator and a critic in turns."""
        channels = 128 // self.scale
        both = [
            self.stepper(
                self.convolutions(channels, up=up), lambda: self.normal(64, channels, 32, 32)
            )
            for up in (True, False)
        ]
        until(end_s, lambda: [step() for step in both])

    def lstm(self, end_s: float) -> None:
        """Train a recurrent network with the library's own loop."""
        batch = self.tokens(64, 192)
        until(end_s, self.stepper(self.nn.LSTM(self.width, self.width, 4), lambda: batch))

    def cells(self, end_s: float) -> None:
        """Train a recurrent network with a loop in Python: bound by launches."""
        cell, batch = self.nn.GRUCell(self.width, self.width), self.normal(32, self.width)

        def forward(x: Any) -> Any:  # noqa: ANN401 - tensors
            return functools.reduce(lambda state, _: cell(x, state), range(100), x)

        until(end_s, self.stepper(cell, lambda: batch, forward=forward))

    def fp32(self, end_s: float) -> None:
        """Train attention in full precision, without tensor cores."""
        batch = self.tokens(32)
        until(end_s, self.stepper(self.transformer(), lambda: batch, half=False))

    def special(self, end_s: float) -> None:
        """Compute in fp32 what no tensor core can."""
        x = self.normal(10**8 // self.scale**3).abs() + 1

        def work() -> None:
            for _ in range(5):
                self.torch.lgamma(x)
            x[0].item()

        until(end_s, work)

    def diffusion(self, end_s: float) -> None:
        """Make images step by step, a few at a time."""
        channels = 256 // self.scale
        model = self.convolutions(channels).to(self.device).bfloat16().eval()

        def work() -> None:
            x = self.normal(4, channels, 64 // self.scale, 64 // self.scale).bfloat16()
            for _ in range(50):
                x = x - 0.01 * model(x)
            x.cpu()

        with self.torch.no_grad():
            until(end_s, work)

    def checkpointed(self, end_s: float) -> None:
        """Train with activations that are computed again."""
        model, batch = self.transformer(), self.tokens(64, 1024)
        again = self.torch.utils.checkpoint.checkpoint

        def forward(x: Any) -> Any:  # noqa: ANN401 - tensors
            for layer in model.layers:
                x = again(layer, x, use_reentrant=False)
            return x

        until(end_s, self.stepper(model, lambda: batch, forward=forward))

    def embedding(self, end_s: float) -> None:
        """Train a table of ten gigabytes."""
        count = 2 * 10**7 // self.scale**3
        table = self.nn.EmbeddingBag(count, 128, sparse=True)

        def rows() -> Any:  # noqa: ANN401 - a tensor
            return self.torch.randint(count, (8192, 50), device=self.device)

        until(end_s, self.stepper(table, rows, half=False))

    def evaluation(self, end_s: float) -> None:
        """Train, then look at single answers on the processor, in turns."""
        model, batch = self.transformer(), self.tokens(16, 256)
        step = self.stepper(model, lambda: batch)

        def work() -> None:
            until(time.time() + 2, step)
            with self.torch.no_grad():
                until(time.time() + 1.5, lambda: model(batch[:1]).cpu().sort())

        until(end_s, work)

    def background(self, end_s: float) -> None:
        """Train while another thread writes checkpoints."""
        batch = self.tokens(32)
        step = self.stepper(self.transformer(), lambda: batch)
        with tempfile.TemporaryDirectory() as folder:

            def save() -> None:
                self.torch.save(self.torch.rand(2**27 // self.scale), Path(folder) / "saved")
                os.sync()

            writer = threading.Thread(target=until, args=(end_s, save, 1.0))
            writer.start()
            until(end_s, step)
            writer.join()

    def depthwise(self, end_s: float) -> None:
        """Train a network of depthwise convolutions."""
        channels = 192 // self.scale
        batch = self.normal(128 // self.scale, channels, 56, 56)
        until(end_s, self.stepper(self.convolutions(channels, groups=channels), lambda: batch))

    def sparse(self, end_s: float) -> None:
        """Answer single requests that come now and then."""
        model, batch = self.transformer().to(self.device).eval(), self.tokens(1, 128)
        with self.torch.no_grad():
            until(end_s, lambda: model(batch).cpu(), 0.1)

    def idle(self, end_s: float) -> None:
        """Train for a third of the time, then hold the GPU."""
        batch = self.tokens(32)
        half_s = (end_s - time.time()) / 3
        until(time.time() + half_s, self.stepper(self.transformer(), lambda: batch))
        self.said("idle_allocated")
        time.sleep(max(0.0, end_s - time.time()))


KINDS: tuple[tuple[str, ...], ...] = (
    ("loader",),
    ("gan",),
    ("lstm",),
    ("fp32",),
    ("special",),
    ("diffusion",),
    ("fp32", "sparse"),
    ("checkpointed",),
    ("embedding",),
    ("evaluation",),
    ("background",),
    ("depthwise",),
    ("sparse",),
    ("cells",),
    ("idle",),
)
