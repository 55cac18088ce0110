"""Finding and importing the user's code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .client import Client, Failure
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
    assert [(p["name"], p["required"]) for p in loaded["signature"]] == [
        ("x", True),
        ("scale", False),
    ]
    assert loaded["signature"][0]["annotation"] == "torch.Tensor"


@pytest.mark.parametrize(
    ("attribute", "args", "parameters", "weights"),
    [
        ("Net.wide", [], 40, "by-code"),
        ("Zoo.Inner", [2], 10, "none"),
        ("build", [5], 25, "by-code"),
        ("ready", [], 15, "by-code"),
    ],
)
def test_what_may_be_named(
    worker: Client, write: Write, attribute: str, args: list[int], parameters: int, weights: str
) -> None:
    loaded = worker.call("load", source=f"{write(NET)}:{attribute}", args=args)
    assert (loaded["parameters"], loaded["weights"]) == (parameters, weights)


@pytest.mark.parametrize(
    ("attribute", "args", "message"),
    [
        ("Nett", [], "has no 'Nett'; it has: Net"),
        ("Net", [1, 2, 3], "cannot be called so"),
        ("build", [], "missing a required argument: 'width'"),
        ("ready", [1], "takes no arguments"),
        ("number", [], "is a int, not a model"),
        ("Zoo", [], "gave a Zoo, not a torch.nn.Module"),
    ],
)
def test_wrong_names_and_arguments(
    worker: Client, write: Write, attribute: str, args: list[int], message: str
) -> None:
    with pytest.raises(Failure) as caught:
        worker.call("load", source=f"{write(NET)}:{attribute}", args=args)
    assert caught.value.kind == "usage"
    assert message in caught.value.message


@pytest.mark.parametrize("source", ["net.py", "nowhere.py:Net", "no.such.module:Net", ":Net"])
def test_sources_that_are_not_there(worker: Client, source: str) -> None:
    with pytest.raises(Failure) as caught:
        worker.call("load", source=source)
    assert caught.value.kind == "usage"


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
def test_siblings_with_names_of_ours(
    worker: Client, write: Write, tmp_path: Path, name: str, kind: str
) -> None:
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


def _install_editable(folder: Path, package: Path) -> None:
    """What an editable install leaves: a .pth that adds a finder of its own."""
    (folder / "__editable___ours_finder.py").write_text(
        "import sys, importlib.util\n"
        "class Finder:\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        if name == 'converter':\n"
        f"            return importlib.util.spec_from_file_location(name, {str(package)!r})\n"
        "def install():\n"
        "    sys.meta_path.append(Finder)\n"
    )
    (folder / "sitecustomize.py").write_text("import __editable___ours_finder as f\nf.install()\n")


@pytest.mark.parametrize("kind", ["editable", "path"])
def test_installed_converter_of_ours_stays_out(tmp_path: Path, write: Write, kind: str) -> None:
    """A user's folder without __init__.py would lose against an installed package."""
    root = Path(__file__).resolve().parents[2]
    site = tmp_path / "site"
    site.mkdir()
    paths = [str(site)]
    if kind == "editable":
        _install_editable(site, root / "converter" / "__init__.py")
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


def test_relative_imports_in_a_package(worker: Client, write: Write) -> None:
    write("", "top/__init__.py", head="")
    write("", "top/models/__init__.py", head="")
    write("WIDTH = 3", "top/config.py", head="")
    path = write(
        "from ..config import WIDTH\nfrom top import config\n"
        "def build(): return nn.Linear(WIDTH, config.WIDTH, bias=False)",
        "top/models/net.py",
    )
    assert worker.call("load", source=f"{path}:build")["parameters"] == 9


def test_relative_imports_without_any_package(worker: Client, write: Write) -> None:
    write("WIDTH = 3", "a-b/config.py", head="")
    write("from ..config import WIDTH as HEIGHT", "a-b/models/more.py", head="")
    path = write(
        "from .more import HEIGHT\nfrom ..config import WIDTH\n"
        "def build(): return nn.Linear(WIDTH, HEIGHT, bias=False)",
        "a-b/models/net.py",
    )
    assert worker.call("load", source=f"{path}:build")["parameters"] == 9


def test_package_called_like_a_loaded_one(worker: Client, write: Write) -> None:
    write("", "onnx/__init__.py", head="")
    write("WIDTH = 2", "onnx/config.py", head="")
    path = write(
        "from .config import WIDTH\ndef build(): return nn.Linear(WIDTH, 1, bias=False)",
        "onnx/net.py",
    )
    assert worker.call("load", source=f"{path}:build")["parameters"] == 2


@pytest.mark.parametrize(
    ("text", "kind", "message", "line"),
    [
        (
            "raise ValueError('too warm')",
            "source",
            "ValueError while importing net.py: too warm",
            3,
        ),
        ("def f(:\n  pass", "source", "SyntaxError", 3),
        ("import sys\nsys.exit(3)", "source", "exit(3)", 4),
        ("import no_such_package.sub", "dependency", "neither beside the source nor", 3),
        ("class Net(nn.Module):\n  def __init__(self): 1 / 0", "source", "ZeroDivisionError", 4),
    ],
)
def test_user_code_that_raises(
    worker: Client, write: Write, text: str, kind: str, message: str, line: int
) -> None:
    path = write(text)
    with pytest.raises(Failure) as caught:
        worker.call("load", source=f"{path}:Net")
    assert caught.value.kind == kind
    assert message in caught.value.message
    assert caught.value.message.startswith(f"{path}:{line}: ")
    assert caught.value.traceback
    assert "parsers" not in caught.value.traceback


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
