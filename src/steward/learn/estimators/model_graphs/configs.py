"""Configurations of transformers: the named ones, and `config.json` files of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steward.errors import StewardError

__all__ = ["NAMED", "known_config", "layers_of", "read_config", "with_layers"]


def _gpt2(layers: int, width: int, heads: int) -> dict[str, Any]:
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads}


def _bert(kind: str, layers: int, width: int, heads: int, **more: int) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
        **more,
    }


def _decoder(  # noqa: PLR0913, PLR0917 - the six numbers of a decoder
    kind: str, layers: int, width: int, inner: int, heads: int, kv_heads: int, vocab: int = 32000
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
    }


def _opt(layers: int, width: int, heads: int, **more: int) -> dict[str, Any]:
    inner = 4 * width
    return {
        "model_type": "opt",
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "ffn_dim": inner,
        "word_embed_proj_dim": more.get("word_embed_proj_dim", width),
    }


def _neox(layers: int, width: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "gpt_neox",
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }


def _distil(width: int = 768, layers: int = 6) -> dict[str, Any]:
    return {"model_type": "distilbert", "dim": width, "n_layers": layers}


NAMED: dict[str, dict[str, Any]] = {
    "gpt2": _gpt2(12, 768, 12),
    "distilgpt2": _gpt2(6, 768, 12),
    "gpt2-medium": _gpt2(24, 1024, 16),
    "gpt2-large": _gpt2(36, 1280, 20),
    "gpt2-xl": _gpt2(48, 1600, 25),
    "bert-base": _bert("bert", 12, 768, 12),
    "bert-large": _bert("bert", 24, 1024, 16),
    "roberta-base": _bert("roberta", 12, 768, 12, max_position_embeddings=1026),
    "roberta-large": _bert("roberta", 24, 1024, 16, max_position_embeddings=1026),
    "distilbert": _distil(),
    "electra-base": _bert("electra", 12, 768, 12, embedding_size=768),
    "electra-small": {"model_type": "electra"},
    "deberta-base": {"model_type": "deberta"},
    "albert-base": {
        "model_type": "albert",
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
    "t5-small": {"model_type": "t5", "decoder_start_token_id": 0, "pad_token_id": 0},
    "t5-base": {
        "model_type": "t5",
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "d_model": 768,
        "d_ff": 3072,
        "num_layers": 12,
        "num_heads": 12,
    },
    "opt-125m": _opt(12, 768, 12),
    "opt-350m": _opt(24, 1024, 16, word_embed_proj_dim=512),
    "opt-1.3b": _opt(24, 2048, 32),
    "opt-2.7b": _opt(32, 2560, 32),
    "gpt-neo-125m": {
        "model_type": "gpt_neo",
        "num_layers": 12,
        "hidden_size": 768,
        "num_heads": 12,
        "attention_types": [[["global", "local"], 6]],
    },
    "neox-160m": _neox(12, 768, 12),
    "pythia-70m": _neox(6, 512, 8),
    "pythia-160m": _neox(12, 768, 12),
    "pythia-410m": _neox(24, 1024, 16),
    "pythia-1b": _neox(16, 2048, 8),
    "bloom-560m": {"model_type": "bloom", "n_layer": 24, "hidden_size": 1024, "n_head": 16},
    "llama-160m": _decoder("llama", 12, 768, 3072, 12, 12),
    "llama-1b": _decoder("llama", 16, 2048, 5632, 16, 8),
    "tinyllama": _decoder("llama", 22, 2048, 5632, 32, 4),
    "llama-3b": _decoder("llama", 26, 3072, 8192, 24, 8),
    "llama-7b": _decoder("llama", 32, 4096, 11008, 32, 32),
    "llama-8b": _decoder("llama", 32, 4096, 14336, 32, 8, 128256),
    "llama-70b": _decoder("llama", 80, 8192, 28672, 64, 8, 128256),
    "mistral-s": _decoder("mistral", 12, 1536, 4096, 12, 4),
    "mistral-7b": _decoder("mistral", 32, 4096, 14336, 32, 8),
    "qwen2-0.5b": _decoder("qwen2", 24, 896, 4864, 14, 2, 151936),
    "qwen2-1.5b": _decoder("qwen2", 28, 1536, 8960, 12, 2, 151936),
    "qwen2-7b": _decoder("qwen2", 28, 3584, 18944, 28, 4, 152064),
}
_ALSO = {
    "roberta": "roberta-base",
    "electra": "electra-base",
    "bert": "bert-base",
    "bert-base-uncased": "bert-base",
    "bert-large-uncased": "bert-large",
    "distilbert-base": "distilbert",
    "gpt2-small": "gpt2",
    "albert": "albert-base",
    "deberta": "deberta-base",
    "opt": "opt-125m",
}


def known_config(name: str) -> dict[str, Any] | None:
    """Return the configuration of a name in the table, or none."""
    short = name.rsplit("/", 1)[-1].lower()
    return NAMED.get(_ALSO.get(short, short))


def read_config(path: Path) -> dict[str, Any]:
    """Read a `config.json`, or the folder that holds one."""
    file = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"the configuration cannot be read: {error.strerror or error}"
        raise StewardError(problem, where=str(file), hint="name a config.json") from error
    except ValueError as error:
        hint = "a configuration is one JSON object, as Hugging Face's config.json"
        raise StewardError(f"this is not JSON: {error}", where=str(file), hint=hint) from error
    if not isinstance(found, Mapping) or not isinstance(found.get("model_type"), str):
        raise StewardError(
            "the configuration names no model_type",
            where=str(file),
            hint='add "model_type": for example "llama", "gpt2" or "bert"',
        )
    return dict(found)


_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_UNLIKE = ("attention_types", "layer_types", "layers_block_type", "first_k_dense_replace")


def layers_of(config: Mapping[str, Any]) -> int | None:
    """Return how many layers of one kind a configuration stacks, or none where they differ."""
    if any(config.get(name) for name in _UNLIKE) or config.get("num_decoder_layers"):
        return None
    if any(name in config for name in ("d_kv", "decoder_layers", "encoder_layers")):
        return None
    return next((config[name] for name in _LAYERS if isinstance(config.get(name), int)), None)


def with_layers(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Return the configuration with another number of layers."""
    return {**config, **{name: layers for name in _LAYERS if name in config}}
