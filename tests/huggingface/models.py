"""Small transformers models with random weights, saved as a user's folder would be."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers

_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_SIZES = {**_LAYERS, "intermediate_size": 37}
_TEXT = {**_SIZES, "vocab_size": 99, "max_position_embeddings": 128}
_GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
_VISION = {**_SIZES, "image_size": 32, "patch_size": 8}
_ENDS = {"text_config": {**_TEXT, "eos_token_id": 98}, "vision_config": _VISION}
_CLIP = {**_ENDS, "projection_dim": 16}
_CONV = {"conv_dim": (16, 16), "conv_kernel": (8, 4), "conv_stride": (8, 4)}
_WAV = {
    **_TEXT, **_CONV, "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
_WHISPER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
_RESNET = {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "embedding_size": 8}
_NAMES = {"id2label": {0: "cat", 1: "dog", 2: "cow"}, "label2id": {"cat": 0, "dog": 1, "cow": 2}}
_BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "vocab_size": 99,
}  # fmt: skip
_START = {"decoder_start_token_id": 0}
_ONE_TYPE = {"type_vocab_size": 1}

MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # a name: config class, model class, settings
    "bert": ("BertConfig", "BertModel", _TEXT),
    "bert-mlm": ("BertConfig", "BertForMaskedLM", _TEXT),
    "bert-classes": ("BertConfig", "BertForSequenceClassification", {**_TEXT, **_NAMES}),
    "bart": ("BartConfig", "BartForQuestionAnswering", _BART),
    "roberta": ("RobertaConfig", "RobertaForSequenceClassification", {**_TEXT, **_ONE_TYPE}),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", _GPT2),
    "t5": ("T5Config", "T5ForConditionalGeneration", {**_T5, **_START}),
    "vit-features": ("ViTConfig", "ViTModel", _VISION),
    "resnet": ("ResNetConfig", "ResNetForImageClassification", {**_RESNET, **_NAMES}),
    "clip": ("CLIPConfig", "CLIPModel", _CLIP),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForCTC", _WAV),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration", _WHISPER),
}
_PREPROCESSORS = {"resnet": {"do_resize": True, "size": {"shortest_edge": 64}, "crop_pct": 0.875}}


def save(name: str, folder: Path, **settings: Any) -> Path:
    """The model ``name`` with random weights (seed 0) in ``folder``; gives the folder."""
    config_name, class_name, own = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_name)(**(own | settings))
    model = getattr(transformers, class_name)(config).eval()
    # Fresh weights are so small that every output looks alike; biases and norms are constant.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder, safe_serialization=True)
    if name in _PREPROCESSORS:
        (folder / "preprocessor_config.json").write_text(json.dumps(_PREPROCESSORS[name]))
    return folder
