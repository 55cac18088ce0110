"""winml-cli's model-task pairs: those whose architecture transformers or timm builds without files.

The list says what winml-cli publishes of each pair (``bench/records/lists/winml.tsv``: its own
CPU run). Here each architecture and task is one model of small size with seeded random weights,
which counts for all pairs of that architecture and task.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
_BACKBONE = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
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
        "sam", "AutoModelForMaskGeneration", "pred_masks,iou_scores", "pixels points"),
    ("sam2_video", "mask-generation"): Form(
        "sam2", "Sam2Model", "pred_masks,iou_scores", "pixels points"),
    ("pix2struct", "visual-question-answering"): Form(
        "pix2struct", "Pix2StructForConditionalGeneration", "logits", "patches decoder"),
    ("vision-encoder-decoder", "image-to-text"): Form(
        "vision-encoder-decoder", "VisionEncoderDecoderModel", "logits", "pixels decoder"),
    ("vilt", "visual-question-answering"): Form(
        "vilt", "ViltForQuestionAnswering", "logits", "ids pixels"),
    ("blip", "image-to-text"): Form(
        "blip", "BlipForConditionalGeneration", "logits", "pixels ids"),
    ("blip", "visual-question-answering"): Form(
        "blip", "BlipForQuestionAnswering", "decoder_hidden_states", "ids pixels decoder"),
    ("blip-2", "visual-question-answering"): Form(
        "blip-2", "Blip2ForConditionalGeneration", "logits", "pixels ids"),
    ("mgp-str", "image-to-text"): Form(
        "mgp-str", "MgpstrForSceneTextRecognition", "logits", "pixels"),
    ("xclip", "video-classification"): Form(
        "xclip", "XCLIPModel", "logits_per_video", "ids video"),
    ("t5", "translation"): Form("t5", "AutoModelForSeq2SeqLM", "logits", "ids decoder"),
    ("speecht5", "text-to-speech"): Form(
        "speecht5", "SpeechT5ForTextToSpeech", "spectrogram", "ids speech"),
}  # fmt: skip
"""Where the task's row in the table isn't enough."""

UNKNOWN = {
    "unknown": "the list names no architecture",
    "internlm2": "transformers has no such type: its code comes with its weights",
    "phi4mm": "transformers has no such type: its code comes with its weights",
    "vibevoice_streaming": "transformers has no such type",
    "vibevoice_asr": "not made: sound and text in one model",
}
"""Types that aren't built here, and why."""


def form_of(kind: str, task: str) -> Form | None:
    """How a type is made for a task; None where it isn't."""
    if kind in UNKNOWN or kind == "timm_wrapper":
        return None
    if (kind, task) in SPECIAL:
        return SPECIAL[kind, task]
    if task not in _HEADS:
        return None
    auto, outputs = _HEADS[task]
    inputs = "pixels" if task in _PICTURES else "ids"
    return Form(kind, auto, outputs, f"{inputs} decoder" if task in _SEQ2SEQ else inputs)


def makers(pairs: list[tuple[str, str, str]]) -> dict[str, Callable[[], Made]]:
    """How to make each architecture and task of the list, by ``TYPE TASK``.

    Args:
        pairs: Model, task and type.
    """
    found: dict[str, Callable[[], Made]] = {}
    for model, task, kind in pairs:
        if kind == "timm_wrapper":
            from bench.records.corpus import timm_model

            name = model.removeprefix("timm/").partition(".")[0]
            found[key(model, task, kind)] = partial(timm_model, name)
        elif form := form_of(kind, task):
            found[key(model, task, kind)] = partial(make, form)
    return found


def key(model: str, task: str, kind: str) -> str:
    """The name of a pair's architecture and task."""
    return model if kind == "timm_wrapper" else f"{kind} {task or 'text2text-generation'}"
