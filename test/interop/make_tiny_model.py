#!/usr/bin/env python3
"""Makes a tiny random Llama, with a byte-level tokenizer trained on the spot and a ChatML template: about 3 MB.

    python make_tiny_model.py OUT_DIR [SEED [POSITIONS]]

Nothing is downloaded. Needs torch, transformers and tokenizers, which come with vLLM.
"""
import glob
import os
import sys
import sysconfig

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
POSITIONS = 2048


def texts():
    """The same for the same Python: sources of its standard library."""
    for name in sorted(glob.glob(os.path.join(sysconfig.get_paths()["stdlib"], "*.py")))[:60]:
        with open(name, encoding="utf-8", errors="replace") as source:
            yield source.read()


def make_tokenizer(positions=POSITIONS):
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIAL,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    raw.train_from_iterator(texts(), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token=None,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=positions,
    )
    fast.chat_template = CHATML
    return fast


def make_model(vocabulary, eos, pad, seed, positions):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=positions,
            bos_token_id=None,
            eos_token_id=eos,
            pad_token_id=pad,
            tie_word_embeddings=False,
            initializer_range=0.1,
        )
    ).to(torch.float32)
    with torch.no_grad():
        # Sharper than uniform: no two tokens are so close that rounding decides between them.
        model.lm_head.weight.mul_(2.0)
    return model


def main(out, seed=0, positions=POSITIONS):
    tokenizer = make_tokenizer(int(positions))
    eos, pad = (tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>"))
    os.makedirs(out, exist_ok=True)
    make_model(len(tokenizer), eos, pad, int(seed), int(positions)).save_pretrained(out)
    tokenizer.save_pretrained(out)
    GenerationConfig(eos_token_id=[eos, pad], pad_token_id=pad, bos_token_id=None).save_pretrained(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
