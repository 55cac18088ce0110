"""sentence-transformers' modules after the transformer, against their formulas in numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from converter.errors import UnsupportedError
from converter.worker import Worker
from tests.huggingface.conftest import outputs
from tests.huggingface.models import save
from tests.huggingface.running import opened

Array = np.ndarray[Any, Any]


def sentence_folder(folder: Path, pooling: dict[str, Any], *after: str) -> Path:
    """A BERT with the pooling of these settings, and ``Dense`` or ``Normalize`` after it."""
    save("bert", folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    items = []
    for index, kind in enumerate(["Transformer", "Pooling", *after]):
        place = {"idx": index, "name": str(index), "path": f"{index}_{kind}" if index else ""}
        items.append({**place, "type": f"sentence_transformers.models.{kind}"})
    # Out of order: the index says the order.
    (folder / "modules.json").write_text(json.dumps(items[::-1]))
    return folder


def add_dense(folder: Path, width: int) -> tuple[Array, Array]:
    """A Dense from ``width`` to 6 in ``2_Dense``; gives its weight and bias."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(6, width, generator=generator)
    bias = torch.randn(6, generator=generator)
    place = folder / "2_Dense"
    place.mkdir()
    config = {"in_features": width, "out_features": 6, "bias": True}
    config["activation_function"] = "torch.nn.modules.activation.Tanh"
    (place / "config.json").write_text(json.dumps(config))
    save_file({"linear.weight": weight, "linear.bias": bias}, place / "model.safetensors")
    return weight.numpy(), bias.numpy()


def pooled(hidden: Array, mask: Array) -> Array:
    """Each mode in turn, in the order in which sentence-transformers joins them."""
    wide = mask[..., None].astype(np.float64)
    places = np.arange(1, hidden.shape[1] + 1).reshape(1, -1, 1) * wide
    last = mask.sum(1) - 1
    return np.concatenate(
        [
            hidden[:, 0],
            np.where(wide == 0, -1e9, hidden).max(1),
            (hidden * wide).sum(1) / wide.sum(1),
            (hidden * wide).sum(1) / np.sqrt(wide.sum(1)),
            (hidden * places).sum(1) / places.sum(1),
            hidden[np.arange(len(hidden)), last],
        ],
        axis=1,
    )


MODES = ("cls_token", "max_tokens", "mean_tokens", "mean_sqrt_len_tokens")
ALL = {f"pooling_mode_{mode}": True for mode in (*MODES, "weightedmean_tokens", "lasttoken")}


@pytest.mark.slow
def test_every_pooling_with_a_dense_layer(tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "net", ALL, "Dense", "Normalize")
    weight, bias = add_dense(folder, 6 * 32)
    generator = np.random.default_rng(0)
    feeds = {
        "input_ids": generator.integers(0, 99, (3, 7)),
        "attention_mask": np.array([[1] * 7, [1] * 4 + [0] * 3, [1] + [0] * 6]),
        "token_type_ids": generator.integers(0, 2, (3, 7)),
    }
    with opened(folder, tmp_path) as found:
        assert found.model.source["task"] == "sentence-embedding"
        (output,) = found.model.outputs
        assert (output.name, output.shape) == ("sentence_embedding", ("batch", 6))
        got = found.session.run(feeds)["sentence_embedding"]
        theirs = found.reference.run(feeds)["sentence_embedding"]
    with opened(folder, tmp_path, task="feature-extraction") as found:
        hidden = found.reference.run(feeds)["last_hidden_state"].astype(np.float64)
    wanted = np.tanh(pooled(hidden, feeds["attention_mask"]) @ weight.T + bias)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
    np.testing.assert_allclose(theirs, wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_modules_that_are_not_known(worker: Worker, tmp_path: Path) -> None:
    mean = {"pooling_mode_mean_tokens": True}
    cases = [
        (sentence_folder(tmp_path / "a", mean, "LayerNorm"), "LayerNorm"),
        (sentence_folder(tmp_path / "b", {"pooling_mode": "attention"}), "no known mode"),
        (sentence_folder(tmp_path / "c", {}), "no known mode"),
    ]
    for folder, says in cases:
        with pytest.raises(UnsupportedError, match=says):
            worker.call("load", file=str(folder), task=None, trust=False)
    named = sentence_folder(tmp_path / "d", {"pooling_mode": "cls"})
    assert worker.call("load", file=str(named), task=None, trust=False)["task"]


@pytest.mark.slow
def test_a_mask_left_out_counts_every_token(worker: Worker, tmp_path: Path) -> None:
    folder = sentence_folder(tmp_path / "net", {"pooling_mode_mean_tokens": True})
    ids = np.arange(10, dtype=np.int64).reshape(2, 5)
    worker.call("load", file=str(folder), task=None, trust=False)
    alone = outputs(worker, tmp_path, input_ids=ids)
    masked = outputs(worker, tmp_path, input_ids=ids, attention_mask=np.ones_like(ids))
    np.testing.assert_array_equal(alone["sentence_embedding"], masked["sentence_embedding"])
