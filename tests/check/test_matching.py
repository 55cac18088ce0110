"""Lists of found things: which outputs they are, and rows that stand elsewhere among ties."""

import numpy as np
import onnx_ir
import pytest

from converter.check.accuracy import AccuracyResult
from converter.check.gates import GateResult, Limits, judge
from converter.check.matching import Matching
from converter.check.metrics import Comparer
from converter.ir.lists import Rows, lists_of

LIMITS = Limits(0.9999)
NAMES = ("boxes", "labels", "scores")
Outputs = dict[str, np.ndarray]


def found(scores: list[float], dtype: type = np.float32) -> Outputs:
    """As many rows as there are scores, all of them different."""
    boxes = np.random.default_rng(0).uniform(0, 100, (len(scores), 4)).astype(dtype)
    labels = np.arange(len(scores)) % 7
    return {"boxes": boxes, "labels": labels, "scores": np.array(scores, dtype)}


def ordered(outputs: Outputs, *order: int) -> Outputs:
    return {name: array[list(order)] for name, array in outputs.items()}


def judged(
    reference: Outputs, candidate: Outputs, limits: Limits = LIMITS, axis: int = 0
) -> dict[str, GateResult]:
    comparer = Comparer(matching=Matching.of([Rows(NAMES, axis)], limits.cosine))
    comparer.add(reference, candidate, "photo")
    gates = judge(limits, AccuracyResult(comparer.result()))
    return {gate.name: gate for gate in gates}


def missed(gates: dict[str, GateResult]) -> set[str]:
    return {name for name, gate in gates.items() if gate.status == "failed"}


TIED = found([0.9, 0.7, 0.7, 0.70003, 0.2])


@pytest.mark.parametrize("size", [0.01, 1.0, 1000.0])
def test_rows_are_as_near_as_their_sizes_say(size: float) -> None:
    large = {**TIED, "boxes": TIED["boxes"] * np.float32(size)}
    moved = ordered(large, 0, 2, 3, 1, 4)
    longest = np.linalg.norm(large["boxes"], axis=1).max()
    for share, wrong in ((0.002, set()), (0.05, {"cosine", "agreement"})):
        off = {**moved, "boxes": moved["boxes"] + np.float32(share * longest / 2)}
        assert missed(judged(large, off)) - {"scale"} == wrong, share


def test_rows_that_tie_as_closely_as_the_precision_rounds_may_stand_elsewhere() -> None:
    gates = judged(TIED, ordered(TIED, 0, 2, 3, 1, 4))
    assert not missed(gates)
    assert (gates["cosine"].value, gates["agreement"].value) == (1.0, 1.0)
    for name in ("cosine", "agreement"):
        assert gates[name].why.endswith("; 3 of 5 rows stand elsewhere among equal scores")
    assert "rows" not in judged(TIED, TIED)["cosine"].why
    near = found([0.9, 0.7, 0.7005, 0.2])
    swapped = ordered(near, 0, 2, 1, 3)
    assert missed(judged(near, swapped)) == {"cosine", "agreement"}
    gates = judged(near, swapped, Limits(0.999))
    assert not missed(gates) and "2 of 4 rows" in gates["cosine"].why
    assert Matching.of([], 0.5).ties == pytest.approx(0.01)


@pytest.mark.parametrize("sorted_too", [True, False])
def test_rows_of_other_scores_stay(sorted_too: bool) -> None:
    """Whether the scores went along, or stay sorted while boxes and labels are swapped."""
    swapped = ordered(TIED, 1, 0, 2, 3, 4)
    if sorted_too:
        swapped["scores"] = TIED["scores"]
    gates = judged(TIED, swapped)
    assert {"cosine", "agreement"} <= missed(gates)
    assert "elsewhere" not in gates["cosine"].why


def test_all_scores_of_a_row_have_to_tie() -> None:
    names = (*NAMES, "quality")
    reference = {**TIED, "quality": np.array([0.5, 0.6, 0.8, 0.8, 0.1], np.float32)}
    for order, kept in (((0, 2, 1, 3, 4), False), ((0, 1, 3, 2, 4), True)):
        comparer = Comparer(matching=Matching([Rows(names, 0)], 1e-4))
        comparer.add(reference, ordered(reference, *order))
        gates = judge(LIMITS, AccuracyResult(comparer.result()))
        assert all(gate.passed for gate in gates) == kept


def test_a_row_s_own_scores_have_to_tie_too() -> None:
    """Its second is off by half, which is little beside the largest: no row of another place."""
    quality = np.array([1.0, 0.02, 0.02, 0.02, 0.01], np.float32)
    reference = {**TIED, "quality": quality}
    for wrong in (1.0, 1.5):
        other = ordered(reference, 0, 2, 1, 3, 4)
        other["quality"][1] *= wrong
        (match,) = Matching([Rows((*NAMES, "quality"), 0)], 0.01).matched(reference, other)
        assert match.moved == (2 if wrong == 1 else 0)


def test_what_is_wrong_in_a_row_that_ties_is_wrong() -> None:
    order = (0, 2, 1, 3, 4)
    box, label = ordered(TIED, *order), ordered(TIED, *order)
    box["boxes"][1] += 30
    label["labels"][1] = 6
    score = ordered(TIED, *order)
    score["scores"][1] = 0.705
    alone = {**TIED, "boxes": TIED["boxes"][list(order)]}
    for wrong in (box, label, score, alone):
        gates = judged(TIED, wrong)
        assert "cosine" in missed(gates) and "elsewhere" not in gates["cosine"].why


def test_what_never_ties() -> None:
    """A row that stands twice; what is not finite; rows without scores."""
    assert "agreement" in missed(judged(TIED, ordered(TIED, 0, 2, 2, 3, 4)))
    odd = found([np.nan, np.nan, np.inf, np.inf, 0.5])
    assert "agreement" in missed(judged(odd, ordered(odd, 1, 0, 3, 2, 4)))
    reference = {name: TIED[name] for name in ("boxes", "labels")}
    assert missed(judged(reference, ordered(reference, 0, 2, 1, 3, 4))) == {"cosine", "agreement"}


def test_lists_of_a_batch_are_matched_one_by_one() -> None:
    both = {name: np.stack([array, array]) for name, array in TIED.items()}
    moved = ordered(TIED, 0, 2, 1, 3, 4)
    other = {name: np.stack([TIED[name], moved[name]]) for name in TIED}
    gates = judged(both, other, axis=1)
    assert not missed(gates) and "; 2 of 10 rows" in gates["agreement"].why
    crossed = {name: array[::-1] for name, array in both.items()}
    crossed["labels"] = both["labels"] + np.array([[0], [1]])
    assert "agreement" in missed(judged(both, crossed, axis=1))


def test_more_or_fewer_rows_are_told_with_what_they_have_in_common() -> None:
    fewer = ordered(TIED, 0, 2, 1, 3)
    gates = judged(TIED, fewer)
    assert "interface" in missed(gates)
    why = gates["interface"].why
    assert "labels has another shape on photo: [4] instead of [5]; scores" in why
    assert why.endswith(
        "[4] instead of [5] (4 of its 4 rows are the source's, differing by at most 0 of the "
        "longest; 1 of the source alone, of score 0.2)"
    )
    none = {name: array[:0] for name, array in TIED.items()}
    assert "0 of its 5 rows" in judged(none, TIED)["interface"].why
    assert "5 of the source alone, of scores 0.2 to 0.9" in judged(TIED, none)["interface"].why
    assert not missed(judged(none, none)) - {"cosine"}


def test_ties_of_any_order_are_found_again() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        reference = found([0.25, *rng.integers(0, 9, 60)], np.float64)
        order = np.lexsort((rng.random(61), reference["scores"]))
        back = np.argsort(reference["scores"], kind="stable")
        gates = judged(ordered(reference, *back), ordered(reference, *order))
        assert not missed(gates) and gates["cosine"].value == 1.0


def lists(text: str) -> list[Rows]:
    return lists_of(
        onnx_ir.from_onnx_text(f'<ir_version: 9, opset_import: ["" : 20]> {text}').graph
    )


def test_lists_are_what_operators_chose() -> None:
    found = lists("""g (float[n, 4] all, float[n] s) =>
        (float[a, 4] boxes, float[b] scores, int64[b] at, float[n] same, float[c] other)
        <float[1] half = {0.5}> {
        which = Greater (s, half) rows = NonZero (which) at = Squeeze (rows)
        boxes = Gather (all, at) scores = Gather (s, at) same = Abs (s)
        sums = ReduceSum <keepdims = 0> (all) many = Abs (sums) other = Expand (many, many) }""")
    assert found == [Rows(("boxes", "scores", "at"), 0)]


@pytest.mark.parametrize(("boxes", "scores", "expected"), [
    ("8, 4", "8", [Rows(("boxes", "at", "scores"), 1)]),
    ("9, 4", "8", [Rows(("at", "scores"), 1)]),
    ("8, 4", "8, 1", []),
])  # fmt: skip
def test_lists_of_fixed_length_come_from_topk(
    boxes: str, scores: str, expected: list[Rows]
) -> None:
    text = f"""g (float[b, 24] s, float[b, 24, 4] all) =>
        (float[b, {boxes}] boxes, int64[b, 8] at, float[b, {scores}] scores)
        <int64[1] k = {{8}}, int64[1] end = {{2}}> {{ scores, at = TopK <axis = -1> (s, k)
        index = Unsqueeze (at, end) boxes = GatherElements <axis = 1> (all, index) }}"""
    assert lists(text) == expected
