"""Arguments that translations of PyTorch's operators don't read, in the torch that is installed."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from parsers.pytorch.child import translations
from parsers.pytorch.child.translations import unread

REFUSED = {("aten::allclose", "equal_nan"), ("aten::stft", "align_to_window")}
"""What a model that gives them is refused for."""


def translated() -> Iterator[tuple[str, Any, Any]]:
    """The name, operator and translation of each operator that has one."""
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # brings in its operators
    ours = {target.name(): function for target, function in translations.table().items()}
    for name, metas in ONNXRegistry.from_torchlib(20).functions.items():
        for meta in metas:
            if isinstance(meta.fx_target, torch._ops.OpOverload):
                yield name, meta.fx_target, ours.get(name, meta.onnx_function)


def lost() -> set[tuple[str, str]]:
    kept = [each for each in translated() if each[0] not in translations.DECOMPOSED]
    return {(name, argument) for name, target, f in kept for argument in unread.unread(target, f)}


def test_none_is_lost_unknown() -> None:
    """A later torch may read fewer: translate what is new here, or say why it doesn't matter."""
    assert lost() == REFUSED


def test_each_that_is_said_not_to_matter_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {*unread.NO_MATTER_HERE}
    monkeypatch.setattr(unread, "NO_MATTER_HERE", {})
    assert lost() == REFUSED | said
