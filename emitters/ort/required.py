"""``required_operators.config``: what a build of ONNX Runtime needs to run a file.

Its build script takes that (``--include_ops_by_config``), and the types that are in it too
(``--enable_reduced_operator_type_support``).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from emitters.ort.flatbuffer import graphs, nodes, session_of, tools

HEAD = "# Operators in {}, by domain and opset; with types, where a build can leave others out\n"


def required_operators(path: Path) -> str:
    """The configuration's text, read from the file.

    Raises:
        ModelError: It is damaged.
    """
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    types = tools().OperatorTypeUsageManager()
    for graph, known in graphs(session_of(path).Model().Graph(), {}):
        for node in nodes(graph):
            domain = node.Domain().decode() or "ai.onnx"
            found[domain, node.SinceVersion()].add(node.OpType().decode())
            types.process_node(node, known)
    lines = [
        f"{domain};{opset};"
        + ",".join(f"{op}{types.get_config_entry(domain, op) or ''}" for op in sorted(ops))
        for (domain, opset), ops in sorted(found.items())
    ]
    return HEAD.format(path.name) + "".join(f"{line}\n" for line in lines)
