"""``python -m tests.release``: builds what is released into build/release, and tries it.

1. The sdist and the wheel are built twice from the committed files, each time in a folder of its
   own; both times give the same bytes.
2. ``twine check`` takes them.
3. Each is installed into empty environments, of Python 3.11 to 3.13, with constraints.txt, and
   converts a model there.

Prints the sha256 of each file. Exits with 1 where something isn't so.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from tests.foreign.environments import find_python

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
_OUT = ROOT / "build" / "release"
_TRY = """
import onnx
head = '<ir_version: 10, opset_import: ["" : 20]>'
graph = "net (float[n, 4] x) => (float[n, 4] y) {y = Relu(x)}"
onnx.save(onnx.parser.parse_model(head + graph), "net.onnx")
import modelyard
made = modelyard.convert("net.onnx", samples="random:4", bench=False, serve="triton", out="out")
assert made.report.verdict == "passed", made
print(modelyard.__version__)
"""


def run(line: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """What a command says on standard output; ends this one where it fails."""
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(line, cwd=cwd, env=own | variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, line))}\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> list[Path]:
    """The sdist and the wheel, made of the files of the commit."""
    copy = folder / "checkout"
    copy.mkdir(parents=True)
    epoch = run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    archive = folder / "checkout.tar"
    run(["git", "archive", "--output", archive, "HEAD"], ROOT)
    with tarfile.open(archive) as tar:
        tar.extractall(copy, filter="data")
    line = [sys.executable, "-m", "build", "--outdir", folder / "dist", copy]
    run(line, copy, SOURCE_DATE_EPOCH=epoch)
    files = sorted((folder / "dist").iterdir())
    for file in files:
        if file.name.endswith(".tar.gz"):
            _without_times(file, int(epoch))
    return files


def _without_times(path: Path, epoch: int) -> None:
    """Writes an archive anew with one time and one owner for all files, in the names' order."""
    with tarfile.open(path) as old:
        members = sorted(old.getmembers(), key=lambda member: member.name)
        data = {member.name: old.extractfile(member) for member in members}
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in members:
                member.mtime, member.uid, member.gid = epoch, 0, 0
                member.uname = member.gname = ""
                member.pax_headers = {}
                new.addfile(member, data[member.name])
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as packed:
        packed.write(plain.getvalue())


def tried(file: Path, version: str, folder: Path) -> str:
    """The version that the file's installation says, in an empty environment of a Python."""
    python = find_python(version)
    run([python, "-m", "venv", folder], folder.parent)
    inner = folder / "bin" / "python"
    run([inner, "-m", "pip", "install", "-qc", ROOT / "constraints.txt", file], folder)
    run([folder / "bin" / "modelyard", "doctor"], folder)
    return run([inner, "-c", _TRY], folder).strip().splitlines()[-1]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (built(Path(scratch) / name) for name in ("first", "second"))
        digests = [
            [sha256(file.read_bytes()).hexdigest() for file in made] for made in (first, second)
        ]
        if digests[0] != digests[1]:
            sys.exit(f"two builds differ: {[file.name for file in first]}: {digests}")
        shutil.rmtree(_OUT, ignore_errors=True)
        _OUT.mkdir(parents=True)
        files = [Path(shutil.copy(file, _OUT)) for file in first]
        print(run([sys.executable, "-m", "twine", "check", "--strict", *files], ROOT))
        for file, digest in zip(files, digests[0], strict=True):
            print(digest, file.name)
            for version in PYTHONS:
                said = tried(file, version, Path(scratch) / f"{file.suffix}-{version}")
                print(f"  Python {version}: modelyard {said} converts")


if __name__ == "__main__":
    main()
