"""Make the Triton fixtures known to the tests beside this file."""

from tests.triton.fixtures import triton_environment

__all__ = ["triton_environment"]
