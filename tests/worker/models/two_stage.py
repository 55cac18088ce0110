"""A detector of two stages, of the usual construction, small, with random weights: proposals by
score and NMS, RoIAlign on the level of their size, classes and boxes of each, NMS by classes, and a
mask pasted where each box is."""

from __future__ import annotations

import torch
from detector import CLASSES, IOU, SIZE, Detector
from torch import Tensor, nn
from torch.nn import functional
from torch.onnx import symbolic_helper

POOL, RATIO = 3, 2


def taps(at: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """The places below and above, and the share of the upper."""
    low = at.floor().clamp(0, length - 1)
    return low.long(), (low + 1).clamp(max=length - 1).long(), (at - low).clamp(0, 1)


def roi_align(features: Tensor, boxes: Tensor, scale: float) -> Tensor:
    """Features of 1 x C x S x S in each box, bilinear, RATIO**2 points a bin."""
    start, end = (boxes * scale).split(2, 1)
    step = (end - start).clamp(min=1) / (POOL * RATIO)
    at = start[..., None] + step[..., None] * (torch.arange(POOL * RATIO) + 0.5)
    (low_x, high_x, x), (low_y, high_y, y) = (taps(at[:, i], features.shape[-1]) for i in (0, 1))
    rows = [
        features[0][:, at[:, :, None], low_x[:, None]] * (1 - x[:, None])
        + features[0][:, at[:, :, None], high_x[:, None]] * x[:, None]
        for at in (low_y, high_y)
    ]
    points = rows[0] * (1 - y[..., None]) + rows[1] * y[..., None]
    bins = points.reshape(len(points), -1, POOL, RATIO, POOL, RATIO)
    return bins.mean((3, 5)).transpose(0, 1).contiguous()


def in_onnx(g, features, boxes, scale):
    """`roi_align` as ONNX has it."""
    count = g.op("Shape", boxes, end_i=1)
    scale = symbolic_helper._get_const(scale, "f", "scale")
    first = g.op("ConstantOfShape", count, value_t=torch.zeros(1, dtype=torch.int64))
    found = g.op(
        "RoiAlign", features, boxes, first, output_height_i=POOL, output_width_i=POOL,
        sampling_ratio_i=RATIO, spatial_scale_f=scale,
        coordinate_transformation_mode_s="output_half_pixel",
    )  # fmt: skip
    found.setType(features.type().with_sizes([None, None, POOL, POOL]))
    return found


if not hasattr(torch.ops.small_detector, "roi_align"):  # the file may be imported more than once
    torch.small_pooling = torch.library.Library("small_detector", "FRAGMENT")
    torch.small_pooling.define("roi_align(Tensor features, Tensor boxes, float scale) -> Tensor")
    torch.small_pooling.impl("roi_align", roi_align, "CPU")
    torch.library.register_fake(
        "small_detector::roi_align",
        lambda features, boxes, _: boxes.new_empty(len(boxes), features.shape[1], POOL, POOL),
        lib=torch.small_pooling,
    )
    torch.onnx.register_custom_op_symbolic("small_detector::roi_align", in_onnx, 16)


@torch.jit.script_if_tracing
def pasted(masks: Tensor, boxes: Tensor) -> Tensor:
    """Each mask where its box is, in 32 x 32."""
    found = torch.zeros((0, 32, 32))
    for row in range(boxes.shape[0]):
        box = boxes[row].to(torch.int64).clamp(0, 31)
        left, top = int(box[0]), int(box[1])
        width, height = int(box[2]) - left + 1, int(box[3]) - top + 1
        mask = functional.interpolate(masks[row][None, None], size=[height, width], mode="bilinear")
        beside = [left, 32 - left - width, top, 32 - top - height]
        found = torch.cat((found, functional.pad(mask[0], beside)))
    return found


class TwoStage(Detector):
    """What `Detector` finds are proposals."""

    def __init__(self) -> None:
        super().__init__()
        width = 8 * POOL * POOL
        self.classes = nn.Linear(width, CLASSES + 1)
        self.refine = nn.Linear(width, 4 * (CLASSES + 1))
        self.mask = nn.Linear(width, POOL * POOL)
        with torch.no_grad():
            self.classes.weight *= 40

    def pooled(self, levels: list[Tensor], boxes: Tensor) -> Tensor:
        """Features of each box, of the level for its size."""
        coarse = (boxes[:, 2:] - boxes[:, :2]).prod(1).sqrt() > 12
        found = boxes.new_zeros(boxes.shape[0], 8 * POOL * POOL)
        for level, features in enumerate(levels):
            rows = torch.where(coarse == level)[0]
            scale = features.shape[-1] / SIZE
            part = torch.ops.small_detector.roi_align(features, boxes[rows], float(scale)).flatten(
                1
            )
            found = found.scatter(0, rows[:, None].expand_as(part), part)
        return found

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        """Images of 3 x H x W in 0..1."""
        results = []
        for image in images:
            levels = self.levels(image)
            boxes, scores, labels = map(torch.cat, zip(*map(self.found, levels), strict=True))
            kept = torch.ops.small_detector.nms(boxes + 2 * labels[:, None], scores, IOU)[:12]
            proposals = boxes[kept] * SIZE
            features = self.pooled(levels, proposals)
            moves, count = self.refine(features), proposals.shape[0]
            nothing = moves.new_zeros(0, CLASSES + 1, 4)  # of which -1 could be anything
            moves = moves.reshape(count, -1, 4) if count > 0 else nothing
            boxes = (proposals[:, None] + 2 * moves.tanh()).clamp(0, SIZE)[:, 1:]
            scores = self.classes(features).softmax(-1)[:, 1:]
            rows, labels = torch.where(scores > 0.3)
            boxes, scores = boxes[rows, labels], scores[rows, labels]
            apart = boxes + 2 * SIZE * labels[:, None]
            kept = torch.ops.small_detector.nms(apart, scores, IOU)
            boxes, scores, labels = boxes[kept], scores[kept], labels[kept]
            masks = self.mask(self.pooled(levels, boxes)).sigmoid().reshape(-1, POOL, POOL)
            height, width = self.size(image).to(boxes).unbind()
            results.append({
                "boxes": boxes * torch.stack([width, height, width, height]) / SIZE,
                "labels": labels, "scores": scores, "masks": pasted(masks, boxes),
            })  # fmt: skip
        return results
