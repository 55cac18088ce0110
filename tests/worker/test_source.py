"""Finding and importing the user's code."""

import os
from pathlib import Path

import pytest

from .client import Client
from .conftest import HEAD, Write, export, spec

NET = """
class Net(nn.Module):
    def __init__(self, width: int = 4, *, bias: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(4, width, bias=bias)

    @classmethod
    def wide(cls, width=8):
        return cls(width)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.layer(x) * scale

def build(width):
    return Net(width)

class Zoo:
    Inner = Net

ready = Net(3)
number = 7
"""


def test_class_with_arguments(worker: Client, write: Write) -> None:
    path = write(NET)
    loaded = worker.call("load", source=f"{path}:Net", args=[6], kwargs={"bias": False})
    assert (loaded["class"], loaded["parameters"], loaded["weights"]) == ("Net", 24, "none")
    found = [(p["name"], p["required"]) for p in loaded["signature"]]
    assert found == [("x", True), ("scale", False)]
    assert loaded["signature"][0]["annotation"] == "torch.Tensor"
    for attribute, args, parameters, weights in (
        ("Net.wide", [], 40, "by-code"), ("Zoo.Inner", [2], 10, "none"),
        ("build", [5], 25, "by-code"), ("ready", [], 15, "by-code"),
    ):  # fmt: skip
        loaded = worker.call("load", source=f"{path}:{attribute}", args=args)
        assert (loaded["parameters"], loaded["weights"]) == (parameters, weights)


@pytest.mark.parametrize(("source", "args", "message"), [
    ("{net}:Nett", [], "has no 'Nett'; it has: Net"),
    ("{net}:Net", [1, 2, 3], "cannot be called with these arguments"),
    ("{net}:build", [], "missing a required argument: 'width'"),
    ("{net}:ready", [1], "takes no arguments"),
    ("{net}:number", [], "is a int, not a model"),
    ("{net}:Zoo", [], "returned a Zoo, not a torch.nn.Module"),
    ("net.py", [], ""),
    ("nowhere.py:Net", [], ""),
    ("no.such.module:Net", [], ""),
    (":Net", [], ""),
])  # fmt: skip
def test_wrong_names_and_arguments(worker: Client, write: Write, source: str, args: list[int],
                                   message: str) -> None:  # fmt: skip
    source = source.format(net=write(NET))
    worker.refuses("usage", (message,), "load", source=source, args=args)


def test_module_by_dotted_name(worker: Client, write: Write, tmp_path: Path) -> None:
    write(NET, "lib/deep/nets.py")
    write("", "lib/__init__.py", head="")
    loaded = worker.call(
        "load", source="lib.deep.nets:build", args=[4], search_paths=[tmp_path.as_posix()]
    )
    assert loaded["parameters"] == 20


@pytest.mark.parametrize(
    "name", ["converter", "parsers", "zoo", "worker", "main", "torch_utils", "utils", "protocol"]
)
@pytest.mark.parametrize("kind", ["module", "package", "folder"])
def test_siblings_with_names_of_ours(worker: Client, write: Write, tmp_path: Path, name: str,
                                     kind: str) -> None:  # fmt: skip
    inside = {"module": f"{name}.py", "package": f"{name}/__init__.py", "folder": f"{name}/it.py"}
    write("from pathlib import Path\nWIDTH = 11\nPLACE = str(Path(__file__))", inside[kind], "")
    path = write(f"""
        from {name}{".it" if kind == "folder" else ""} import PLACE, WIDTH
        def build():
            assert PLACE.startswith({str(tmp_path)!r}), PLACE
            return nn.Linear(1, WIDTH, bias=False)
    """)
    assert worker.call("load", source=f"{path}:build")["parameters"] == 11


@pytest.mark.parametrize("name", ["torch", "json", "converter", "main", "my-net", "class"])
def test_files_with_any_name(worker: Client, write: Write, name: str) -> None:
    path = write(NET, f"{name}.py")
    result = export(worker, path, [spec("x", "batch", 4)])
    assert [m["path"] for m in result["modules"]] == [str(path)]


FINDER = """
import sys, importlib.util
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == 'converter':
            return importlib.util.spec_from_file_location(name, {!r})
def install():
    sys.meta_path.append(Finder)
"""
"""What an editable install leaves beside its .pth: a finder of its own."""


@pytest.mark.parametrize("kind", ["editable", "path"])
def test_installed_converter_of_ours_stays_out(tmp_path: Path, write: Write, kind: str) -> None:
    """A user's folder without __init__.py would lose against an installed package."""
    root = Path(__file__).resolve().parents[2]
    paths = [str(tmp_path / "site")]
    if kind == "editable":
        finder = FINDER.format(str(root / "converter" / "__init__.py"))
        write(finder, "site/__editable___ours_finder.py", head="")
        write("import __editable___ours_finder as f\nf.install()", "site/sitecustomize.py", head="")
    else:
        paths.append(str(root))
    write("WIDTH = 12", "user/converter/it.py", head="")
    path = write(
        """
        import sys
        from converter.it import WIDTH
        def build():
            assert "converter" in sys.modules and not hasattr(sys.modules["converter"], "VERSION")
            try:
                import emitters
            except ModuleNotFoundError:
                return nn.Linear(1, WIDTH, bias=False)
        """,
        "user/net.py",
    )
    with Client(cwd=tmp_path, env={"PYTHONPATH": os.pathsep.join(paths)}) as client:
        assert client.call("load", source=f"{path}:build")["parameters"] == 12


@pytest.mark.parametrize(("files", "net", "imports", "sizes"), [
    (
        {"top/__init__.py": "", "top/models/__init__.py": "", "top/config.py": "WIDTH = 3"},
        "top/models/net.py",
        "from ..config import WIDTH\nfrom top import config",
        "WIDTH, config.WIDTH",
    ),
    (
        {
            "a-b/config.py": "WIDTH = 3",
            "a-b/models/more.py": "from ..config import WIDTH as HEIGHT",
        },
        "a-b/models/net.py",
        "from .more import HEIGHT\nfrom ..config import WIDTH",
        "WIDTH, HEIGHT",
    ),
    (
        {"onnx/__init__.py": "", "onnx/config.py": "WIDTH = 3"},
        "onnx/net.py",
        "from .config import WIDTH",
        "WIDTH, WIDTH",
    ),
], ids=["in-a-package", "without-any", "called-like-a-loaded-one"])  # fmt: skip
def test_relative_imports(worker: Client, write: Write, files: dict[str, str], net: str,
                          imports: str, sizes: str) -> None:  # fmt: skip
    for name, text in files.items():
        write(text, name, head="")
    path = write(f"{imports}\ndef build(): return nn.Linear({sizes}, bias=False)", net)
    assert worker.call("load", source=f"{path}:build")["parameters"] == 9


@pytest.mark.parametrize(("text", "kind", "message", "line"), [
    ("raise ValueError('too warm')", "source", "ValueError while importing net.py: too", 3),
    ("def f(:\n  pass", "source", "SyntaxError", 3),
    ("import sys\nsys.exit(3)", "source", "exit(3)", 4),
    ("import no_such_package.sub", "dependency", "neither beside the source nor", 3),
    ("class Net(nn.Module):\n  def __init__(self): 1 / 0", "source", "ZeroDivisionError", 4),
])  # fmt: skip
def test_user_code_that_raises(worker: Client, write: Write, text: str, kind: str, message: str,
                               line: int) -> None:  # fmt: skip
    path = write(text)
    failure = worker.refuses(kind, (message,), "load", source=f"{path}:Net")
    assert failure.message.startswith(f"{path}:{line}: ")
    assert failure.traceback and "parsers" not in failure.traceback


def test_command_line_of_user_code(worker: Client, write: Write) -> None:
    """A script that parses its arguments when imported sees none of ours."""
    path = write("""
        import argparse
        args = argparse.ArgumentParser().parse_args()
        Net = nn.Identity
    """)
    assert worker.call("load", source=f"{path}:Net")["class"] == "Identity"


def test_modules_are_the_users_files(worker: Client, write: Write, tmp_path: Path) -> None:
    write("WIDTH = 4", "settings.py", head="")
    write("def late(x): return x + 1", "late.py", head="")
    path = write("""
        import wave
        from settings import WIDTH
        class Net(nn.Module):
            def forward(self, x):
                from late import late
                return late(x)
    """)
    result = export(worker, path, [spec("x", 2, 4)])
    assert [Path(m["path"]).name for m in result["modules"]] == ["late.py", "net.py", "settings.py"]
    assert all(len(m["sha256"]) == 64 for m in result["modules"])
    assert not list(tmp_path.rglob("__pycache__"))


def test_seeds_make_constructors_repeatable(worker: Client, write: Write) -> None:
    path = write(HEAD + "Net = lambda: nn.Linear(4, 4)", head="")
    first = Path(export(worker, path, [spec("x", 2, 4)])["out"]).read_bytes()
    assert Path(export(worker, path, [spec("x", 2, 4)])["out"]).read_bytes() == first
