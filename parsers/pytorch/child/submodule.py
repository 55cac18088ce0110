"""Parts of a model, and whether a model is one function of its inputs."""

from __future__ import annotations

from typing import Any

from ...worker.errors import WorkerError

_SHOWN = 12


def take(model: Any, name: str | None) -> Any:
    """The submodule of that dotted name; the model itself without one. Raises usage."""
    if not name:
        return model
    parts = dict(model.named_modules())
    if name not in parts:
        known = [part for part in parts if part]
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        listed = ", ".join(known[:_SHOWN]) + more if known else "none"
        raise WorkerError(
            "usage",
            f"the model has no submodule {name!r}; it has: {listed}",
            known,
            code="unknown-name",
        )
    return parts[name]


def require_stateless(model: Any) -> None:
    """Raise unsupported for TorchScript that keeps state between calls.

    A trace takes the attributes that forward assigns for constants, and the graph would quietly
    forget what it was told before.
    """
    changed = _assigned(model)
    if not changed:
        return
    stateless = [name for name, part in model.named_children() if not _assigned(part)]
    advice = "Rewrite forward so that it takes the state and returns it"
    if stateless:
        advice += f", or convert a part that does: --submodule {' or '.join(stateless)}"
    raise WorkerError(
        "unsupported",
        f"the model keeps state between calls: forward assigns {', '.join(changed)}, which a "
        f"graph cannot. {advice}",
        [f"{name} ({kind}) is assigned in forward" for name, kind in changed.items()],
    )


def _assigned(module: Any) -> dict[str, str]:
    """The attributes that TorchScript's forward assigns, and their types; none for others."""
    try:
        graph = module.inlined_graph
    except (AttributeError, RuntimeError):  # not TorchScript, or without a forward
        return {}
    nodes: list[Any] = list(graph.findAllNodes("prim::SetAttr", recurse=True))
    return {node.s("name"): str(list(node.inputs())[1].type()) for node in nodes}
