"""What an engine's layers compute in, from the record beside it; of one that isn't built yet, what
its typed graph asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.analysis.macs import macs_by_node
from converter.analysis.products import products, stored_bytes
from converter.ir.contents import Contents, Product
from converter.ir.model import Model
from emitters.tensorrt.facts import GRAPH, require_unchanged
from emitters.tensorrt.layers import engine_layer, matrix_layers
from emitters.tensorrt.plan_header import target_of


def contents_of(path: Path, sizes: Mapping[str, int]) -> Contents:
    """What an artifact holds; see :meth:`converter.protocols.emitter.Emitter.contents`.

    Args:
        path: An engine, or the typed graph of one to be built.
        sizes: Of free dimensions by name.

    Raises:
        ModelError: Engine, graph or record were changed since they were written.
    """
    if not target_of(path):
        model = Model.load(path)
        return Contents(f"the typed graph {path.name}", products(model, sizes), stored_bytes(model))
    facts, model = require_unchanged(path), Model.load(path.with_name(GRAPH))
    macs = macs_by_node(model, sizes)
    seen = [layer for item in facts["engine_layers"] if (layer := _inspected(item))]
    heavy = [layer for layer in seen if any(node in macs for node in layer["nodes"])]
    what = path.name if heavy else f"the network of {path.name}; its weights in {GRAPH}"
    counted = _products(heavy or matrix_layers(facts["layers"]), macs)
    return Contents(what, counted, stored_bytes(model))


def _inspected(item: Any) -> dict[str, Any] | None:
    return engine_layer(item) if isinstance(item, dict) else None


def _products(layers: Sequence[Mapping[str, Any]], macs: Mapping[str, int]) -> list[Product]:
    """Layers; one that several nodes became has all their multiply-adds, several of one node have
    equal parts of them."""
    holders = Counter(node for layer in layers for node in layer["nodes"] if node in macs)
    return [
        Product(
            layer["name"],
            layer["kind"],
            layer["type"],
            sum(macs[node] / holders[node] for node in layer["nodes"] if node in macs),
        )
        for layer in layers
    ]
