"""Make meta tensors behave as CUDA tensors do, where memory differs. Runs in the worker only.

Functions of torch are replaced for the whole process: a mode would not see calls inside others, nor
the forward passes that gradient checkpointing repeats during the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its common name

__all__ = ["autocast", "install"]

aten = torch.ops.aten
_LOWER = {
    F: "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear",
    torch: "matmul bmm mm mv addmm addmv baddbmm addbmm einsum conv1d conv2d conv3d chain_matmul",
    torch.Tensor: "matmul __matmul__ __rmatmul__ bmm mm mv addmm baddbmm addbmm",
}
_RAISE = {
    F: "layer_norm group_norm softmax log_softmax cross_entropy nll_loss mse_loss l1_loss "
    "smooth_l1_loss kl_div normalize cosine_similarity binary_cross_entropy_with_logits softplus",
    torch: "layer_norm group_norm softmax log_softmax pow rsqrt exp expm1 log log2 log10 log1p "
    "sum norm cumsum cumprod reciprocal prod",
    torch.Tensor: "softmax log_softmax pow __pow__ rsqrt exp expm1 log log2 log10 log1p sum norm "
    "cumsum cumprod reciprocal prod",
}


class _Autocast:
    """The state of autocast to bfloat16: whether it is on, and the cast copies of parameters."""

    on = False
    copies: dict[int, Any] | None = None


@contextmanager
def autocast(*, on: bool) -> Iterator[None]:
    """Cast as CUDA's autocast does; copies of parameters live until the block ends.

    The casts stay on afterwards, without the copies, for what the backward pass computes again.
    """
    _Autocast.on = on
    _Autocast.copies = {} if on else None
    try:
        yield
    finally:
        _Autocast.copies = None


def install() -> None:
    """Replace what differs; once per process."""
    setattr(F, "linear", _linear)  # noqa: B010 - not the types of torch
    for owners, cast in ((_LOWER, _lower), (_RAISE, _raise)):
        for owner, names in owners.items():
            for name in names.split():
                setattr(owner, name, _casting(getattr(owner, name), cast))
    setattr(F, "dropout", _dropout)  # noqa: B010
    F.scaled_dot_product_attention = _attention


def _lower(value: Any) -> Any:
    if not (isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.is_meta):
        return value
    copies = _Autocast.copies
    if copies is None or not (value.requires_grad and value.is_leaf) or value._is_view():  # noqa: SLF001 - torch's own rule
        return value.to(torch.bfloat16)
    if id(value) not in copies:
        copies[id(value)] = value.to(torch.bfloat16)
    return copies[id(value)]


def _raise(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 and value.is_meta:
        return value.float()
    return value


def _casting(original: Callable[..., Any], cast: Callable[[Any], Any]) -> Callable[..., Any]:
    def each(value: Any) -> Any:
        if isinstance(value, list | tuple) and value and isinstance(value[0], torch.Tensor):
            return [cast(part) for part in value]
        return cast(value)

    def call(*args: Any, **options: Any) -> Any:
        if not _Autocast.on:
            return original(*args, **options)
        return original(
            *(each(value) for value in args),
            **{name: each(value) for name, value in options.items()},
        )

    return call


_plain_linear = F.linear


def _linear(given: Any, weight: Any, bias: Any = None) -> Any:
    """Multiply and add in one kernel, as cuBLAS does whatever the strides."""
    if bias is None or given.dim() < 3 or not given.is_meta:
        return _plain_linear(given, weight, bias)
    flat = torch.addmm(bias, given.reshape(-1, given.size(-1)), weight.t())
    return flat.view(*given.shape[:-1], weight.size(0))


def _dropout(
    given: Any,
    p: float = 0.5,
    training: bool = True,  # noqa: FBT001, FBT002 - torch's signature
    inplace: bool = False,  # noqa: ARG001, FBT001, FBT002
) -> Any:
    """Keep one byte per element, not four."""
    if not training or p == 0:
        return given
    return torch.native_dropout(given, p, True)[0]  # noqa: FBT003


def _attention(  # noqa: PLR0913, PLR0917 - torch's signature
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """Choose the kernel as CUDA does: flash, memory-efficient, or plain matrix products."""
    if _Autocast.on:
        query, key, value = _lower(query), _lower(key), _lower(value)
    if query.dim() == 3:
        query, key, value = (part.unsqueeze(0) for part in (query, key, value))
        out = _attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return out.squeeze(0)
    if attn_mask is None and query.dtype != torch.float32:
        return aten._scaled_dot_product_flash_attention(  # noqa: SLF001
            query,
            key,
            value,
            dropout_p,
            is_causal,
            False,  # noqa: FBT003
            scale=scale,
        )[0]
    if key.size(-3) != query.size(-3):
        return _plain_attention(query, key, value, attn_mask, dropout_p, causal=is_causal)
    keeps = torch.is_grad_enabled() and any(part.requires_grad for part in (query, key, value))
    mask = None if attn_mask is None else _additive(attn_mask, query, key)
    return aten._scaled_dot_product_efficient_attention(  # noqa: SLF001
        query, key, value, mask, keeps, dropout_p, is_causal, scale=scale
    )[0]


def _additive(mask: Any, query: Any, key: Any) -> Any:
    if mask.dtype == torch.bool:
        zero = torch.zeros((), dtype=query.dtype, device="meta")
        mask = torch.where(mask, zero, torch.full_like(zero, -1e9))
    return mask.to(query.dtype).expand(*query.shape[:3], key.size(2))


def _plain_attention(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, *, causal: bool
) -> Any:
    """Compute scores in memory: no fused kernel takes fewer key heads in float32 or with a mask."""
    times = query.size(-3) // key.size(-3)
    if causal:
        ones = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool, device="meta")
        mask = _additive_plain(ones.tril(), query.dtype)
    query = query * 1.0
    key = key.repeat_interleave(times, -3)
    value = value.repeat_interleave(times, -3)
    scores = torch.matmul(query, (key * 1.0).transpose(-2, -1))
    if mask is not None:
        scores.add_(mask if mask.dtype != torch.bool else _additive_plain(mask, query.dtype))
    weights = _dropout(torch.softmax(scores, -1), dropout_p, dropout_p > 0)
    return torch.matmul(weights.to(value.dtype), value)


def _additive_plain(mask: Any, dtype: Any) -> Any:
    zero = torch.zeros((), dtype=dtype, device="meta")
    return torch.where(mask, zero, torch.full_like(zero, -1e9))
