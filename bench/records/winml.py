"""winml-cli's model-task pairs: those whose architecture transformers or timm builds without files.

The list says what winml-cli publishes of each pair (``bench/records/lists/winml.tsv``: its own
CPU run). Here each architecture and class is one model of small size with seeded random weights,
which counts for all pairs of that architecture whose task the class does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.records.corpus import timm_model
from bench.records.small import Form, Made, make

_HEADS = {
    "feature-extraction": ("AutoModel", "last_hidden_state"),
    "sentence-similarity": ("AutoModel", "last_hidden_state"),
    "fill-mask": ("AutoModelForMaskedLM", "logits"),
    "masked-lm": ("AutoModelForMaskedLM", "logits"),
    "text-classification": ("AutoModelForSequenceClassification", "logits"),
    "zero-shot-classification": ("AutoModelForSequenceClassification", "logits"),
    "token-classification": ("AutoModelForTokenClassification", "logits"),
    "question-answering": ("AutoModelForQuestionAnswering", "start_logits,end_logits"),
    "text-generation": ("AutoModelForCausalLM", "logits"),
    "image-classification": ("AutoModelForImageClassification", "logits"),
    "image-feature-extraction": ("AutoModel", "last_hidden_state"),
    "image-segmentation": ("AutoModelForSemanticSegmentation", "logits"),
    "object-detection": ("AutoModelForObjectDetection", "logits,pred_boxes"),
    "depth-estimation": ("AutoModelForDepthEstimation", "predicted_depth"),
    "summarization": ("AutoModelForSeq2SeqLM", "logits"),
    "translation": ("AutoModelForSeq2SeqLM", "logits"),
    "table-question-answering": ("AutoModelForSeq2SeqLM", "logits"),
    "": ("AutoModelForSeq2SeqLM", "logits"),
}
_PICTURES = ("image-classification", "image-feature-extraction", "image-segmentation",
             "object-detection", "depth-estimation")  # fmt: skip
_SEQ2SEQ = ("summarization", "translation", "table-question-answering", "")

_CLIP = "logits_per_image,text_embeds,image_embeds"
SPECIAL = {
    **dict.fromkeys((("clip", task) for task in ("zero-shot-image-classification",
      "zero-shot-classification", "feature-extraction")),
      Form("clip", "AutoModelForZeroShotImageClassification", _CLIP, "ids pixels")),
    ("siglip", "zero-shot-image-classification"): Form(
        "siglip", "AutoModelForZeroShotImageClassification", _CLIP, "only-ids pixels"),
    ("siglip_vision_model", "image-feature-extraction"): Form(
        "siglip_vision_model", "AutoModel", "last_hidden_state", "pixels"),
    ("detr", "object-detection"): Form(
        "detr", "AutoModelForObjectDetection", "logits,pred_boxes", "pixels"),
    ("detr", "feature-extraction"): Form("detr", "AutoModel", "last_hidden_state", "pixels"),
    ("sam", "mask-generation"): Form(
        "sam", "AutoModelForMaskGeneration", "pred_masks,iou_scores", "pixels points", {
            "vision_config": {
                "hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2, "image_size": 64,
                "num_attention_heads": 4, "patch_size": 8, "mlp_dim": 64, "window_size": 4,
                "num_pos_feats": 8, "global_attn_indexes": [1],
            },
            "prompt_encoder_config": {
                "hidden_size": 16, "image_size": 64, "patch_size": 8, "mask_input_channels": 4,
            },
            "mask_decoder_config": {
                "hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
                "iou_head_hidden_dim": 16,
            },
        }, narrow=False),
    ("sam2_video", "mask-generation"): Form(
        "sam2", "Sam2Model", "pred_masks,iou_scores", "pixels points", {
            "vision_config": {
                "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]],
                "backbone_config": {
                    "model_type": "sam2_hiera_det_model", "image_size": [128, 128]},
            },
            "prompt_encoder_config": {"image_size": 128},
        }, narrow=False),
    ("convnext", "image-classification"): Form(
        "convnext", "AutoModelForImageClassification", "logits", "pixels",
        {"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1], "image_size": 64},
        narrow=False),
    **{(kind, "image-classification"): Form(
        kind, "AutoModelForImageClassification", "logits", "pixels",
        {"embed_dim": 16, "depths": [1, 2], "num_heads": [2, 4], "window_size": 4,
         "image_size": 64}, narrow=False) for kind in ("swin", "swinv2")},
    **{("bart", task): Form(
        "bart", "AutoModelForSequenceClassification", "logits", "ended")
        for task in ("text-classification", "zero-shot-classification")},
    ("dpt", "depth-estimation"): Form(
        "dpt", "AutoModelForDepthEstimation", "predicted_depth", "pixels",
        {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
         "neck_hidden_sizes": [16, 32, 64, 64], "fusion_hidden_size": 32}),
    ("zoedepth", "depth-estimation"): Form(
        "zoedepth", "AutoModelForDepthEstimation", "predicted_depth", "pixels",
        {"backbone_config": {
            "model_type": "beit", "hidden_size": 32, "num_hidden_layers": 4, "image_size": 64,
            "num_attention_heads": 4, "intermediate_size": 64, "reshape_hidden_states": False,
            "use_relative_position_bias": True, "out_features": [f"stage{n}" for n in range(1, 5)]},
         "neck_hidden_sizes": [16, 32, 64, 64], "fusion_hidden_size": 32,
         "bottleneck_features": 32, "num_relative_features": 8}, narrow=False),
    **{(kind, "object-detection"): Form(
        kind, "AutoModelForObjectDetection", "logits,pred_boxes", "pixels", {"num_queries": 20})
        for kind in ("rt_detr", "rt_detr_v2")},
    **{("marian", task): Form(
        "marian", "AutoModelForSeq2SeqLM", "logits", "ids decoder",
        {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0})
        for task in ("translation",)},
    ("pix2struct", "visual-question-answering"): Form(
        "pix2struct", "Pix2StructForConditionalGeneration", "logits", "patches decoder"),
    ("vision-encoder-decoder", "image-to-text"): Form(
        "vision-encoder-decoder", "VisionEncoderDecoderModel", "logits", "pixels decoder"),
    ("vilt", "visual-question-answering"): Form(
        "vilt", "ViltForQuestionAnswering", "logits", "ids pixels"),
    ("blip", "image-to-text"): Form(
        "blip", "BlipForConditionalGeneration", "logits", "pixels ids"),
    ("depth_pro", "depth-estimation"): Form(
        "depth_pro", "AutoModelForDepthEstimation", "predicted_depth", "pixels", {
            "patch_size": 32, "image_size": 64, "fusion_hidden_size": 16,
            "intermediate_hook_ids": [1, 0], "intermediate_feature_dims": [16, 16],
            "scaled_images_feature_dims": [16, 16], "scaled_images_ratios": [0.5, 1.0],
            "scaled_images_overlap_ratios": [0.0, 0.2],
            **{f"{part}_model_config": {
                "model_type": "dinov2", "hidden_size": 16, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": 32, "image_size": 32,
                "patch_size": 8, "mlp_ratio": 2} for part in ("image", "patch", "fov")},
        }, narrow=False),
    ("blip-2", "visual-question-answering"): Form(
        "blip-2", "Blip2ForConditionalGeneration", "logits", "pixels seen",
        {"image_token_id": 5, "num_query_tokens": 4}),
    ("mgp-str", "image-to-text"): Form(
        "mgp-str", "MgpstrForSceneTextRecognition", "logits", "pixels"),
    ("xclip", "video-classification"): Form(
        "xclip", "XCLIPModel", "logits_per_video", "ids video",
        {"vision_config": {"mit_hidden_size": 32, "mit_intermediate_size": 64}}),
    ("speecht5", "text-to-speech"): Form(
        "speecht5", "SpeechT5ForTextToSpeech", "spectrogram", "ids speech"),
}  # fmt: skip
"""Where the task's row in the table isn't enough."""

UNKNOWN = {
    "unknown": "the list names no architecture",
    "internlm2": "transformers has no such type: its code comes with its weights",
    "phi4mm": "transformers has no such type: its code comes with its weights",
    "vibevoice_streaming": "transformers has no such type",
    "vibevoice_asr": "not made here: sound and text in one model",
    "blip visual-question-answering": "its forward gives no answer: it only generates",
}
"""Types, or types and tasks, that aren't built here, and why."""


def form_of(kind: str, task: str) -> Form | None:
    """How a type is made for a task; None where it isn't."""
    if {kind, f"{kind} {task}"} & {*UNKNOWN, "timm_wrapper"}:
        return None
    if (kind, task) in SPECIAL:
        return SPECIAL[kind, task]
    if task not in _HEADS:
        return None
    auto, outputs = _HEADS[task]
    inputs = "pixels" if task in _PICTURES else "ids"
    return Form(kind, auto, outputs, f"{inputs} decoder" if task in _SEQ2SEQ else inputs)


def makers(pairs: list[tuple[str, str, str]]) -> dict[str, Callable[[], Made]]:
    """How to make each architecture and task of the list, by :func:`key`.

    Args:
        pairs: Model, task and type.
    """
    found: dict[str, Callable[[], Made]] = {}
    for model, task, kind in pairs:
        name = key(model, task, kind)
        if kind == "timm_wrapper":
            found[name] = partial(timm_model, name.removeprefix("timm "))
        elif form := form_of(kind, task):
            found[name] = partial(make, form)
    return found


def key(model: str, task: str, kind: str) -> str:
    """The name of the case that a pair is: its type and class; empty where it is none.

    Args:
        model: The model's name.
        task: The task of the pair.
        kind: The model's type, as its configuration names it.
    """
    if kind == "timm_wrapper":
        return f"timm {model.removeprefix('timm/').partition('.')[0]}"
    form = form_of(kind, task)
    return f"{form.type} {form.auto}" if form else ""
