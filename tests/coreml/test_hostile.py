"""Damaged files are refused with an error of ours, whatever is wrong with them."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.errors import ModelError, UsageError
from parsers.coreml.importer import read
from tests.coreml.running import write
from tests.coreml.test_older_networks import Net

X = np.ones((1, 3, 8, 8), np.float32)
KERNEL = np.ones((4, 3, 3, 3), np.float32)


def _body(mb: Any, x: Any) -> Any:
    """Ten operations."""
    x = mb.conv(x=x, weight=KERNEL, pad_type="same", strides=[2, 2])
    x = mb.max_pool(x=mb.relu(x=x), kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
    x = mb.upsample_bilinear(x=x, scale_factor_height=2, scale_factor_width=2)
    x = mb.concat(values=[x, mb.sigmoid(x=x)], axis=1)
    x = mb.transpose(x=x, perm=[0, 2, 3, 1])
    x = mb.softmax(x=mb.reshape(x=x, shape=[1, -1]), axis=-1)
    return mb.slice_by_index(x=x, begin=[0, 0], end=[1, 8])


def _damage(spec: Any, rng: random.Random) -> None:
    """Takes an operation's parameter away, or gives it another's; changes its kind or its type."""
    operations = spec.mlProgram.functions["main"].block_specializations["CoreML7"].operations
    op = rng.choice([op for op in operations if op.type != "const"] + list(operations))
    names = sorted(op.inputs)
    way = rng.randrange(5)
    if way == 0 and names:
        del op.inputs[rng.choice(names)]
    elif way == 1 and names:
        op.inputs[rng.choice(names)].arguments[0].name = rng.choice(operations).outputs[0].name
    elif way == 2:
        op.type = rng.choice(operations).type
    elif way == 3:
        op.outputs[0].type.tensorType.dataType = rng.choice([1, 2, 10, 21, 23, 99])
    else:
        for value in op.attributes.values():
            for dim in value.type.tensorType.dimensions[:1]:
                dim.constant.size = rng.choice([0, 1, 3, 10**12])


def test_damaged_programs_and_a_constant_without_a_type(tmp_path: Path) -> None:
    package = write(tmp_path, _body, {"x": X})
    from coremltools.proto import Model_pb2

    file = next(package.rglob("*.mlmodel"))
    whole, refused, cases = file.read_bytes(), 0, 150
    for seed in range(cases):
        spec = Model_pb2.Model.FromString(whole)
        _damage(spec, random.Random(seed))
        file.write_bytes(spec.SerializeToString())
        refused += _is_refused(package)
    assert cases / 3 < refused < cases
    spec = Model_pb2.Model.FromString(whole)
    block = spec.mlProgram.functions["main"].block_specializations["CoreML7"]
    values = [op.attributes["val"] for op in block.operations if op.type == "const"]
    next(v for v in values if v.immediateValue.tensor.HasField("ints")).ClearField("type")
    file.write_bytes(spec.SerializeToString())
    with pytest.raises(ModelError, match=r"model\.mlpackage can.t be read: its parameters"):
        read(package)


def test_damaged_networks(tmp_path: Path) -> None:
    net = Net((3, 8, 8))
    sizes = {"outputChannels": 4, "kernelChannels": 3}
    net.add("convolution", "x", "a", **sizes, valid={}, weights__floatValue=KERNEL)
    net.add("pooling", "a", "b", kernelSize=[2, 2], stride=[2, 2], same={})
    net.add("upsample", "b", "c", scalingFactor=[2, 2], mode=1)
    net.add("split", "c", "d e", nOutputs=2)
    net.add("concat", "d e c", "f")
    net.add("flatten", "f", "y")
    file = net.gives("y").save(tmp_path)
    whole, refused, cases = file.read_bytes(), 0, 300
    weights = whole.index(KERNEL.tobytes())
    tables = [at for at in range(len(whole)) if not 0 <= at - weights < KERNEL.nbytes]
    for seed in range(cases):
        rng, changed = random.Random(seed), bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 5])):
            changed[rng.choice(tables)] = rng.randrange(256)
        file.write_bytes(bytes(changed))
        refused += _is_refused(file)
    assert cases / 3 < refused < cases


def _is_refused(path: Path) -> bool:
    """Whether it can't be read; anything but an error of ours fails the test."""
    try:
        read(path)
    except (ModelError, UsageError):
        return True
    return False
