#!/usr/bin/env python3
"""Makes a tiny random Qwen2-VL: the tokenizer of make_tiny_model.py with the tokens of pictures, about 4 MB.

    python make_tiny_vlm.py OUT_DIR [SEED]

Nothing is downloaded. A picture becomes one id for each 28 x 28 points, from 4 to 36 of them.
"""
import os
import sys

import make_tiny_model as tiny
import torch
from transformers import (
    GenerationConfig,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
)

PICTURE = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.content is string %}{{- m.content }}{%- else %}{%- for p in m.content %}"
    "{%- if p.type == 'text' %}{{- p.text }}"
    "{%- else %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
POINTS = {"shortest_edge": 4 * 28 * 28, "longest_edge": 36 * 28 * 28}


def main(out, seed):
    tokenizer = tiny.make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": PICTURE})
    tokenizer.chat_template = TEMPLATE
    of = tokenizer.convert_tokens_to_ids
    eos, pad = of("<|im_end|>"), of("<|endoftext|>")
    torch.manual_seed(seed)
    model = Qwen2VLForConditionalGeneration(
        Qwen2VLConfig(
            text_config={
                "vocab_size": len(tokenizer),
                "hidden_size": 128,
                "intermediate_size": 256,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "max_position_embeddings": tiny.POSITIONS,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
                "initializer_range": 0.1,
                "bos_token_id": None,
                "eos_token_id": eos,
                "pad_token_id": pad,
            },
            vision_config={
                "depth": 2,
                "embed_dim": 64,
                "hidden_size": 128,
                "num_heads": 2,
                "mlp_ratio": 2,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                "initializer_range": 0.1,
            },
            image_token_id=of("<|image_pad|>"),
            video_token_id=of("<|video_pad|>"),
            vision_start_token_id=of("<|vision_start|>"),
            vision_end_token_id=of("<|vision_end|>"),
            tie_word_embeddings=False,
        )
    ).to(torch.float32)
    with torch.no_grad():
        model.lm_head.weight.mul_(2.0)
        # Like a trained model, it does not say what stands for a picture.
        model.lm_head.weight[of(PICTURE)] = 0.0
    os.makedirs(out, exist_ok=True)
    model.save_pretrained(out)
    Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=POINTS, patch_size=14, temporal_patch_size=2, merge_size=2),
        video_processor=Qwen2VLVideoProcessor(size=POINTS, patch_size=14, temporal_patch_size=2, merge_size=2),
        tokenizer=tokenizer,
        chat_template=TEMPLATE,
    ).save_pretrained(out)
    GenerationConfig(eos_token_id=[eos, pad], pad_token_id=pad, bos_token_id=None).save_pretrained(out)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
