"""What is noted of a module: what it calls, where, and what that held when it was made."""

from pathlib import Path

import torch
from torch import nn

from parsers.pytorch.child.parts import VALUES, Recorder


class Twice(nn.Module):  # type: ignore[misc]  # torch is not type-checked
    def __init__(self) -> None:
        super().__init__()
        self.line, self.act = nn.Linear(3, 3), nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.line(x))
        y += 1
        return self.line(y)


def recorded(model: nn.Module, inside: str, x: torch.Tensor) -> Recorder:
    recorder = Recorder(model, "", inside)
    with torch.no_grad(), recorder:
        model(x)
    return recorder


def test_calls_in_order_with_their_lines() -> None:
    seen = recorded(Twice(), "", torch.ones(2, 3)).parts
    told = [(part["name"], part["kind"], part["call"]) for part in seen]
    line = ("line", "Linear", False)
    assert told == [line, ("act", "ReLU", False), ("", "Twice", True), line, ("", "Twice", False)]
    first = Twice.forward.__code__.co_firstlineno
    lines = [first + 1, first + 1, first + 2, first + 3, first]
    assert [part["place"] for part in seen] == [f"{Path(__file__).name}:{n}" for n in lines]


def test_tensors_are_as_they_were_when_they_were_made() -> None:
    model, x = Twice(), -torch.ones(2, 3)
    seen = recorded(model, "", x)
    before, after = (seen.tensors[part["outputs"][0]] for part in seen.parts[:2])
    expected = model.line(x).reshape(-1)
    torch.testing.assert_close(before, expected)
    torch.testing.assert_close(after, expected.relu())
    assert [part["inputs"] for part in seen.parts[1:4]] == [p["outputs"] for p in seen.parts[:3]]


def test_every_run_of_a_module_is_there() -> None:
    seen = recorded(Twice(), "line", torch.ones(2, 3)).parts
    own = [part["call"] for part in seen if part["name"] == "line"]
    assert own == [True, False, True, False]


def test_large_tensors_are_known_by_some_values() -> None:
    seen = recorded(nn.Identity(), "", torch.arange(10_001.0))
    (values,) = seen.tensors.values()
    assert len(values) == VALUES and (values[0], values[1], values[-1]) == (0, 2, 10_000)
    assert list(seen.shapes.values()) == [[10_001]]


def test_nothing_stays_on_the_model() -> None:
    model = Twice()
    recorded(model, "", torch.ones(2, 3))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
