"""Writes a small llama with random weights and a vocabulary: python write_llama.py FILE."""

import sys

import gguf
import numpy

WIDTH, LAYERS, HEADS, FEED, WORDS, CONTEXT = 256, 4, 8, 512, 4000, 2048


def main(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(WORDS)
    add_words(writer)
    random = numpy.random.default_rng(1)

    def add(name, *shape):
        values = numpy.ones(shape) if len(shape) == 1 else random.normal(0, shape[-1] ** -0.5, shape)
        writer.add_tensor(name + ".weight", values.astype(numpy.float32))

    add("token_embd", WORDS, WIDTH)
    for layer in range(LAYERS):
        block = "blk.%d." % layer
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(block + name, WIDTH, WIDTH)
        add(block + "ffn_gate", FEED, WIDTH)
        add(block + "ffn_up", FEED, WIDTH)
        add(block + "ffn_down", WIDTH, FEED)
        add(block + "attn_norm", WIDTH)
        add(block + "ffn_norm", WIDTH)
    add("output_norm", WIDTH)
    add("output", WORDS, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_words(writer):
    """A vocabulary of SentencePiece: special words, every byte, and words of letters."""
    special = ["<unk>", "<s>", "</s>"]
    words = special + ["<0x%02X>" % byte for byte in range(256)]
    words += ["\u2581" + chr(97 + n % 26) + chr(97 + n // 26 % 26) + chr(97 + n // 676) for n in range(WORDS - len(words))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (WORDS - 259)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([-float(n) for n in range(WORDS)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


main(sys.argv[1])
