"""A model file can't do anything to the machine it is read on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from converter.errors import ModelError
from parsers.tensorflow.child import contents as tf_contents

from .conftest import Opening

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_written(made: Path) -> Iterator[None]:
    """What the models would write isn't there, before and after."""
    assert not (made / "PWNED").exists()
    yield
    assert not (made / "PWNED").exists()


@pytest.mark.parametrize(("source", "options", "nodes"), [
    ("evil_signature", {}, ["WriteFile", "ReadFile"]),
    ("evil.pb", {}, ["WriteFile (write)"]),
    ("foreign.pb", {"outputs": ["y"]}, ["AcmeBlur (y): TensorFlow doesn't know it"]),
    ("evil_ckpt/net.ckpt.meta", {"outputs": ["z"]}, ["WriteFile (write)"]),
])  # fmt: skip
def test_operators_that_act_on_the_machine_are_refused(
    source: str, options: dict[str, list[str]], nodes: list[str], opening: Opening
) -> None:
    with pytest.raises(ModelError, match="may act on this machine") as error:
        opening(source, **options)
    for node in nodes:
        assert any(line.startswith(node) for line in error.value.details), error.value.details
    assert error.value.exit_code == 3
    assert "--trust-source" in error.value.hint


def test_an_initializer_is_not_run_and_a_resource_not_made(opening: Opening) -> None:
    opened = opening("evil_init")
    opened.same("evil_init")
    assert any("WriteFile (write): writes files" in line for line in opened.source.warnings)
    opened = opening("evil_resource", signature="plain")
    out = opened.run({"x": np.ones((1, 2), np.float32)})
    assert next(iter(out.values())).tolist() == [[2.0, 3.0]]
    assert any("WriteFile" in line for line in opened.source.warnings)
    with pytest.raises(ModelError, match="LookupTableSizeV2"):
        opening("evil_resource", signature="held")


def test_variables_of_elsewhere_are_refused(opening: Opening, made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linked"
    shutil.copytree(made / "two", folder)
    for file in (folder / "variables").iterdir():
        moved = tmp_path / file.name
        shutil.move(file, moved)
        file.symlink_to(moved)
    with pytest.raises(ModelError, match="from outside of it") as error:
        opening(folder)
    assert len(error.value.details) == 2
    opening(folder, trust_source=True)


def test_the_harmless_operators_are_tensorflow_s_and_open_nothing(made: Path) -> None:
    registered = set((made / "operators.txt").read_text().split())
    assert registered >= tf_contents.HARMLESS
    assert len(registered) > 2 * len(tf_contents.HARMLESS)
    words = (
        *("File", "Save", "Restore", "PyFunc", "Summary", "Dataset", "Iterator", "Reader", "Send"),
        *("Recv", "Rpc", "Remote", "Debug", "Copy", "Xla", "TPU", "Custom", "Collective", "Host"),
        *("ImmutableConst", "Abort", "Table", "Mlir", "Path", "Write"),
    )
    allowed = {"DeepCopy", "TensorArrayWriteV3"}
    assert {op for op in tf_contents.HARMLESS if any(word in op for word in words)} == allowed
