"""What a conversion loads of the tool's own files: nothing of what it doesn't use."""

import json
import subprocess
import sys
from pathlib import Path

from emitters import serving
from tests.acceptance.cli import written

DATA = (".spec", ".request", ".hub")
"""What of a plug-in is data, and what that is made of: read without its code."""

SERVERS = {
    f"emitters.serving.{path.parent.name}"
    for path in Path(serving.__file__).parent.glob("*/__init__.py")
}
"""The same of servers: in the folders' own files."""

SCRIPT = """
import json, sys
from pathlib import Path
from converter import plugins
objects, make = [], plugins._made
def remember(kind, entry):
    made = make(kind, entry)
    objects.append((kind, entry.name, made))  # held, so that no two have one number
    return made
plugins._made = remember
from converter.cli import main
sys.argv = ["modelyard", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code
names = ("converter", "emitters", "parsers", "zoo")
found = {n: getattr(m, "__file__", None) for n, m in list(sys.modules.items())}
found = {n: file for n, file in found.items() if file and n.split(".")[0] in names}
files = {n: Path(file).stat().st_size for n, file in found.items()}
objects = [item for item in objects if item[0] != "passes"]  # which remember while they work
kinds = [(kind, name) for kind, name, _ in objects]
Path("loaded.json").write_text(json.dumps({
    "files": files, "asked": len(set(kinds)), "made": len({id(made) for *_, made in objects}),
}))
"""


def test_a_conversion_loads_what_it_uses(tmp_path: Path) -> None:
    text = "g (float[batch, 4] x) => (float[batch, 4] y) { y = Tanh(x) }"
    model = written(tmp_path / "m.onnx", text)
    line = ["convert", model, "--to", "tflite", "--no-bench", "--no-cache"]
    subprocess.run([sys.executable, "-c", SCRIPT, *line], cwd=tmp_path, check=True, timeout=120)
    loaded = json.loads((tmp_path / "loaded.json").read_text())
    code = {
        name
        for name, size in loaded["files"].items()
        if size and not name.endswith(DATA) and name not in SERVERS
    }
    others = (
        "emitters.serving.",
        "emitters.coreml.",
        "emitters.tensorrt.",
        "emitters.ort.",
        "emitters.onnx.",
    )
    assert not [name for name in code if name.startswith(others)]
    assert not [
        name
        for name in code
        if name.startswith("parsers.")
        and name.count(".") > 1
        and not name.startswith("parsers.onnx.")
    ]
    assert len(loaded["files"]) <= 430
    assert loaded["made"] == loaded["asked"], "one object of each source, target and server"
