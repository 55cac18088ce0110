"""A CSV of texts through a folder's own tokenizer."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import transformers
from transformers import BertTokenizerFast

from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.samples import load_samples
from parsers.huggingface.parser import HuggingFaceParser
from tests.acceptance.cli import modelyard
from tests.huggingface.models import save
from tests.triton.server import TritonServer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "dog", "cow", "sees", "the"]


def with_tokenizer(folder: Path, words: list[str] = WORDS) -> Path:
    """A folder with a word-piece tokenizer beside its model."""
    made = BertTokenizerFast(vocab={word: index for index, word in enumerate(words)})
    made.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_texts_are_samples_and_the_tokenizer_goes_along(tmp_path: Path) -> None:
    folder = with_tokenizer(save("bert-classes", tmp_path / "bert"))
    texts = tmp_path / "texts.csv"
    texts.write_text('text,label\n"the cat, sees",dog\nthe dog,cow\na cow sees a cat,cat\n')
    done = modelyard(
        *("convert", folder, "--samples", texts, "--no-bench", "--serve", "triton"),
        *("--out", tmp_path / "out", "--json"),
    )
    assert done.code == 0, done.err
    report = done.json["report"]
    assert report["samples"]["count"] == 3 and report["samples"]["labelled"]
    assert report["artifacts"][0]["metrics"][0]["samples"] == 3
    for place in (tmp_path / "out", tmp_path / "out" / "serving" / "triton" / "bert"):
        kept = BertTokenizerFast.from_pretrained(place / "tokenizer")
        assert kept("the cat")["input_ids"] == [2, 10, 6, 3]
    again = modelyard(
        *("check", tmp_path / "out" / "onnx" / "fp32" / "model.onnx", "--against", folder),
        *("--samples", texts),
    )
    assert again.code == 0, again.err


def test_tokens_are_what_the_tokenizer_gives(tmp_path: Path) -> None:
    folder = with_tokenizer(save("bert-classes", tmp_path / "bert"))
    texts = tmp_path / "texts.csv"
    texts.write_text("text,text_pair\nthe cat,a dog\na cow sees,the dog\n")
    request = Request(str(folder), samples=str(texts))
    source = HuggingFaceParser().open(request, tmp_path, lambda text: None)
    try:
        own = [
            TensorSpec("ids", "int32", ("batch", "sequence"), meaning="tokens"),
            TensorSpec("token_type_ids", "int64", ("batch", "sequence")),
        ]
        first, second = load_samples(request, tuple(own), {}, tokenize=source.tokenize)
        np.testing.assert_array_equal(first.feeds["ids"], [[2, 10, 6, 3, 5, 7, 3]])
        assert first.feeds["ids"].dtype == np.int32
        np.testing.assert_array_equal(first.feeds["token_type_ids"], [[0, 0, 0, 0, 1, 1, 1]])
        assert second.name == "texts.csv, line 3"
        cut, _ = load_samples(request, tuple(own), {"sequence": 5}, tokenize=source.tokenize)
        assert cut.feeds["ids"].shape == (1, 5)
        fixed = (TensorSpec("input_ids", "int64", ("batch", 9)),)
        padded, _ = load_samples(request, fixed, {}, tokenize=source.tokenize)
        np.testing.assert_array_equal(padded.feeds["input_ids"], [[2, 10, 6, 3, 5, 7, 3, 0, 0]])
    finally:
        source.close()


def clients_answer(folder: Path, package: Path, addresses: Mapping[str, str]) -> None:
    """Asks by a package's clients, each at its address, and compares what they print with what
    transformers' own pipeline says of the model in ``folder``, which has 20 positions."""
    texts = ["the cat, sees", "a dog " * 30]
    oracle = transformers.pipeline("text-classification", model=str(folder), top_k=None)
    wanted = [item for of in oracle(texts, truncation=True, max_length=20) for item in of]
    for name, url in addresses.items():
        line = [sys.executable, str(package / f"{name}.py"), "--url", url, *texts]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (name, done.stderr)
        shown = re.findall(r"^  (\S+)  \d  '?(\w+)'?$", done.stdout, re.MULTILINE)
        assert [label for _, label in shown] == [item["label"] for item in wanted], name
        scores = [item["score"] for item in wanted]
        np.testing.assert_allclose([float(value) for value, _ in shown], scores, atol=1e-5)
        assert name == "client" or done.stdout.count("as probabilities") == len(texts)


@pytest.mark.slow
def test_clients_answer_a_text_with_names_and_probabilities(tmp_path: Path) -> None:
    """Of a model with so few positions that a trace has to be shorter, too."""
    folder = with_tokenizer(save("bert-classes", tmp_path / "bert", max_position_embeddings=20))
    modelyard(
        *("convert", folder, "--no-bench", "--serve", "triton", "--out", tmp_path / "out"),
        code=0,
    )
    said = modelyard("convert", folder, "--dim", "sequence=30", "--out", tmp_path / "long", code=2)
    assert "the texts would have 30 tokens, but the model has positions for 20" in said.err
    repository = tmp_path / "out" / "serving" / "triton"
    with TritonServer(repository) as server:
        addresses = {
            "client_requests": f"http://{server.http_url}",
            "client_grpc": server.grpc_url,
            "client": server.grpc_url,
        }
        clients_answer(folder, repository / "bert", addresses)


@pytest.mark.slow
def test_texts_need_a_tokenizer(tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("text\nthe cat\n")
    folder = save("bert-classes", tmp_path / "bert")
    said = modelyard("convert", folder, "--samples", texts, "--out", tmp_path / "out")
    assert said.code == 2
    assert "bert has no tokenizer that turns texts into tokens" in said.err
