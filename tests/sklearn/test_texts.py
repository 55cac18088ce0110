"""Vectorizers of texts, in ONNX Runtime as in scikit-learn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model, pipeline
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

from converter.errors import UnsupportedError
from converter.runtime.worker import Worker
from tests.sklearn.conftest import both
from tests.sklearn.models import saved

TEXTS = ["Good product", "very good thing", "bad product", "a bad bad thing", "naïve café good",
         "terrible 12 x", "ÇA VA ça va", "日本語 テキスト good"] * 2  # fmt: skip
OTHERS = ["Good a product, very GOOD! good", "bad BAD thing bad", "", "naïve CAFÉ 12", "...",
          "the thing is the bad thing", "x", "va ÇA va", "日本語 テキスト",
          "good_product don't 1st e-mail"]  # fmt: skip

MODELS = {
    "counts": CountVectorizer(ngram_range=(1, 3), binary=True),
    "pairs": CountVectorizer(ngram_range=(2, 2)),
    "cased": CountVectorizer(lowercase=False),
    "tfidf": TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    "l1": TfidfVectorizer(norm="l1", max_features=4),
    "plain": TfidfVectorizer(norm=None, use_idf=False),
    "stop words": TfidfVectorizer(stop_words="english", ngram_range=(1, 2)),
    "short words": TfidfVectorizer(token_pattern=r"(?u)\b\w+\b", ngram_range=(1, 2)),
    "between blanks": TfidfVectorizer(token_pattern=r"\S+"),
    "latin": TfidfVectorizer(token_pattern=r"[a-z]{2,}"),
    "given": CountVectorizer(
        vocabulary=["good", "new york", "UP", "the", "thing is"], stop_words=["the"]),
    "pipeline": pipeline.make_pipeline(
        CountVectorizer(ngram_range=(1, 2)), TfidfTransformer(sublinear_tf=True),
        linear_model.LogisticRegression()),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_texts_become_what_they_were(name: str, worker: Worker, tmp_path: Path) -> None:
    model = MODELS[name].fit(TEXTS, ["no", "yes"] * (len(TEXTS) // 2))
    path = saved(model, tmp_path / "m.joblib")
    given = both(worker, path, {"text": np.array(OTHERS, object)[:, None]})
    for output, wanted, found in given:
        if output == "label":
            assert found.tolist() == wanted.tolist()
        else:
            assert wanted.any()
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("options", "says"), [
    ({"analyzer": "char_wb"}, "analyzer 'char_wb': only words are"),
    ({"strip_accents": "unicode"}, "strip_accents 'unicode'"),
    ({"tokenizer": str.split, "token_pattern": None}, "tokenizer: it is a function of Python's"),
    ({"preprocessor": str.lower}, "preprocessor: it is a function of Python's"),
    ({"token_pattern": r"(?u)\b\w\w+(?:-\w+)*\b"}, "token_pattern"),
    ({"token_pattern": r"\b[a-z]+\b"}, "only one kind of character, repeated"),
])  # fmt: skip
def test_what_onnx_has_not_is_named(
    options: Any, says: str, worker: Worker, tmp_path: Path
) -> None:
    path = saved(CountVectorizer(**options).fit(TEXTS), tmp_path / "m.joblib")
    with pytest.raises(UnsupportedError) as caught:
        both(worker, path, {"text": np.array(OTHERS, object)[:, None]})
    assert says in caught.value.items[0].reason


def test_the_locale_is_told(worker: Worker, tmp_path: Path) -> None:
    path = saved(TfidfVectorizer().fit(TEXTS), tmp_path / "m.skops")
    worker.warnings.clear()
    both(worker, path, {"text": np.array(OTHERS, object)[:, None]})
    (told,) = worker.warnings
    assert told.startswith("TEXT IS LOWERCASED in the locale C.UTF-8")


def test_lower_case_is_python_s_but_for_one_letter_and_the_last_sigma(
    worker: Worker, tmp_path: Path
) -> None:
    letters = [chr(code) for code in range(0x41, 0x3000) if chr(code).isalpha()]
    words = [f"{letter}x" for letter in letters]
    path = saved(CountVectorizer().fit(words), tmp_path / "m.skops")
    ((_, wanted, found),) = both(worker, path, {"text": np.array(words, object)[:, None]})
    apart = np.flatnonzero((wanted != found).any(axis=1))
    assert [words[place] for place in apart] == ["İx"]
