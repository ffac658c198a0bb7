"""Memory and work of a transformer from its configuration alone: no torch, well under 10 ms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steward.errors import StewardError
from steward.learn.estimators.model_graphs.allocator import rounded
from steward.learn.estimators.model_graphs.question import OPTIMIZERS, ModelQuestion

__all__ = [
    "ClosedForm",
    "Transformer",
    "closed_form",
    "closed_trace",
    "parameters_only",
    "transformer",
]

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
_LIKE_LLAMA = "like llama"  # a type without a form of its own
_GATED = frozenset({"llama", "mistral", "qwen2", _LIKE_LLAMA})
_UNTIED = frozenset({"llama", "mistral", "qwen2", "gpt_neox", _LIKE_LLAMA})
_MUST_HAVE = ("layers", "width", "heads", "vocab")
# Keys of Hugging Face's configurations that change neither memory nor work by much.
_HARMLESS = frozenset(
    "_name_or_path activation_dropout activation_function add_cross_attention architectures "  # noqa: SIM905
    "attention_bias attention_dropout attention_probs_dropout_prob attention_types attn_pdrop "
    "auto_map bad_words_ids bos_token_id chunk_size_feed_forward classifier_dropout do_sample "
    "do_layer_norm_before dropout dtype embd_pdrop embedding_size eos_token_id attn_implementation "
    "gradient_checkpointing head_dim hidden_act hidden_dropout hidden_dropout_prob id2label "
    "init_std initializer_factor initializer_range is_decoder is_encoder_decoder label2id "
    "layer_norm_eps layer_norm_epsilon layer_norm_elementwise_affine layer_types layerdrop "
    "mlp_bias mask_token_id max_length max_window_layers model_type n_ctx "
    "num_key_value_heads output_attentions output_hidden_states pad_token_id "
    "partial_rotary_factor position_embedding_type prefix pretraining_tp quantization_config "
    "reorder_and_upcast_attn resid_pdrop return_dict rms_norm_eps rope_parameters rope_scaling "
    "rope_theta rotary_emb_base rotary_pct scale_attn_by_inverse_layer_idx scale_attn_weights "
    "sliding_window summary_activation summary_first_dropout summary_proj_to_labels summary_type "
    "summary_use_proj task_specific_params tie_word_embeddings torch_dtype transformers_version "
    "type_vocab_size use_cache use_parallel_residual use_sliding_window word_embed_proj_dim "
    "_remove_final_layer_norm enable_bias qa_dropout seq_classif_dropout sinusoidal_pos_embds "
    "activation tie_weights_ sep_token_id cls_token_id".split()
)
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
    declared: str = ""
    unknown_keys: tuple[str, ...] = ()

    @property
    def assumed(self) -> bool:
        """Return whether the type has no form of its own."""
        return self.kind == _LIKE_LLAMA

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


def transformer(config: Mapping[str, Any], *, where: str) -> Transformer:
    """Read a configuration of Hugging Face; raise where it lacks what memory depends on.

    A type that is not known is read as a decoder like llama, when its numbers are there.
    """
    kind = str(config["model_type"])
    found = dict(_DEFAULTS.get(kind, {}))
    for ours, theirs in _NAMES.items():
        for name in theirs:
            if config.get(name) is not None:
                found[ours] = _positive(config[name], name, where)
    missing = [_NAMES[each][0] for each in _MUST_HAVE if each not in found]
    if missing:
        raise StewardError(
            f"no closed form for models of type {kind}, and the configuration has no "
            f"{', '.join(missing)}; known types: {', '.join(sorted(_DEFAULTS))}",
            where=where,
            hint="install torch and transformers to trace it: pip install 'steward[torch]'",
        )
    declared, kind = kind, kind if kind in _DEFAULTS else _LIKE_LLAMA
    found.setdefault("inner", 4 * found["width"])
    if kind not in {"gpt2", "bert", "roberta", "electra", "distilbert", "opt"}:
        found["positions"] = 0
    tied = bool(config.get("tie_word_embeddings", kind not in _UNTIED))
    kv_heads = _positive(config.get("num_key_value_heads") or found["heads"], "kv heads", where)
    used = {name for names in _NAMES.values() for name in names}
    unknown = tuple(sorted(set(config) - used - _HARMLESS))
    return Transformer(
        kind=kind,
        kv_heads=kv_heads,
        tied=tied,
        declared=declared,
        unknown_keys=unknown,
        **found,
    )


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
        gradients = weights
        states = optimizer.states * optimizer.state_bytes(weights)
        step = 0 if optimizer.alone else optimizer.temporaries * weights
        peak_forward = kept + copies + 3 * logits
        held = gradients if question.accumulate > 1 else 0
        peak_forward += held
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


_ROWS = {True: 26, False: 14}  # operators of one layer beside its products: gated, or not


def closed_trace(
    shape: Transformer, form: ClosedForm, question: ModelQuestion, *, reserved_share: float
) -> dict[str, Any]:
    """Return a closed form in the terms of a trace, with a few operators for all."""
    tokens, item = question.batch * question.seq, 2 if question.amp else 4
    width, inner = shape.width, shape.inner
    sides = [[tokens, width], [width, inner]]
    passes = (4 if question.grad_ckpt else 3) if question.trains else 1
    attention = 2.0 * shape.layers * tokens * question.seq * width
    dense = form.flops / passes - attention
    products = shape.layers * (7 if shape.gated else 6) + 1
    others = shape.layers * _ROWS[shape.gated] * (2 if question.amp else 1)
    moved = max(0.0, (form.moved_bytes - 3 * form.allocated_bytes) / max(1, passes))
    rows: list[list[Any]] = []
    for backward, times in ((False, 1), (True, passes - 1)):
        if times:
            product = [dense / products, 3.0 * tokens * width * item]
            rows += [
                ["mm", sides, item, product[0], product[1], backward, (), times * products],
                [
                    "attention",
                    [],
                    item,
                    attention / shape.layers,
                    4.0 * tokens * width * item,
                    backward,
                    (),
                    times * shape.layers,
                ],
                ["mul", [], item, 0.0, moved / others, backward, (), times * others],
            ]
    tensors = shape.layers * (9 if shape.gated else 12) + 4
    return {
        "parameters": form.parameters,
        "parameter_tensors": tensors,
        "parameter_bytes": form.weights_bytes,
        "allocated_bytes": form.allocated_bytes,
        "reserved_bytes": form.allocated_bytes * reserved_share,
        "activation_bytes": form.activations_bytes + 3 * form.logits_bytes,
        "block_bytes": 4 * shape.layer_parameters,
        "blocks": shape.layers,
        "operators": rows,
        "views": [6 * others, 4 * others if question.trains else 0],
        "modules": 12 * shape.layers,
    }


def parameters_only(question: ModelQuestion, built: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is certain of a model that was built and cannot be traced."""
    size = int(built["parameter_bytes"])
    optimizer = OPTIMIZERS[question.opt]
    held = size
    if question.trains:
        held += size + optimizer.states * optimizer.state_bytes(size)
    elements, tensors = size / 4, int(built["parameter_tensors"])
    flops = 2.0 * elements * question.batch
    rows: list[list[Any]] = [["mm", [], 4, flops / tensors, 0.0, False, (), tensors]]
    if question.trains:
        rows.append(["mm", [], 4, 2 * flops / tensors, 0.0, True, (), tensors])
    return {
        "parameters": int(built["parameters"]),
        "parameter_tensors": tensors,
        "parameter_bytes": size,
        "allocated_bytes": held + _LIBRARY_BYTES,
        "reserved_bytes": held + _LIBRARY_BYTES,
        "activation_bytes": 0,
        "block_bytes": size,
        "blocks": 1,
        "operators": rows,
    }
