"""Write a Llama of random weights as GGUF, with the vocabulary of a GGUF that has only that.

For `llama-server` where no model can be fetched: its texts mean nothing, its times are real.
Needs PyPI's `gguf`. Usage: random_llama.py models/ggml-vocab-llama-spm.gguf random.gguf
"""

from __future__ import annotations

import sys

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from numpy.typing import NDArray

LAYERS, WIDTH, FEED_FORWARD, HEADS, KV_HEADS, WORDS = 16, 2048, 5632, 16, 8, 32_000


def main() -> None:
    """Write settings, vocabulary and weights."""
    vocabulary, out = sys.argv[1:]
    writer = GGUFWriter(out, "llama")
    writer.add_name("random-llama-1b")
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(1)  # fp16
    writer.add_vocab_size(WORDS)
    _copy_tokenizer(GGUFReader(vocabulary), writer)
    writer.add_chat_template(
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "
    )
    _add_weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_tokenizer(reader: GGUFReader, writer: GGUFWriter) -> None:
    for name, field in reader.fields.items():
        if not name.startswith("tokenizer."):
            continue
        kind, parts = field.types[0], [field.parts[place] for place in field.data]
        if kind == GGUFValueType.ARRAY and field.types[-1] == GGUFValueType.STRING:
            writer.add_array(name, [bytes(each) for each in parts])
        elif kind == GGUFValueType.ARRAY:
            writer.add_array(name, [each.tolist()[0] for each in parts])
        elif kind == GGUFValueType.STRING:
            writer.add_string(name, bytes(parts[0]).decode())
        else:
            writer.add_key_value(name, parts[0].tolist()[0], kind)


def _add_weights(writer: GGUFWriter) -> None:
    draw = np.random.default_rng(0)

    def weights(*shape: int) -> NDArray[np.float16]:
        return (draw.standard_normal(shape, dtype=np.float32) * 0.02).astype(np.float16)

    ones = np.ones(WIDTH, np.float32)
    kv_width = WIDTH * KV_HEADS // HEADS
    writer.add_tensor("token_embd.weight", weights(WORDS, WIDTH))
    writer.add_tensor("output.weight", weights(WORDS, WIDTH))
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(LAYERS):
        for name, tensor in {
            "attn_norm": ones,
            "ffn_norm": ones,
            "attn_q": weights(WIDTH, WIDTH),
            "attn_k": weights(kv_width, WIDTH),
            "attn_v": weights(kv_width, WIDTH),
            "attn_output": weights(WIDTH, WIDTH),
            "ffn_gate": weights(FEED_FORWARD, WIDTH),
            "ffn_up": weights(FEED_FORWARD, WIDTH),
            "ffn_down": weights(WIDTH, FEED_FORWARD),
        }.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", tensor)


if __name__ == "__main__":
    main()
