"""The model of the tests of the search."""

import pytest

from converter.ir.model import Model
from tests.quantize.fake import chain


@pytest.fixture(scope="session")
def model() -> Model:
    """Eight matrix products, of which nothing is changed."""
    return chain()
