"""Small transformers models with random weights, saved as a user's folder would be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers

_TEXT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 128,
}
_DISTIL = {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}
_GPT2 = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
_VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "image_size": 32,
    "patch_size": 8,
}
_WAV = {
    **_TEXT,
    "conv_dim": (16, 16),
    "conv_kernel": (8, 4),
    "conv_stride": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
}
_NAMES = {"id2label": {0: "cat", 1: "dog", 2: "cow"}, "label2id": {"cat": 0, "dog": 1, "cow": 2}}


def _text(**more: Any) -> dict[str, Any]:
    return {**_TEXT, **more}


MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    # a name: config class, model class, settings
    "bert": ("BertConfig", "BertModel", _text()),
    "bert-mlm": ("BertConfig", "BertForMaskedLM", _text()),
    "bert-classes": ("BertConfig", "BertForSequenceClassification", _text(**_NAMES)),
    "bert-tokens": ("BertConfig", "BertForTokenClassification", _text(**_NAMES)),
    "bert-qa": ("BertConfig", "BertForQuestionAnswering", _text()),
    "bert-choice": ("BertConfig", "BertForMultipleChoice", _text()),
    "roberta": ("RobertaConfig", "RobertaForSequenceClassification", _text(type_vocab_size=1)),
    "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaForMaskedLM", _text(type_vocab_size=1)),
    "distilbert": ("DistilBertConfig", "DistilBertForSequenceClassification", _DISTIL),
    "albert": ("AlbertConfig", "AlbertForMaskedLM", _text(embedding_size=16)),
    "electra": ("ElectraConfig", "ElectraForTokenClassification", _text(embedding_size=16)),
    "mpnet": ("MPNetConfig", "MPNetModel", _text()),
    "deberta-v2": (
        "DebertaV2Config",
        "DebertaV2ForSequenceClassification",
        _text(relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"]),
    ),
    "modernbert": (
        "ModernBertConfig",
        "ModernBertForMaskedLM",
        _text(pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2),
    ),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", _GPT2),
    "llama": ("LlamaConfig", "LlamaForCausalLM", _text(num_key_value_heads=2)),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", _text(num_key_value_heads=2)),
    "t5-encoder": ("T5Config", "T5EncoderModel", _T5),
    "t5": ("T5Config", "T5ForConditionalGeneration", {**_T5, "decoder_start_token_id": 0}),
    "bart": (
        "BartConfig",
        "BartForConditionalGeneration",
        {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2},
    ),
    "vit": ("ViTConfig", "ViTForImageClassification", {**_VISION, **_NAMES}),
    "vit-features": ("ViTConfig", "ViTModel", _VISION),
    "deit": ("DeiTConfig", "DeiTForImageClassification", _VISION),
    "dinov2": ("Dinov2Config", "Dinov2Model", _VISION),
    "beit": ("BeitConfig", "BeitForImageClassification", _VISION),
    "swin": (
        "SwinConfig",
        "SwinForImageClassification",
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
    ),
    "convnext": (
        "ConvNextConfig",
        "ConvNextForImageClassification",
        {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "image_size": 64},
    ),
    "resnet": (
        "ResNetConfig",
        "ResNetForImageClassification",
        {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "embedding_size": 8, **_NAMES},
    ),
    "mobilenet-v2": ("MobileNetV2Config", "MobileNetV2ForImageClassification", {"image_size": 64}),
    "segformer": (
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "decoder_hidden_size": 16},
    ),
    "dpt": (
        "DPTConfig",
        "DPTForDepthEstimation",
        {
            **_VISION,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
        },
    ),
    "yolos": (
        "YolosConfig",
        "YolosForObjectDetection",
        {**_VISION, "image_size": [32, 48], "num_detection_tokens": 5},
    ),
    "clip": (
        "CLIPConfig",
        "CLIPModel",
        {
            "text_config": {**_TEXT, "eos_token_id": 98},
            "vision_config": _VISION,
            "projection_dim": 16,
        },
    ),
    "siglip": (
        "SiglipConfig",
        "SiglipModel",
        {"text_config": _TEXT, "vision_config": _VISION},
    ),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForCTC", _WAV),
    "hubert": ("HubertConfig", "HubertForSequenceClassification", {**_WAV, **_NAMES}),
    "ast": (
        "ASTConfig",
        "ASTForAudioClassification",
        {**_TEXT, "max_length": 64, "num_mel_bins": 32, "patch_size": 8, **_NAMES},
    ),
    "whisper": (
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "vocab_size": 99,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
    ),
    "whisper-classes": (
        "WhisperConfig",
        "WhisperForAudioClassification",
        {
            "d_model": 32,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "vocab_size": 99,
            "pad_token_id": 0,
            "max_source_positions": 50,
            **_NAMES,
        },
    ),
}
_PREPROCESSORS = {
    "resnet": {"do_resize": True, "size": {"shortest_edge": 64}, "crop_pct": 0.875},
    "segformer": {"do_resize": True, "size": {"height": 64, "width": 96}},
}


def save(name: str, folder: Path, **settings: Any) -> Path:
    """The model ``name`` with random weights (seed 0) in ``folder``; gives the folder."""
    config_name, class_name, own = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_name)(**own, **settings)
    model = getattr(transformers, class_name)(config).eval()
    # Fresh weights are so small that every output looks alike; biases and norms are constant.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder, safe_serialization=True)
    if name in _PREPROCESSORS:
        (folder / "preprocessor_config.json").write_text(json.dumps(_PREPROCESSORS[name]))
    return folder
