"""Names that TensorFlow generates, and what becomes of them."""

import pytest

from parsers.generated_names import readable, readable_names


@pytest.mark.parametrize(("name", "expected"), [
    ("serving_default_input_2:0", "input_2"),
    ("serving_default_image", "image"),
    ("image:0", "image"),
    ("StatefulPartitionedCall:2", "output_2"),
    ("StatefulPartitionedCall", "output_0"),
    ("PartitionedCall_1:10", "output_10"),
    *((name, name) for name in (
        "image:1", "serving_default_", ":0", "my_StatefulPartitionedCall:2", "image")),
])  # fmt: skip
def test_readable(name: str, expected: str) -> None:
    assert readable(name) == expected


def test_two_that_would_be_called_alike_keep_their_names() -> None:
    names = ["serving_default_x:0", "x:0", "y:0", "PartitionedCall:1", "StatefulPartitionedCall:1"]
    found = readable_names(names)
    assert found == {**dict.fromkeys(names), **{name: name for name in names}, "y:0": "y"}
    assert readable_names(["x:0", "x"]) == {"x:0": "x:0", "x": "x"}
