"""onnx2tf's models: those whose architecture torchvision, timm or transformers builds.

The list (``bench/records/lists/onnx2tf.tsv``) names files that nobody can rebuild from their names
alone. :data:`BUILT` says which of them are a published architecture, and by what it is made here:
the same layers at the framework's own sizes, random weights of one seed, and ``modelyard convert``
from PyTorch rather than from that file.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch

from bench.records.small import ROWS, SEED, Form, Made, fitted, make

_TV, _TIMM = "torchvision", "timm"
BUILT: dict[str, tuple[str, ...]] = {
    "ConvNext-Tiny.onnx": (_TV, "convnext_tiny"),
    "resnet18-v1-7.onnx": (_TV, "resnet18"),
    "bvlcalexnet-12.onnx": (_TV, "alexnet"),
    "squeezenet1.0-12-int8.onnx": (_TV, "squeezenet1_0"),
    "googlenet-12-int8.onnx": (_TV, "googlenet"),
    "mobilenetv2-10.onnx": (_TV, "mobilenet_v2"),
    "mobilenetv2-12.onnx": (_TV, "mobilenet_v2"),
    "mobilenetv2-12_org.onnx": (_TV, "mobilenet_v2"),
    "mobilenetv2_1dot0_duke_1x3x256x128.onnx": (_TV, "mobilenet_v2"),
    "mobilenetv3_large_pytorch.onnx": (_TV, "mobilenet_v3_large"),
    "shufflenet-v2-12.onnx": (_TV, "shufflenet_v2_x1_0"),
    "densenet-12.onnx": (_TV, "densenet121"),
    "regnet_x_400mf.onnx": (_TV, "regnet_x_400mf"),
    "efficientnet_v2_m.onnx": (_TV, "efficientnet_v2_m"),
    "efficientnet_v2_m_org.onnx": (_TV, "efficientnet_v2_m"),
    "swin_tiny_patch4_window7_224.onnx": (_TIMM, "swin_tiny_patch4_window7_224"),
    "deeplabv3_mobilenet_v3_large.onnx": (_TV, "deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet_v3_large.onnx": (_TV, "lraspp_mobilenet_v3_large"),
    "fcn-resnet50-12-int8.onnx": (_TV, "fcn_resnet50"),
    "ssdlite320_mobilenet_v3_large.onnx": (_TV, "ssdlite320_mobilenet_v3_large"),
    "fasterrcnn_resnet50_fpn.onnx": (_TV, "fasterrcnn_resnet50_fpn"),
    "maskrcnn_resnet50_fpn.onnx": (_TV, "maskrcnn_resnet50_fpn"),
    "efficientnet-lite4-11-int8.onnx": (_TIMM, "efficientnet_lite4"),
    "efficientnet-lite4-11_nchw.onnx": (_TIMM, "efficientnet_lite4"),
    "image_classification_mobilenetv1_2022apr.onnx": (_TIMM, "mobilenetv1_100"),
    "image_classification_mobilenetv1_2022apr_int8.onnx": (_TIMM, "mobilenetv1_100"),
    "image_classification_ppresnet50_2022jan_int8.onnx": (_TV, "resnet50"),
    "mobilevitv2-0.5.onnx": (_TIMM, "mobilevitv2_050"),
    "efficientformer_l1.onnx": (_TIMM, "efficientformer_l1"),
    "res2net50_48w_2s_Opset16.onnx": (_TIMM, "res2net50_48w_2s"),
    "vit_b_encoder.onnx": (_TIMM, "vit_base_patch16_224"),
    "whisper_tiny_encoder_11.onnx": ("transformers", "whisper"),
    "GIST-all-MiniLM-L6-v2.onnx": ("transformers", "bert"),
    "bertsquad-12-int8.onnx": ("transformers", "bert-squad"),
    "detr_demo.onnx": ("transformers", "detr"),
    "rtdetr_r18vd_6x_coco_192x320.onnx": ("transformers", "rt_detr"),
    "vit-b-32_textual.onnx": ("transformers", "clip-text"),
    "superpoint.onnx": ("transformers", "superpoint"),
    "ViT-B-16__openai_partial_cut.onnx": ("transformers", "clip-vision"),
    "rf-detr-nano.onnx": ("transformers", "rf_detr"),
}
"""By the file's name: the framework, and its name for the architecture."""

_FORMS = {
    "whisper": Form("whisper", "WhisperModel", "last_hidden_state", "mel", narrow=False),
    "bert": Form("bert", "AutoModel", "last_hidden_state", "ids"),
    "bert-squad": Form("bert", "AutoModelForQuestionAnswering", "start_logits,end_logits", "ids"),
    "detr": Form("detr", "AutoModelForObjectDetection", "logits,pred_boxes", "pixels"),
    "rt_detr": Form(
        "rt_detr", "AutoModelForObjectDetection", "logits,pred_boxes", "pixels", {"num_queries": 20}
    ),
    "clip-text": Form("clip_text_model", "CLIPTextModel", "last_hidden_state", "ids"),
    "clip-vision": Form("clip_vision_model", "CLIPVisionModel", "last_hidden_state", "pixels"),
    "superpoint": Form(
        "superpoint", "SuperPointForKeypointDetection", "keypoints,scores", "pixels"
    ),
    "rf_detr": Form(
        "rf_detr", "AutoModelForObjectDetection", "logits,pred_boxes", "pixels", {"num_queries": 10}
    ),
}


def build(framework: str, name: str) -> Made:
    """A published architecture with seeded random weights, and samples for it."""
    if framework == "transformers":
        return make(_FORMS[name])
    return timm_model(name) if framework == _TIMM else torchvision_model(name)


def timm_model(name: str) -> Made:
    """One of timm's, at the input size that it says."""
    import timm

    torch.manual_seed(SEED)
    model = timm.create_model(name, pretrained=False).eval()
    samples = {_first(model): _pixels(*model.default_cfg["input_size"])}
    return Made(fitted(model, samples), samples)


def torchvision_model(name: str) -> Made:
    """One of torchvision's: classifiers at 224, segmentation and detectors at 320."""
    from torchvision import models

    torch.manual_seed(SEED)
    options: dict[str, Any] = {"weights": None}
    is_detector = any(word in name for word in ("rcnn", "ssd", "retinanet"))
    is_dense = any(word in name for word in ("deeplab", "lraspp", "fcn_"))
    if is_detector or is_dense:
        options["weights_backbone"] = None
    if name == "googlenet":
        options |= {"aux_logits": False, "init_weights": False}
    model = models.get_model(name, **options).eval()
    if is_detector:
        return Made(_OnePicture(model), {"pixels": _pixels(3, 320, 320)})
    samples = {_first(model): _pixels(3, 224, 224)}
    return Made(fitted(model, samples), samples)


def _first(model: torch.nn.Module) -> str:
    return next(iter(inspect.signature(model.forward).parameters))


class _OnePicture(torch.nn.Module):  # type: ignore[misc]  # torch is not type-checked
    """A detector on a batch of one picture."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        return self.model([pixels[0]])[0]  # type: ignore[no-any-return]


def _pixels(*shape: int) -> np.ndarray[Any, Any]:
    draw = np.random.default_rng(SEED)
    return draw.normal(size=(ROWS, *shape)).astype(np.float32)
