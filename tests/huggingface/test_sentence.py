"""sentence-transformers' modules after the transformer, against numpy; and a real folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer

from converter.errors import UnsupportedError
from converter.runtime.worker import Worker
from tests.artifacts import Made
from tests.frameworks import outputs
from tests.huggingface.conftest import Load
from tests.huggingface.models import save
from tests.huggingface.running import opened
from zoo import catalogue

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


def add_dense(folder: Path, width: int, activation: str = "Tanh") -> tuple[Array, Array]:
    """A Dense from ``width`` to 6 in ``2_Dense``; gives its weight and bias."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(6, width, generator=generator)
    bias = torch.randn(6, generator=generator)
    place = folder / "2_Dense"
    place.mkdir()
    config = {"in_features": width, "out_features": 6, "bias": True}
    config["activation_function"] = f"torch.nn.modules.activation.{activation}"
    (place / "config.json").write_text(json.dumps(config))
    save_file({"linear.weight": weight, "linear.bias": bias}, place / "model.safetensors")
    return weight.numpy(), bias.numpy()


def pooled(hidden: Array, mask: Array) -> Array:
    """Each mode in turn, in the order in which sentence-transformers joins them."""
    wide = mask[..., None].astype(np.float64)
    places = np.arange(1, hidden.shape[1] + 1).reshape(1, -1, 1) * wide
    total, count = (hidden * wide).sum(1), wide.sum(1)
    found = [hidden[:, 0], np.where(wide == 0, -1e9, hidden).max(1), total / count]
    found += [total / np.sqrt(count), (hidden * places).sum(1) / places.sum(1)]
    return np.concatenate([*found, hidden[np.arange(len(hidden)), mask.sum(1) - 1]], axis=1)


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
def test_modules_that_are_not_known(load: Load, tmp_path: Path) -> None:
    mean = {"pooling_mode_mean_tokens": True}
    cases = [
        (sentence_folder(tmp_path / "a", mean, "LayerNorm"), "LayerNorm"),
        (sentence_folder(tmp_path / "b", {"pooling_mode": "attention"}), "no known mode"),
        (sentence_folder(tmp_path / "c", {}), "no known mode"),
        (sentence_folder(tmp_path / "e", {"pooling_mode": [{}]}), "no known mode"),
        (sentence_folder(tmp_path / "f", mean, "Dense"), "has the activation .*Threshold"),
    ]
    add_dense(tmp_path / "f", 32, "Threshold")
    for folder, says in cases:
        with pytest.raises(UnsupportedError, match=says):
            load(folder)
    assert load(sentence_folder(tmp_path / "d", {"pooling_mode": "cls"}))["task"]


@pytest.mark.slow
def test_a_mask_left_out_counts_every_token(worker: Worker, load: Load, tmp_path: Path) -> None:
    load(sentence_folder(tmp_path / "net", {"pooling_mode_mean_tokens": True}))
    feeds = {"input_ids": np.arange(10, dtype=np.int64).reshape(2, 5)}
    masked = feeds | {"attention_mask": np.ones((2, 5), np.int64)}
    found = [outputs(worker, tmp_path, fed)["sentence_embedding"] for fed in (feeds, masked)]
    np.testing.assert_array_equal(*found)


SENTENCES = [
    "A man is playing a guitar.",
    "Someone plays the guitar on a stage, in front of a large and rather noisy crowd.",
    "Interest rates rose again this quarter, the central bank said.",
    "Yes",
]


@pytest.mark.slow
def test_sentence_embeddings(artifact: Callable[[str, str, str], Made]) -> None:
    made = artifact("minilm", "onnx", "fp32")
    assert made.report.source.format == "huggingface"
    folder = catalogue.fetch("zoo:minilm")["model"]
    feeds = tokens(folder)
    session = onnxruntime.InferenceSession(made.path)
    (embeddings,) = session.run(["sentence_embedding"], feeds)
    wanted = independent(folder, feeds)
    np.testing.assert_allclose(embeddings, wanted, rtol=0, atol=1e-5)
    alike = embeddings @ embeddings.T
    assert alike[0, 1] > 0.5 > 0.2 > alike[0, 2]
    # Alone, without padding, a sentence has the same embedding.
    short = {name: array[3:, : feeds["attention_mask"][3].sum()] for name, array in feeds.items()}
    assert short["input_ids"].shape == (1, 3)
    (alone,) = session.run(["sentence_embedding"], short)
    np.testing.assert_allclose(alone, wanted[3:], rtol=0, atol=1e-5)


def tokens(folder: Path) -> dict[str, Array]:
    """The sentences as the folder's tokenizer gives them, padded to the longest."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    found = tokenizer.encode_batch(SENTENCES)
    of = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(item, at) for item in found]) for name, at in of.items()}


def independent(folder: Path, feeds: dict[str, Array]) -> Array:
    """The embeddings by transformers with its own attention, and the pooling in numpy: nothing of
    the converted path."""
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        found = model(**{name: torch.from_numpy(array) for name, array in feeds.items()})
    hidden, mask = found.last_hidden_state.double().numpy(), feeds["attention_mask"][..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True))
