"""Which Triton release a package wants: the newest that fits, and for an engine the one that has
its TensorRT, since a plan loads only in the version that built it.

NVIDIA's own table is its support matrix (:data:`MATRIX`), with a column for each monthly release;
the release notes of a month (``release-notes/rel-YY-MM.html``) have the same. The rows here are
those that could be read or that somebody recorded, each with where it comes from, and no others:
a version that isn't here isn't guessed. What holds for every month, as Triton's maintainers say
(triton-inference-server/server issue 5812): the container ``nvcr.io/nvidia/tensorrt:YY.MM-py3`` has
a TensorRT whose plans ``nvcr.io/nvidia/tritonserver:YY.MM-py3`` loads.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

MATRIX = "https://docs.nvidia.com/deeplearning/frameworks/support-matrix/index.html"

NEWEST = "26.08"
"""The newest release in the table "ONNX Runtime Versions" of Triton's
``docs/introduction/compatibility.md`` (ONNX Runtime 1.28.0), as it was on 2026-11-27. Requests that
end older servers are refused by it, as Triton's maintainers say: lists in lists
(triton-inference-server/common pull request 156, of April 2026), sizes whose product overflows
(triton-inference-server/server pull request 8676, of February 2026)."""

LAST_WITH = {"tensorflow": "25.02"}
"""The newest release with a backend that newer ones have no more (triton-inference-server/server
pull request 8068)."""


@dataclass(frozen=True)
class Release:
    """One row.

    Attributes:
        release: ``24.12``, of the container ``tritonserver:24.12-py3``.
        tensorrt: The whole version: ``10.7.0.23``.
        source: Where that is said.
    """

    release: str
    tensorrt: str
    source: str


RELEASES = (
    Release(
        "24.12",
        "10.7.0.23",
        "docs/introduction/release_notes.md of triton-inference-server/server at its tag v2.53.0",
    ),
    Release("25.03", "10.9.0.34", "a user's record of what the container holds; not NVIDIA's word"),
    Release(
        "26.04",
        "10.16.1.11",
        "the table in NVIDIA's release notes of 26.04, as a user quotes it",
    ),
    Release(
        "26.07", "11.1.0.106", "a user's record of what the container holds; not NVIDIA's word"
    ),
)


def newest_with(backend: str) -> str:
    """The newest release known to have a backend."""
    return LAST_WITH.get(backend, NEWEST)


def releases_with(version: str) -> list[Release]:
    """The releases known to have exactly this TensorRT."""
    return [item for item in RELEASES if item.tensorrt == version]


def describe(version: str) -> str:
    """Which Triton loads a plan of TensorRT ``version``, in a sentence; a mismatch is said."""
    known = releases_with(version)
    if known:
        return " ".join(
            f"Triton {item.release} has TensorRT {version}: {item.source}." for item in known
        )
    major = version.split(".")[0]
    near = [item for item in RELEASES if item.tensorrt.split(".")[0] == major]
    others = ", ".join(f"{item.release} has {item.tensorrt}" for item in near)
    return (
        f"No release in our table has TensorRT {version}"
        + (f" ({others}, which doesn't load it)" if others else "")
        + f": look it up in {MATRIX}, and take exactly that release."
    )


def table() -> list[dict[str, str]]:
    """The rows as JSON values, for a lock."""
    return [asdict(item) for item in RELEASES]
