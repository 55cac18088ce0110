"""How lowerings and readings register themselves."""

import pytest

from converter.families import registering


def test_one_function_for_each_key() -> None:
    table: dict[str, str] = {}
    assert registering(table, ["Relu", "Elu"])("first") == "first"
    with pytest.raises(ValueError, match="Elu is there twice"):
        registering(table, ["Elu"])("second")
    assert table == {"Relu": "first", "Elu": "first"}
