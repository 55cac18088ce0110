"""Models that torch.export can't take: a trace is held against them on other inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from parsers.pytorch.child.alike import differs

from .client import Client, Failure, fails
from .conftest import Write, check_equal, eager, export, in_onnxruntime, network, refused, spec

DETECTOR = Path(__file__).parent / "models" / "detector.py"


def detect(worker: Client, folder: Path, *shape: int | str, name: str = "Detector") -> Any:
    worker.call("load", source=f"{DETECTOR}:{name}")
    return worker.call(
        "export", inputs=[spec("images", *shape)], out=str(folder / "net.onnx"),
        sizes={"H": 40, "W": 48},
    )  # fmt: skip


def test_a_detector_comes_by_torchscript_and_was_tried_on_other_inputs(
    worker: Client, tmp_path: Path
) -> None:
    made = detect(worker, tmp_path, 3, "H", "W")
    assert made["exporter"] == "torchscript"
    assert made["reasons"]
    assert [o["name"] for o in made["outputs"]] == ["boxes", "labels", "scores"]
    assert made["outputs"][0]["shape"][0] == "boxes_dim0"
    assert len(made["probes"]) >= 8
    assert "H=60" in made["probed"] and "W=24" in made["probed"]
    lengths = set()
    for probe in made["probes"]:
        with np.load(probe["outputs"]) as want:
            lengths.add(len(want["boxes"]))
    assert min(lengths) == 0 and max(lengths) > 5
    feeds = {"images": np.random.default_rng(5).random((3, 50, 30), np.float32)}
    found = in_onnxruntime(Path(made["out"]), feeds)
    assert not differs(eager(worker, tmp_path, feeds), found, 1e-3)


def test_a_batch_of_images_is_a_list_of_them(worker: Client, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="list of images") as caught:
        detect(worker, tmp_path, "batch", 3, 40, 48)
    assert caught.value.error["specialized"] == {"batch": 1}
    made = detect(worker, tmp_path, 1, 3, 40, 48)
    assert [o["name"] for o in made["outputs"]] == ["boxes", "labels", "scores"]


def test_a_size_that_the_trace_kept_is_found(worker: Client, tmp_path: Path) -> None:
    says = "takes [60, 72], for the example [40, 48]", "output boxes is off"
    with fails("unsupported", *says) as caught:
        detect(worker, tmp_path, 3, "H", "W", name="OneSize")
    assert caught.value.message.startswith(str(DETECTOR))
    assert len(detect(worker, tmp_path, 3, 40, 48, name="OneSize")["probes"]) >= 8


def test_a_trace_with_nothing_found_is_refused(worker: Client, tmp_path: Path) -> None:
    with fails("unsupported", "all outputs are empty (boxes, labels, scores)") as caught:
        detect(worker, tmp_path, 3, 40, 48, name="Blind")
    assert "--samples" in str(caught.value.error["details"])


def test_a_trace_of_two_stages_holds_where_nothing_is_proposed(worker: Client,
                                                               tmp_path: Path) -> None:  # fmt: skip
    worker.call("load", source=f"{DETECTOR.with_name('two_stage.py')}:TwoStage")
    shapes = {"inputs": [spec("images", 3, "H", "W")], "sizes": {"H": 40, "W": 48}}
    made = worker.call("export", out=str(tmp_path / "net.onnx"), **shapes)
    assert made["exporter"] == "torchscript"
    assert "boxes had 0 to" in made["probed"] and "H=60" in made["probed"]
    loops = [node for node in onnx.load(made["out"]).graph.node if node.op_type == "Loop"]
    sizes = loops[0].attribute[0].g.input[2].type.tensor_type.shape.dim  # it grows in the loop
    assert sizes and not any(size.HasField("dim_value") for size in sizes)
    for probe in made["probes"]:
        with np.load(probe["feeds"]) as feeds, np.load(probe["outputs"]) as want:
            assert not differs(want, in_onnxruntime(Path(made["out"]), feeds), 1e-3), probe["what"]


def test_equal_values_part_where_operators_round(worker: Client, write: Write,
                                                 tmp_path: Path) -> None:  # fmt: skip
    init = ("nn.init.constant_(self.line.weight, 0.1)", "nn.init.zeros_(self.line.bias)")
    path = write(network("return self.line(x).argmax()", "self.line = nn.Linear(3, 4)", *init))
    worker.call("load", source=f"{path}:Net")
    feeds = {"x": np.ones(3, np.float32)}
    plain = eager(worker, tmp_path, feeds)
    assert eager(worker, tmp_path, feeds) == plain
    found = {int(eager(worker, tmp_path, feeds, rounding=s)["output"]) for s in range(6)}
    assert len(found) > 1


def test_types_may_stand_in_a_comment(worker: Client, write: Write) -> None:
    path = write(network("""
        # type: (list[Tensor], Optional[list[dict[str, Tensor]]]) -> Tensor
        return torch.stack(images) * 2""", takes="images, targets=None"))  # fmt: skip
    made = export(worker, path, [spec("images", 3, 4, 5)])
    assert made["outputs"][0]["shape"] == [1, 3, 4, 5]
    check_equal(worker, made)


def test_guards_on_constants_are_answered(worker: Client, write: Write) -> None:
    init = "self.register_buffer('pad', torch.tensor([1, 2]))", "self.layer = nn.Linear(7, 2)"
    path = write(network("""
        if self.pad.sum() > 0:
            x = nn.functional.pad(x, self.pad.tolist())
        if torch.ones(x.shape[0]).sum() > 0 and float(self.layer.weight.max()) < 9:
            x = x * int(self.pad[1])
        return self.layer(x)""", *init))  # fmt: skip
    made = export(worker, path, [spec("x", 2, 4)])
    assert (made["exporter"], made["reasons"]) == ("dynamo", [])
    check_equal(worker, made)


def test_a_buffer_that_inputs_are_written_to_is_no_constant(worker: Client, write: Write) -> None:
    path = write(network("""
        last = self.last.clone()
        last[:] = x
        return x + 1 if last.sum() > 0 else x - 1""",
        "self.register_buffer('last', torch.zeros(4))"))  # fmt: skip
    says = f"{path}:11 takes True, for the example False"
    refused(worker, path, [spec("x", 4)], says, kind="unsupported")


ROWS = {"boxes": np.arange(40, dtype=np.float32).reshape(10, 4), "labels": np.arange(10)}


def test_rows_of_lists_may_be_in_another_order_together() -> None:
    order = np.r_[1, 0, 2:10]
    swapped = {name: array[order] for name, array in ROWS.items()}
    assert not differs(ROWS, swapped, 1e-4)
    alone = {**swapped, "labels": ROWS["labels"]}
    assert differs(ROWS, alone, 1e-4).startswith("output boxes is off by up to 4")
    shorter = {name: array[:9] for name, array in ROWS.items()}
    assert "has shape [9, 4], not [10, 4]" in differs(ROWS, shorter, 1e-4)
    assert not differs(ROWS, shorter, 1e-4, share=0.9)


NAMES = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU()
    def forward(self, x):
        return self.relu(self.relu(self.bn1(self.conv1(x))) + x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Block(), Block())
        self.fc = nn.Linear(4, 5)
    def forward(self, x):
        return self.fc(self.layer1(x).flatten(2).transpose(1, 2)).softmax(-1) * 2
def scripted():
    return torch.jit.trace(Net().eval(), torch.ones(2, 4, 3, 3))
"""


@pytest.mark.parametrize("name", ["Net", "scripted"])
def test_nodes_are_called_after_their_modules(worker: Client, write: Write, name: str) -> None:
    made = export(worker, write(NAMES), [spec("x", "batch", 4, 3, 3)], name=name)
    names = {n.name: n.op_type for n in onnx.load(made["out"]).graph.node}
    assert {n: names.get(n) for n in ("layer1.0.conv1", "layer1.1.conv1", "fc", "fc/Add")} == {
        "layer1.0.conv1": "Conv", "layer1.1.conv1": "Conv", "fc": "MatMul", "fc/Add": "Add",
    }  # fmt: skip
    assert names["layer1.0/Add"] == "Add" and names["Softmax"] == "Softmax"
    assert [n for n in names if n.startswith("layer1.1.relu")] or name == "scripted"
