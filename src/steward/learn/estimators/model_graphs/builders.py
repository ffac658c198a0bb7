"""Build a model on the meta device, with its inputs and its loss. Runs in the worker only."""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its common name

from steward.errors import StewardError, did_you_mean
from steward.learn.estimators.model_graphs.configs import (
    NAMED,
    known_config,
    read_config,
    with_layers,
)
from steward.learn.estimators.model_graphs.question import ModelQuestion

__all__ = ["Built", "build"]

_CLASSES = 1000
_LABELLED = frozenset({"t5", "bart", "mt5", "pegasus", "mbart"})  # decoders take labels apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A model with what one step takes and returns."""

    net: Any
    inputs: list[Any]
    forward: Callable[[], Any]
    config: dict[str, Any] | None = None


def build(question: ModelQuestion) -> Built:
    """Build what the question names: an entry, a configuration, or a vision model."""
    name = question.model
    if ":" in name:
        return _from_entry(question)
    path = Path(name)
    config = known_config(name)
    if config is None and (path.is_dir() or path.suffix == ".json"):
        config = read_config(path)
    if config is not None:
        if question.layers is not None:
            config = with_layers(config, question.layers)
        return _from_config(question, config)
    return _vision(question, _vision_net(question))


def _from_config(question: ModelQuestion, config: dict[str, Any]) -> Built:
    _torchvision()  # transformers imports it too, where it is installed
    try:
        import transformers  # noqa: PLC0415 - optional, slow
    except ImportError as error:
        raise StewardError(
            "transformers is not installed",
            where=question.model,
            hint="pip install transformers; without it the closed form answers",
        ) from error
    transformers.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    fields = {name: value for name, value in config.items() if name != "model_type"}
    fields.pop("torch_dtype", None)
    fields.pop("dtype", None)
    fields.pop("quantization_config", None)
    fields.pop("attn_implementation", None)
    made = transformers.AutoConfig.for_model(config["model_type"], **fields)
    for auto in ("AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"):
        mapping = getattr(transformers, auto)._model_mapping  # noqa: SLF001
        masked = config["model_type"] in {"bert", "roberta", "electra", "albert", "deberta"}
        if type(made) in mapping and not (masked and auto == "AutoModelForCausalLM"):
            return _language(question, made, getattr(transformers, auto), config)
    raise StewardError(
        f"transformers has no language model of type {config['model_type']}",
        where=question.model,
        hint="name an entry pkg.mod:function that returns the module",
    )


def _language(question: ModelQuestion, made: Any, auto: Any, config: dict[str, Any]) -> Built:
    with torch.device("meta"):
        net = auto.from_config(made, attn_implementation=config.get("attn_implementation"))
    net = net.to(torch.float32)
    if question.grad_ckpt and question.trains:
        net.gradient_checkpointing_enable()
    tokens = torch.empty(question.batch, question.seq, dtype=torch.long, device="meta")
    options = {"input_ids": tokens}
    if question.trains or config["model_type"] in _LABELLED:
        options["labels"] = tokens

    def forward() -> Any:
        out = net(**options)
        return out.loss if question.trains else out

    return Built(net=net, inputs=[tokens], forward=forward, config=config)


def _vision_net(question: ModelQuestion) -> Any:
    name = question.model
    torchvision = _torchvision()
    if torchvision is not None and name in torchvision.models.list_models():
        options = {"aux_logits": False} if name in {"googlenet", "inception_v3"} else {}
        return _on_meta(lambda: torchvision.models.get_model(name, weights=None, **options))
    try:
        import timm  # noqa: PLC0415 - optional, slow
    except ImportError:
        timm = None
    if timm is not None and timm.is_model(name):
        return _on_meta(lambda: timm.create_model(name, pretrained=False))
    known = list(NAMED)
    known += torchvision.models.list_models() if torchvision else []
    without = [
        each for each, module in (("torchvision", torchvision), ("timm", timm)) if not module
    ]
    hint = did_you_mean(name, known) or "name a config.json, or an entry pkg.mod:function"
    if without:
        hint += f"; not installed: {', '.join(without)}"
    raise StewardError(f"there is no model called '{name}'", where="model", hint=hint)


def _on_meta(make: Callable[[], Any]) -> Any:
    try:
        with torch.device("meta"):
            return make()
    except (RuntimeError, NotImplementedError):
        return make().to("meta")  # what computes with its own weights while it is built


def _torchvision() -> Any:
    try:
        return importlib.import_module("torchvision")
    except ImportError:
        return None
    except RuntimeError:  # built for another torch: its operators are missing, its models are fine
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        return importlib.import_module("torchvision")


_KEPT: list[Any] = []  # definitions end with their library


def _vision(question: ModelQuestion, net: Any) -> Built:
    shape = (question.batch, 3, question.size, question.size)
    images = torch.empty(shape, device="meta")
    labels = torch.empty(question.batch, dtype=torch.long, device="meta")
    return Built(
        net=net,
        inputs=[images, labels] if question.trains else [images],
        forward=_classifying(net, images, labels) if question.trains else lambda: net(images),
    )


def _classifying(net: Any, images: Any, labels: Any) -> Callable[[], Any]:
    return lambda: F.cross_entropy(net(images), labels)


def _from_entry(question: ModelQuestion) -> Built:
    module, _, name = question.model.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise StewardError(
            f"the entry cannot be imported: {error}",
            where=question.model,
            hint="write pkg.mod:function, and run where pkg can be imported (PYTHONPATH)",
        ) from error
    given = {"batch": question.batch, "size": question.size, "seq": question.seq}
    takes = inspect.signature(function).parameters
    found = _on_meta(lambda: function(**{key: given[key] for key in given if key in takes}))
    net, inputs = found if isinstance(found, tuple) else (found, None)
    if not isinstance(net, torch.nn.Module):
        raise StewardError(
            f"the entry returned {type(net).__name__}, not a torch.nn.Module",
            where=question.model,
            hint="return the module, or the module and a tuple of its inputs",
        )
    inputs = _guessed_inputs(question, net) if inputs is None else inputs
    inputs = [each.to("meta") for each in (inputs if isinstance(inputs, tuple) else (inputs,))]
    return Built(net=net.to("meta"), inputs=inputs, forward=lambda: _scalar(net(*inputs)))


def _guessed_inputs(question: ModelQuestion, net: Any) -> Any:
    for part in net.modules():
        if isinstance(part, torch.nn.Embedding):
            return torch.empty(question.batch, question.seq, dtype=torch.long, device="meta")
        if isinstance(part, torch.nn.Conv2d):
            shape = (question.batch, part.in_channels, question.size, question.size)
            return torch.empty(shape, device="meta")
        if isinstance(part, torch.nn.Linear):
            return torch.empty(question.batch, part.in_features, device="meta")
    raise StewardError(
        "no layer tells what the model takes",
        where=question.model,
        hint="return (module, (tensor, ...)) from the entry",
    )


def _scalar(out: Any) -> Any:
    loss = getattr(out, "loss", None)
    if loss is not None:
        return loss
    while not isinstance(out, torch.Tensor):
        out = next(iter(out.values() if hasattr(out, "values") else out))
    return out.float().mean()
