"""Small changes of a module's code, each of which some test should notice.

Each puts one expression or statement in the place of another and leaves the rest of the text as it
is. What no test can or should notice is left alone: docstrings, annotations, messages (what an
exception is made with, text with values in it, calls that tell the user something), assertions for
the type checker, ``__all__``, what only type checkers read, ``zip(strict=...)``.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_TELLING = frozenset({"progress", "warn", "warning", "note", "cast", "TypeVar", "NewType", "echo"})
_TEXT = frozenset({"hint", "details", "message", "help", "strict", "reason"})


@dataclass(frozen=True, order=True)
class Mutant:
    """A change of the lines ``first`` to ``last`` (the statement's), ``text`` in a span's place.

    Attributes:
        path: The module.
        span: Where the change is, as offsets into the module's bytes.
        kind: What sort of change it is.
    """

    path: Path
    first: int
    last: int
    span: tuple[int, int]
    text: str
    kind: str

    def code(self) -> bytes:
        """The module with the change made."""
        source = self.path.read_bytes()
        return source[: self.span[0]] + self.text.encode() + source[self.span[1] :]


def mutants(path: Path) -> list[Mutant]:
    """All changes of a module that it still compiles with, in order."""
    source = path.read_bytes()
    starts = _starts(source)
    found = []
    for node, statement, kind, changed in _changes(ast.parse(source)):
        span = _span(node, starts)
        text = ast.unparse(changed)
        if isinstance(node, ast.expr):
            text = f"({text})"
        found.append(Mutant(path, *_lines(statement), span, text, kind))
    return sorted(set(found))


def probed(path: Path, chosen: Mapping[int, Mutant], prelude: str) -> bytes:
    """The module with ``_reached(NUMBER)`` before what each of these mutants changes.

    Of what importing runs, the module's functions are probed instead: whoever imports first isn't
    the only one whom it concerns.

    Args:
        path: The module.
        chosen: Its mutants, by number.
        prelude: The line that defines ``_reached``, for the module's first statement.
    """
    source = path.read_bytes()
    starts, tree = _starts(source), ast.parse(source)
    places: list[tuple[tuple[int, int, int], str]] = []  # closing before opening, outer ones first

    def before(node: ast.stmt, text: str) -> None:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        indent = source[starts[first - 1] :][: node.col_offset]
        if not indent.strip():
            at = starts[first - 1] + node.col_offset
            places.append(((at, 1, -len(source)), f"{text}\n{indent.decode()}"))

    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    bodies = [item for one in functions for item in ast.walk(one)]
    inside = {_span(n, starts) for n in bodies if isinstance(n, ast.expr | ast.stmt)}
    cases = [item for n in bodies if isinstance(n, ast.pattern) for item in ast.walk(n)]
    inside -= {_span(n, starts) for n in cases if isinstance(n, ast.expr)}
    for number, mutant in chosen.items():
        probe, (first, last) = f"_reached({number})", mutant.span
        if mutant.span not in inside:
            for function in functions:
                for statement in function.body[bool(ast.get_docstring(function)) :][:1]:
                    before(statement, probe)
        elif mutant.text.startswith("("):
            places.append(((first, 1, -last), f"({probe} or ("))
            places.append(((last, 0, -first), "))"))
        else:
            places.append(((first, 1, -last), f"{probe}; "))
    own = [n for n in tree.body if not _is_text_alone(n) and not _is_future(n)]
    before(own[0], prelude)
    parts, done = [], 0
    for (at, _, _), text in sorted(places):
        parts += [source[done:at], text.encode()]
        done = at
    code = b"".join([*parts, source[done:]])
    compile(code, str(path), "exec")
    return code


def _is_text_alone(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _starts(source: bytes) -> list[int]:
    """Where each line starts."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(node: ast.expr | ast.stmt, starts: Sequence[int]) -> tuple[int, int]:
    """Where a node is in the source's bytes."""
    last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    return starts[node.lineno - 1] + node.col_offset, last


def _lines(statement: ast.stmt) -> tuple[int, int]:
    """A statement's first and last line; of one that holds others, its head's."""
    body = getattr(statement, "body", None)
    if not body:
        return statement.lineno, statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, body[0].lineno - 1)


Change = tuple[ast.expr | ast.stmt, ast.stmt, str, ast.AST]


def _changes(
    tree: ast.AST, statement: ast.stmt | None = None, returns: str = ""
) -> Iterator[Change]:
    """Each node that changes, its statement, how, and what it becomes."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or _left_alone(node):
                continue
            inner = node if isinstance(node, ast.stmt) else statement
            result = returns
            if isinstance(node, ast.FunctionDef) and node.returns:
                result = ast.unparse(node.returns)
            if isinstance(node, ast.expr | ast.stmt) and inner:
                if isinstance(node, ast.expr) and _decides(node, name):
                    yield node, inner, "branches swapped", ast.UnaryOp(ast.Not(), node)
                yield from ((node, inner, *change) for change in _of(node, result))
            if not isinstance(node, ast.Raise):
                yield from _changes(node, inner, result)


def _left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in _TEXT
    if isinstance(node, ast.Expr):  # docstrings, and the dots of protocols
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Call):
        return _called(node) in _TELLING or _called(node).endswith("Error")
    if isinstance(node, ast.Assign):
        return "__all__" in ast.unparse(node.targets[0])
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _called(call: ast.Call) -> str:
    function = call.func
    return getattr(function, "attr", None) or getattr(function, "id", "")


def _of(node: ast.expr | ast.stmt, returns: str) -> Iterator[tuple[str, ast.AST]]:
    """The changes of one node."""
    match node:
        case ast.Compare(ops=[operator]):
            other = _COMPARED[type(operator)]()
            yield "comparison", ast.Compare(node.left, [other], node.comparators)
        case ast.BoolOp():
            other_way = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and/or", ast.BoolOp(other_way, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", node.operand
        case ast.BinOp() if type(node.op) in _COMPUTED and not _is_text(node):
            yield "arithmetic", ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield "constant", ast.Constant(node.value + 1)
        case ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign():
            yield "removed", ast.Pass()
        case ast.Expr(value=ast.Call()) | ast.Delete():
            yield "removed", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed", ast.Pass()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            changed = ast.UnaryOp(ast.Not(), value) if returns == "bool" else ast.Constant(None)
            yield "returned", ast.Return(changed)


def _decides(node: ast.AST, field: str) -> bool:
    """Whether a node is a condition whose opposite no other change of it makes."""
    opposite = ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn
    match node:
        case ast.UnaryOp(op=ast.Not()) | ast.Constant():
            return False
        case ast.Compare(ops=[operator]) if isinstance(operator, opposite):
            return False
    return field in ("test", "ifs")


def _is_text(node: ast.expr) -> bool:
    """Whether a sum or a product is of text."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
