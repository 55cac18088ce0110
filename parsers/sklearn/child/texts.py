"""Texts in ONNX: CountVectorizer, TfidfVectorizer and TfidfTransformer.

Words are cut out by ONNX Runtime's own Tokenizer (com.microsoft), whose expressions are RE2's, and
counted by TfIdfVectorizer. Python's `\\w` is every letter and number of Unicode and `_`. Lower case
is StringNormalizer's, in the locale C.UTF-8, which agrees with `str.lower` but for U+0130 and for a
sigma that ends a word.
"""

from __future__ import annotations

import re
from typing import Any, Iterator, List, Tuple

import numpy as np
import onnx
from skl2onnx import update_registered_converter
from skl2onnx.common import data_types
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer

from . import steps
from .nodes import ML, Nodes, untranslated

LOCALE = "C.UTF-8"
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_CLASSES = {r"\w": r"[\p{L}\p{N}_]", r"\S": f"[^{_SPACES}]", r"[^\s]": f"[^{_SPACES}]"}
"""A character of a word: as Python has it, and as RE2 does."""

_WORD = r"(\\[wS]|\[\^\\s\]|\[[A-Za-z0-9_-]+\])"
_PATTERN = re.compile(rf"(?:\(\?u\))?(\\b)?{_WORD}(?:\+|\{{(\d+),\}}|\2\+)(\\b)?")


def register() -> None:
    """Make skl2onnx take these converters."""
    for kind in (CountVectorizer, TfidfVectorizer):
        name = f"Sklearn{kind.__name__}"
        update_registered_converter(kind, name, _set_shape, _vectorize)
    update_registered_converter(TfidfTransformer, "SklearnTfidfTransformer", _same_shape, _weigh)


def notes(model: Any) -> Iterator[str]:
    """What a user has to know of texts in a model."""
    lower = [p for p, _ in steps.parts(model) if isinstance(p, CountVectorizer) and p.lowercase]
    if lower:
        yield (
            f"TEXT IS LOWERCASED in the locale {LOCALE}: where a machine has none of that name, "
            "ONNX Runtime doesn't load the file; a capital I with a dot, and a sigma at the end of "
            "a word, become other letters than in Python"
        )


def _set_shape(operator: Any) -> None:
    width = max(operator.raw_operator.vocabulary_.values()) + 1
    first = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = data_types.FloatTensorType([first, width])


def _same_shape(operator: Any) -> None:
    operator.outputs[0].type = data_types.FloatTensorType(list(operator.inputs[0].type.shape))


def _vectorize(scope: Any, operator: Any, container: Any) -> None:
    nodes, part = Nodes(scope, operator, container), operator.raw_operator
    words = _expression(part)
    text = nodes.node("Reshape", nodes.joined(), nodes.constant(np.array([-1])))
    if part.lowercase:
        how: Any = {"case_change_action": "LOWER", "is_case_sensitive": 0, "locale": LOCALE}
        text = nodes.node("StringNormalizer", text, **how)
    pad: Any = {"mark": 0, "mincharnum": 1, "pad_value": "\x02"}
    tokens = nodes.node("Tokenizer", text, domain="com.microsoft", tokenexp=words, **pad)
    if part.get_stop_words() and part.ngram_range[1] > 1:
        tokens = _without(nodes, tokens, sorted(part.get_stop_words()))
    counts = nodes.node("TfIdfVectorizer", tokens, **_counted(part))
    if part.binary:
        counts = nodes.node("Min", counts, nodes.constant(np.float32(1)))
    weights = getattr(part, "_tfidf", None)
    nodes.finish(counts if weights is None else _weighted(nodes, counts, weights))


def _weigh(scope: Any, operator: Any, container: Any) -> None:
    nodes = Nodes(scope, operator, container)
    counts = nodes.cast(nodes.joined(), onnx.TensorProto.FLOAT)
    nodes.finish(_weighted(nodes, counts, operator.raw_operator))


def _weighted(nodes: Nodes, counts: str, part: Any) -> str:
    """TfidfTransformer: `1 + ln(count)` of what there is, times idf, over each row's norm."""
    if part.norm is None and not (part.sublinear_tf or part.use_idf):
        return counts
    one = nodes.constant(np.float32(1))
    if part.sublinear_tf:
        there = nodes.node("Greater", counts, nodes.constant(np.float32(0)))
        log = nodes.node("Log", nodes.node("Where", there, counts, one))
        counts = nodes.node("Where", there, nodes.node("Add", log, one), counts)
    if part.use_idf:
        counts = nodes.node("Mul", counts, nodes.constant(np.asarray(part.idf_, np.float32)))
    if part.norm is None:
        return counts
    axes = nodes.constant(np.array([1]))
    norm = nodes.node(f"Reduce{part.norm.upper()}", counts, axes, keepdims=1)
    empty = nodes.node("Equal", norm, nodes.constant(np.float32(0)))
    return nodes.node("Div", counts, nodes.node("Where", empty, one, norm))


def _expression(part: Any) -> str:
    """A vectorizer's words as RE2 finds them. Raises unsupported, naming what it can't."""
    reason = _unlike(part)
    found = _PATTERN.fullmatch(part.token_pattern or "")
    if not reason and (found is None or not _is_bounded(found)):
        reason = (
            f"token_pattern {part.token_pattern!r}: only one kind of character, repeated, as in "
        )
        reason += r"\b\w\w+\b, \w+, \S+ or [a-z]{2,}"
    if reason:
        raise untranslated(part, reason)
    assert found is not None
    one, two = found[2], found[0].count(found[2]) > 1
    least = int(found[3]) if found[3] else 2 if two else 1
    return f"{_CLASSES.get(one, one)}{{{least},}}"


def _is_bounded(found: re.Match[str]) -> bool:
    """Whether an expression finds whole runs of its characters: `\\b` ends those of `\\w`."""
    return found[2] == r"\w" or not (found[1] or found[4])


def _unlike(part: Any) -> str:
    """What of a vectorizer has no like in ONNX; empty for nothing."""
    calls = ("tokenizer", "preprocessor")
    for name in calls:
        if getattr(part, name) is not None:
            return f"{name}: it is a function of Python's"
    if part.analyzer != "word":
        return f"analyzer {part.analyzer!r}: only words are"
    if part.strip_accents is not None:
        return f"strip_accents {part.strip_accents!r}: ONNX can't strip them"
    if part.input != "content":
        return f"input {part.input!r}: it reads files"
    return ""


def _without(nodes: Nodes, tokens: str, stop: List[str]) -> str:
    """Tokens [rows, words] with the stop words behind all others of their row: a place in the row
    is raised by 2**40 where the word is one, and the places are sorted."""
    marked: Any = {"keys_strings": stop, "values_int64s": [1 << 40] * len(stop), "default_int64": 0}
    raised = nodes.node("LabelEncoder", tokens, domain=ML, **marked)
    width = nodes.node("Shape", tokens, start=1, end=2)
    zero, one = nodes.constant(np.int64(0)), nodes.constant(np.int64(1))
    places = nodes.node("Range", zero, nodes.node("Squeeze", width), one)
    order = nodes.node("Add", raised, places)
    order, _ = nodes.outputs("TopK", 2, order, width, largest=0)
    order = nodes.node("Mod", order, nodes.constant(np.int64(1 << 40)))
    return nodes.node("GatherElements", tokens, order, axis=1)


def _counted(part: Any) -> Any:
    """The attributes of a TfIdfVectorizer that counts a vocabulary's n-grams."""
    low, high = part.ngram_range
    stop = set(part.get_stop_words() or ())
    grams: List[Tuple[int, List[str], int]] = []
    for text, column in part.vocabulary_.items():
        words = text.split(" ")
        if not low <= len(words) <= high or stop & {*words}:  # it is never found
            words = [f"\x03{column}"] * low
        grams.append((len(words), words, int(column)))
    grams.sort(key=lambda gram: (gram[0], gram[2]))
    sizes = [sum(size for size, _, _ in grams if size < many) for many in range(1, high + 1)]
    return {
        "mode": "TF", "min_gram_length": low, "max_gram_length": high, "max_skip_count": 0,
        "ngram_counts": sizes, "ngram_indexes": [column for _, _, column in grams],
        "pool_strings": [word for _, words, _ in grams for word in words],
    }  # fmt: skip
