"""A detector of the usual construction, small, with random weights: list of images in, list of
dicts out, anchors on two levels of a feature pyramid, NMS by classes in an operator of its own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.onnx import symbolic_helper

SIZE, CLASSES, IOU = 32, 3, 0.5


def nms(boxes: Tensor, scores: Tensor, iou: float) -> Tensor:
    """The kept rows, best first."""
    kept: list[int] = []
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    dead = torch.zeros(len(boxes), dtype=torch.bool)
    for row in scores.argsort(descending=True).tolist():
        if not dead[row]:
            kept.append(row)
            corner = torch.minimum(boxes[:, 2:], boxes[row, 2:])
            both = (corner - torch.maximum(boxes[:, :2], boxes[row, :2])).clamp(min=0).prod(1)
            dead |= both / (area + area[row] - both) > iou
    return torch.tensor(kept, dtype=torch.int64)


def in_onnx(g, boxes, scores, iou):
    """`nms` as ONNX has it."""
    most = g.op("Constant", value_t=torch.tensor([2**31]))
    limit = g.op("Constant", value_t=torch.tensor([symbolic_helper._get_const(iou, "f", "iou")]))
    zero = g.op("Constant", value_t=torch.tensor([0]))
    boxes, scores = g.op("Unsqueeze", boxes, zero), g.op("Unsqueeze", scores, zero)
    scores = g.op("Unsqueeze", scores, zero)
    found = g.op("NonMaxSuppression", boxes, scores, most, limit)
    return g.op("Gather", found, g.op("Constant", value_t=torch.tensor(2)), axis_i=1)


if not hasattr(torch.ops.small_detector, "nms"):  # the file may be imported more than once
    torch.small_detector = torch.library.Library("small_detector", "DEF")
    torch.small_detector.define("nms(Tensor boxes, Tensor scores, float iou) -> Tensor")
    torch.small_detector.impl("nms", nms, "CPU")
    torch.library.register_fake(
        "small_detector::nms",
        lambda boxes, _, __: boxes.new_empty(
            torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64
        ),
        lib=torch.small_detector,
    )
    torch.onnx.register_custom_op_symbolic("small_detector::nms", in_onnx, 11)


class Detector(nn.Module):
    """Resizes, finds, and gives boxes in pixels of the image as it came."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.register_buffer("mean", torch.tensor([0.1, 0.2, 0.3]).reshape(3, 1, 1))
        self.stem = nn.Conv2d(3, 8, 3, stride=4, padding=1)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.side = nn.Conv2d(8, 8, 1)
        self.scores = nn.Conv2d(8, CLASSES, 3, padding=1)
        self.boxes = nn.Conv2d(8, 4, 3, padding=1)
        with torch.no_grad():
            self.scores.weight *= 12
            self.scores.bias -= 1

    def size(self, image: Tensor) -> Tensor:
        """Height and width as a tensor, which a trace follows."""
        return torch._shape_as_tensor(image)[1:]

    def levels(self, image: Tensor) -> list[Tensor]:
        """Features of 8x8 and 4x4."""
        if self.mean.any():
            image = image.clamp(0, 1) - self.mean
        image = functional.interpolate(image[None], size=(SIZE, SIZE), mode="bilinear")
        fine = self.stem(image).relu()
        coarse = self.down(fine).relu()
        return [self.side(fine) + functional.interpolate(coarse, scale_factor=2.0), coarse]

    def found(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes of one level in 0..1, their scores and classes, above the threshold."""
        count = features.shape[-1]
        place = (torch.arange(count, dtype=torch.float32) + 0.5) / count
        centre = torch.stack(torch.meshgrid(place, place, indexing="xy"), -1).reshape(-1, 2)
        moved, grown = self.boxes(features)[0].reshape(4, -1).T.split(2, 1)
        centre, half = centre + 0.05 * moved, grown.clamp(max=2).exp() / count
        boxes = torch.cat([centre - half, centre + half], 1).clamp(0, 1)
        scores = self.scores(features)[0].reshape(CLASSES, -1).sigmoid()
        labels, rows = torch.where(scores > 0.5)
        return boxes[rows], scores[labels, rows], labels

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        """Images of 3 x H x W in 0..1."""
        results = []
        for image in images:
            boxes, scores, labels = map(
                torch.cat, zip(*map(self.found, self.levels(image)), strict=True)
            )
            if boxes.shape[0] > 100000:
                raise ValueError("too many boxes")
            apart = boxes + 2 * labels[:, None].to(boxes)
            kept = torch.ops.small_detector.nms(apart, scores, IOU)[:20]
            height, width = self.size(image).to(boxes).unbind()
            boxes = boxes[kept] * torch.stack([width, height, width, height])
            results.append({"boxes": boxes, "labels": labels[kept], "scores": scores[kept]})
        return results


class OneSize(Detector):
    """The same with the size as a Python number: a trace keeps that of its example."""

    def size(self, image: Tensor) -> Tensor:
        return torch.tensor(super().size(image).tolist())


class Blind(Detector):
    """The same, finding nothing in any image."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            self.scores.bias -= 1000
