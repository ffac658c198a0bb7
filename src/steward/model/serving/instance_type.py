"""A model server: how long its steps take, how much it holds, how long it needs to start."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["H200_LLAMA_8B", "InstanceType", "StepTimes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long one step of continuous batching takes.

    A step computes the tokens of prompts (`prefill_tokens`) and one token for each of
    `decode_sequences`, which together read `kv_tokens` from the cache. `attention_pairs` is the
    sum over the prompts' chunks of tokens x (tokens before them + half the chunk).

    Time is flat up to `bend_tokens` in a step (weights are read once, however many tokens use
    them) and grows linearly beyond; nothing in it depends on the order of sequences.
    """

    fixed_s: float  # of every step
    prefill_s: float = 0.0  # more for a step with prompt tokens in it
    token_s: float = 0.0  # for each token of the step
    bend_tokens: float = 0.0
    token_beyond_s: float = 0.0  # more for each token beyond the bend
    sequence_s: float = 0.0  # for each decoding sequence
    kv_token_s: float = 0.0  # for each cached token that decoding reads
    attention_s: float = 0.0  # for each of `attention_pairs`

    def step_s(
        self,
        *,
        prefill_tokens: float = 0.0,
        decode_sequences: float = 0.0,
        kv_tokens: float = 0.0,
        attention_pairs: float = 0.0,
    ) -> float:
        """Return the seconds of one step."""
        tokens = prefill_tokens + decode_sequences
        return (
            self.fixed_s
            + (self.prefill_s if prefill_tokens > 0 else 0.0)
            + self.token_s * tokens
            + self.token_beyond_s * max(0.0, tokens - self.bend_tokens)
            + self.sequence_s * decode_sequences
            + self.kv_token_s * kv_tokens
            + self.attention_s * attention_pairs
        )

    def scaled(self, factor: float) -> StepTimes:
        """Return the times of steps that all take `factor` times as long."""
        times = {
            name: getattr(self, name) * factor for name in self.__slots__ if name != "bend_tokens"
        }
        return replace(self, **times)

    def coefficients(self) -> tuple[float, ...]:
        """Return the numbers in the order of the fields, for compiled code."""
        return (
            self.fixed_s,
            self.prefill_s,
            self.token_s,
            self.bend_tokens,
            self.token_beyond_s,
            self.sequence_s,
            self.kv_token_s,
            self.attention_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One model on so many GPUs, with the limits that its server was started with.

    Loading another model on the same GPUs turns an instance into one of another type.
    """

    name: str
    model: str
    step_times: StepTimes
    gpus: int = 1
    kv_tokens: int = 524_288  # the KV cache's capacity
    block_tokens: int = 16
    max_sequences: int = 256  # running at once
    max_batched_tokens: int = 8192  # of one step: longer prompts are computed in chunks
    max_waiting: int = 8  # that a gateway sends beyond what the server has begun to run
    watermark_share: float = 0.01  # of the blocks: kept free when a request is admitted
    start_s: float = 60.0  # from nothing to serving
    swap_s: float = 20.0  # to load this model where another one was
    base: str = ""  # adapters of one base model share its weights
    adapter_s: float = 1.0  # to load this adapter where another one of its base was

    def swap_from_s(self, loaded: InstanceType) -> float:
        """Return how long loading this model takes where `loaded` is."""
        return self.adapter_s if self.base and self.base == loaded.base else self.swap_s

    def faults(self) -> tuple[str, ...]:
        """Return all that is wrong with the limits."""
        least = {
            "gpus": self.gpus,
            "block_tokens": self.block_tokens,
            "max_sequences": self.max_sequences,
            "max_waiting": self.max_waiting,
        }
        found = [f"{name} is {value}, at least 1 is needed" for name, value in least.items()]
        wrong = [text for text, value in zip(found, least.values(), strict=True) if value < 1]
        if self.kv_tokens < self.block_tokens:
            wrong.append(f"kv_tokens is {self.kv_tokens}, less than a block")
        if self.max_batched_tokens <= self.max_sequences:
            wrong.append(
                f"max_batched_tokens is {self.max_batched_tokens}: with {self.max_sequences} "
                "sequences decoding, no prompt would be computed"
            )
        if not 0 <= self.watermark_share < 1:
            wrong.append(f"watermark_share is {self.watermark_share}, not from 0 to 1")
        return tuple(wrong)


# Fitted by `learn/step_times.py` to all 89 points measured on one H200 (Llama-3-8B's shape, bf16).
H200_LLAMA_8B = InstanceType(
    name="h200-llama-8b",
    model="llama-8b",
    step_times=StepTimes(
        fixed_s=5.0486e-3,
        prefill_s=6.0636e-4,
        token_s=4.1818e-6,
        bend_tokens=181.0,
        token_beyond_s=1.93704e-5,
        sequence_s=6.3315e-6,
        kv_token_s=4.7631e-8,
        attention_s=2.4567e-9,
    ),
)
