"""Memory and work of a transformer from its configuration alone: no torch, well under 10 ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.allocator import rounded
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion

__all__ = ["ClosedForm", "Transformer", "closed_form", "transformer"]

_LIBRARY_BYTES = 65 << 20
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "dim", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "inner": ("intermediate_size", "n_inner", "ffn_dim", "hidden_dim", "d_ff"),
    "vocab": ("vocab_size",),
    "positions": ("max_position_embeddings", "n_positions"),
}
_DEFAULTS: dict[str, dict[str, int]] = {
    "gpt2": {"layers": 12, "width": 768, "heads": 12, "vocab": 50257, "positions": 1024},
    "bert": {"layers": 12, "width": 768, "heads": 12, "vocab": 30522, "positions": 512},
    "roberta": {"layers": 12, "width": 768, "heads": 12, "vocab": 50265, "positions": 512},
    "electra": {"layers": 12, "width": 256, "heads": 4, "vocab": 30522, "positions": 512},
    "distilbert": {"layers": 6, "width": 768, "heads": 12, "vocab": 30522, "positions": 512},
    "opt": {"layers": 12, "width": 768, "heads": 12, "vocab": 50272, "positions": 2050},
    "gpt_neox": {"layers": 44, "width": 6144, "heads": 64, "vocab": 50432, "positions": 0},
    "llama": {"layers": 32, "width": 4096, "heads": 32, "vocab": 32000, "positions": 0},
    "mistral": {"layers": 32, "width": 4096, "heads": 32, "vocab": 32000, "positions": 0},
    "qwen2": {"layers": 32, "width": 4096, "heads": 32, "vocab": 151936, "positions": 0},
}
_GATED = frozenset({"llama", "mistral", "qwen2"})
_UNTIED = frozenset({"llama", "mistral", "qwen2", "gpt_neox"})
_MASKED = frozenset({"bert", "roberta", "electra", "distilbert"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """The numbers of a configuration that memory and work depend on."""

    kind: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    positions: int
    tied: bool

    @property
    def gated(self) -> bool:
        """Return whether the feed-forward part has a gate (three matrices)."""
        return self.kind in _GATED

    @property
    def layer_parameters(self) -> int:
        """Return the parameters of one layer."""
        kv_width = self.width * self.kv_heads // self.heads
        attention = 2 * self.width * self.width + 2 * self.width * kv_width
        feed = (3 if self.gated else 2) * self.width * self.inner
        small = 2 * self.width if self.gated else 9 * self.width + self.inner
        return attention + feed + small

    @property
    def parameters(self) -> int:
        """Return all parameters; layer norms and heads of rare kinds are within 1 %."""
        embeddings = (self.vocab + self.positions) * self.width
        head = 0 if self.tied else self.vocab * self.width
        if self.kind in _MASKED:
            head += self.width * self.width + self.vocab
        return embeddings + head + self.layers * self.layer_parameters + 2 * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """What the closed form answers."""

    parameters: int
    weights_bytes: int
    gradients_bytes: int
    states_bytes: int
    activations_bytes: int
    logits_bytes: int
    allocated_bytes: int
    flops: float
    moved_bytes: float
    unknown_keys: tuple[str, ...] = ()


def transformer(config: Mapping[str, Any], *, where: str) -> Transformer:
    """Read a configuration of Hugging Face; raise where its kind is not known."""
    kind = str(config["model_type"])
    if kind not in _DEFAULTS:
        raise StewardError(
            f"no closed form for models of type {kind}; known: {', '.join(sorted(_DEFAULTS))}",
            where=where,
            hint="install torch and transformers to trace it: pip install 'steward[torch]'",
        )
    found = dict(_DEFAULTS[kind])
    for ours, theirs in _NAMES.items():
        for name in theirs:
            if config.get(name) is not None:
                found[ours] = _positive(config[name], name, where)
    found.setdefault("inner", 4 * found["width"])
    if kind not in {"gpt2", "bert", "roberta", "electra", "distilbert", "opt"}:
        found["positions"] = 0
    tied = bool(config.get("tie_word_embeddings", kind not in _UNTIED))
    kv_heads = _positive(config.get("num_key_value_heads") or found["heads"], "kv heads", where)
    return Transformer(kind=kind, kv_heads=kv_heads, tied=tied, **found)


def _positive(value: object, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        hint = "give a whole number of 1 or more"
        raise StewardError(f"{name} is {value!r}", where=where, hint=hint)
    return value


def closed_form(shape: Transformer, question: ModelQuestion) -> ClosedForm:
    """Return memory by part, and work, for one step."""
    tokens = question.batch * question.seq
    low = 2 if question.amp else 4
    weights = rounded(4 * shape.parameters)
    copies = shape.parameters * 2 if question.amp else 0
    logits = rounded(tokens * shape.vocab * 4)
    layer = _layer_bytes(shape, question, low)
    if question.trains:
        optimizer = OPTIMIZERS[question.opt]
        kept = layer * shape.layers
        if question.grad_ckpt:
            kept = shape.layers * tokens * shape.width * 4 + layer
        gradients, states = weights, optimizer.states * weights
        step = optimizer.temporaries * weights
        peak_forward = kept + copies + 3 * logits
        allocated = weights + states + max(peak_forward, gradients + step, gradients + layer)
    else:
        gradients = states = 0
        kept = _forward_bytes(shape, question, low)
        allocated = weights + copies + max(kept, logits + (logits // 2 if question.amp else 0))
    passes = (4 if question.grad_ckpt else 3) if question.trains else 1
    dense = shape.layers * shape.layer_parameters + shape.vocab * shape.width
    attention = 2 * shape.layers * tokens * question.seq * shape.width
    return ClosedForm(
        parameters=shape.parameters,
        weights_bytes=weights,
        gradients_bytes=gradients,
        states_bytes=states,
        activations_bytes=kept,
        logits_bytes=logits,
        allocated_bytes=allocated + _LIBRARY_BYTES,
        flops=float(passes * (2 * dense * tokens + attention)),
        moved_bytes=float(passes * 3 * layer * shape.layers + 3 * allocated),
    )


def _layer_bytes(shape: Transformer, question: ModelQuestion, low: int) -> int:
    """Return what one layer keeps for its backward pass."""
    tokens = question.batch * question.seq
    kv_width = shape.width * shape.kv_heads // shape.heads
    projections = (2 * shape.width + 2 * kv_width) * low
    norms = 2 * shape.width * (4 + low)
    if shape.gated:
        norms = 2 * shape.width * (8 + low)
        feed = 4 * shape.inner * low
    elif shape.kind == "gpt2":  # its tanh form of GELU keeps every step, in float32
        feed = shape.inner * (2 * low + 6 * 4)
    else:
        feed = 2 * shape.inner * low
    dropout = 0 if shape.gated else 2 * shape.width * (1 + low)
    residual = 2 * shape.width * 4
    log_sum_exp = 4 * shape.heads
    return tokens * (projections + norms + feed + dropout + residual + log_sum_exp)


def _forward_bytes(shape: Transformer, question: ModelQuestion, low: int) -> int:
    """Return the most that is alive within one layer without gradients."""
    tokens = question.batch * question.seq
    feed = (3 if shape.gated else 2) * shape.inner * (4 if shape.kind == "gpt2" else low)
    scores = 0
    if shape.kv_heads != shape.heads and not question.amp:
        scores = 2 * question.batch * shape.heads * question.seq**2 * 4
    return max(tokens * (feed + 2 * shape.width * 4), scores + 6 * tokens * shape.width * 4)
