"""Installs a folder of :mod:`bench.gpu_prepare` beside this checkout, without a network.

    python -m bench.gpu_install DIR TARGET

TARGET is emptied, filled with the wheels of ``DIR/wheels``, and told what this checkout registers
(its entry points), so that it need not be installed. Whoever runs something with it sets
``PYTHONPATH=TARGET:.`` and ``MODELYARD_CACHE=DIR/cache``. Standard library only.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Installs ``DIR`` into ``TARGET``."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    wheels, target = Path(sys.argv[1], "wheels"), Path(sys.argv[2])
    if not list(wheels.glob("*.whl")):
        raise SystemExit(f"{wheels} holds no wheels: make it with python -m bench.gpu_prepare")
    if target.exists():
        shutil.rmtree(target)
    install(wheels, target)
    register(target)


def install(wheels: Path, target: Path) -> None:
    """pip, with no index and nothing but the wheels."""
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    line += ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", str(target)]
    subprocess.run([*line, *map(str, sorted(wheels.glob("*.whl")))], check=True)


def register(target: Path) -> None:
    """This checkout's metadata, as an editable installation would write it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    folder = target / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir(parents=True)
    head = [("Metadata-Version", "2.1"), ("Name", project["name"]), ("Version", project["version"])]
    needs = [("Requires-Dist", needed) for needed in project["dependencies"]]
    (folder / "METADATA").write_text("".join(f"{key}: {value}\n" for key, value in head + needs))
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (folder / "entry_points.txt").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
