"""Shares of layers and multiply-adds by type, and what is refused for them."""

from typing import Any

import pytest

from converter.errors import ModelError
from emitters.tensorrt import layers
from emitters.tensorrt.layers import WANTED, built, in_words, lowers, requested


def layer(kind: str, node: str, dtype: str) -> dict[str, Any]:
    return {"name": node, "kind": kind, "nodes": [node], "type": dtype, "shape": None}


LAYERS = [
    layer("CONVOLUTION", "a", "int8"), layer("ACTIVATION", "r", "float32"),
    layer("MATRIX_MULTIPLY", "b", "float32"), layer("MATRIX_MULTIPLY", "b", "float32"),
]  # fmt: skip


def test_shares_are_of_multiply_adds() -> None:
    """Of layers, where none is a matrix's."""
    shares = requested(LAYERS, {"a": 300, "b": 100})
    assert shares == {"float32": {"layers": 2, "macs": 0.25}, "int8": {"layers": 1, "macs": 0.75}}
    assert in_words(shares, "requested precision") == (
        "requested precision: 25.0% of the multiply-adds float32 (2 layers), "
        "75.0% of the multiply-adds int8 (1 layers)"
    )
    shares = requested([layer("ACTIVATION", "r", "float16")], {})
    assert shares == {"float16": {"layers": 1, "macs": None}}
    assert lowers("fp16", shares)


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_an_engine_has_to_compute_in_what_its_network_asks_for(precision: str) -> None:
    plain = requested([layer("CONVOLUTION", "a", "float32")], {"a": 10})
    asked = requested([layer("CONVOLUTION", "a", WANTED[precision])], {"a": 10})
    assert lowers(precision, asked) and not lowers(precision, plain)
    for made in ({}, asked):
        layers.require_as_requested(precision, asked, made)
    layers.require_as_requested(precision, plain, plain)
    layers.require_as_requested("fp32", plain, plain)
    with pytest.raises(ModelError, match=f"asks for {WANTED[precision]}, but nothing") as error:
        layers.require_as_requested(precision, asked, plain)
    assert error.value.details == ("float32: 1 layers",)


def test_an_engine_is_read_from_its_inspector() -> None:
    def tensor(kind: str) -> dict[str, str]:
        return {"Name": "t", "Format/Datatype": kind}

    engine = [
        "a layer without details",
        {
            "Name": "conv + relu", "LayerType": "CaskConvolution",
            "Metadata": "[ONNX Layer: a]\x1e[ONNX Layer: r]",
            "Inputs": [tensor("Thirty-two wide channel vectorized row major Int8 format")],
            "TacticName": "sm80_xmma_fprop",
        },
        {
            "Name": "fc", "LayerType": "gemm", "Metadata": "[ONNX Layer: b]",
            "Inputs": [tensor("Row major linear FP16 format"), tensor("FP32")],
        },
        {"Name": "q", "LayerType": "Reformat", "ParameterType": "Quantize", "Inputs": []},
    ]  # fmt: skip
    assert built(engine, {"a": 300, "b": 100}) == {
        "int8": {"layers": 1, "macs": 0.75},
        "float16": {"layers": 1, "macs": 0.25},
    }
    assert layers.unfused(engine) == ["q"]
    assert built(["names", "only"], {"a": 1}) == {}
