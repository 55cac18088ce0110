"""--input and --dim, as users write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from converter.errors import UsageError
from converter.options.inputs import (
    DTYPES,
    InputSpec,
    fixed_to_one,
    parse_input,
    parse_inputs,
    with_batch,
)


@pytest.mark.parametrize(("text", "name", "dtype", "shape"), [
    ("x:batchx3x224x224", "x", None, ("batch", 3, 224, 224)),
    ("x:1x3", "x", None, (1, 3)),
    ("x:7", "x", None, (7,)),
    ("ids:int64:batchxtokens", "ids", "int64", ("batch", "tokens")),
    ("serving_default_x:0:1x224", "serving_default_x:0", None, (1, 224)),
    ("serving_default_x:0:float16:1x224", "serving_default_x:0", "float16", (1, 224)),
    ("a/b:c:d:2", "a/b:c:d", None, (2,)),
    ("ids:int64:batch,max_len", "ids", "int64", ("batch", "max_len")),
    ("ids:batch, 4", "ids", None, ("batch", 4)),
    ("sr:int64:", "sr", "int64", ()),
    ("scale:", "scale", None, ()),
    ("text:string:batch", "text", "string", ("batch",)),
    ("float32:2", "float32", None, (2,)),
    ("Имя with space:2", "Имя with space", None, (2,)),
])  # fmt: skip
def test_reads(text: str, name: str, dtype: str | None, shape: tuple[int | str, ...]) -> None:
    assert parse_input(text) == InputSpec(name, dtype or "float32", shape, typed=dtype is not None)


@pytest.mark.parametrize(("text", "says"), [
    ("x", "no dimensions"),
    ("", "no dimensions"),
    ("x:float32", "'float32' is a type"),
    ("x:half", "'half' is a type"),
    (":1x3", "no name"),
    (":float32:1x3", "no name"),
    ("x:float:1x3", "as float32"),
    ("x:long:1x3", "as int64"),
    ("x:-1x3", "'-1' has no name"),
    ("x:Nonex3", "'None' has no name"),
    ("x:?x3", "'?' has no name"),
    ("x:0x3", "'0' has no name"),
    ("x:batchxmax_len", "'_len' is neither"),
    ("x:1xx3", "'' is neither"),
    ("x:1x3x", "'' is neither"),
    ("x:1x3.5", "'3.5' is neither"),
    ("x:[1,3]", "'[1' is neither"),
])  # fmt: skip
def test_errors_teach(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_input(text)
    assert says in caught.value.message
    assert caught.value.message.startswith(f"--input {text}:")
    assert "NAME[:DTYPE]:DIMxDIM" in caught.value.hint
    assert "max_len" not in text or "commas" in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["N", "b", "bs", "batch_size", "Batch"])
def test_a_batch_has_one_name(name: str) -> None:
    specs = parse_inputs([f"x:{name},3", f"h:2,{name},4", "rows:tokens,3"])
    assert [spec.shape for spec in specs] == [("batch", 3), (2, "batch", 4), ("tokens", 3)]


@pytest.mark.parametrize(("texts", "batch", "shapes"), [
    (["x:1x3"], None, [(1, 3)]),
    (["x:1x3"], "keep", [(1, 3)]),
    (["x:1x3"], "dynamic", [("batch", 3)]),
    (["x:1x3", "n:1"], "4", [(4, 3), (4,)]),
    (["x:Nx3", "h:2xNx4", "k:7"], "4", [(4, 3), (2, 4, 4), (7,)]),
    (["x:Nx3", "k:7"], "dynamic", [("batch", 3), (7,)]),
    (["x:1x3", "k:7", "s:"], "dynamic", [(1, 3), (7,), ()]),
])  # fmt: skip
def test_the_batch_that_is_asked_for(
    texts: list[str], batch: str | None, shapes: list[tuple[int | str, ...]]
) -> None:
    assert [spec.shape for spec in with_batch(parse_inputs(texts), batch)] == shapes


def test_a_batch_written_as_1_has_a_hint() -> None:
    note = "the batch is 1, as written; --input ids:int64:batch,3,max leaves it free"
    assert fixed_to_one(parse_inputs(["ids:int64:1,3,max", "y:1x5", "scale:"])) == [note]
    for free in (["x:Nx3"], ["x:2x3"], ["x:1"], ["x:1x3", "y:4x3"], []):
        assert fixed_to_one(parse_inputs(free)) == []


symbols = st.from_regex(r"[a-wyzA-Z][a-wyzA-Z0-9_]{0,8}", fullmatch=True)
dims = st.lists(st.one_of(st.integers(1, 10**6), symbols), max_size=5)
names = st.text(st.characters(exclude_characters=":", exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None)
@given(names, st.one_of(st.none(), st.sampled_from(DTYPES)), dims, st.sampled_from(["x", ","]))
def test_round_trip(name: str, dtype: str | None, shape: list[int | str], separator: str) -> None:
    if separator == "," and len(shape) == 1:
        separator = "x"
    text = f"{name}:{dtype}:" if dtype else f"{name}:"
    text += separator.join(str(dim) for dim in shape)
    if len(shape) == 1 and (shape[0] in DTYPES or (dtype is None and isinstance(shape[0], str))):
        return  # a lone word after the name may be a type's alias; refused above
    expected = InputSpec(name, dtype or "float32", tuple(shape), typed=dtype is not None)
    assert parse_input(text) == expected


def test_an_input_given_twice() -> None:
    with pytest.raises(UsageError, match="--input x is given 2 times"):
        parse_inputs(["x:1", "y:2", "x:3"])
