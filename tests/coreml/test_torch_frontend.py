"""What others write: packages and neural networks that coremltools' own PyTorch front end makes of
small networks, read by our parser and run by ONNX Runtime, against what PyTorch computes; and
basic-pitch's own package, against the ONNX file beside it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from converter.runtime.ort import OrtSession
from parsers.coreml.importer import read
from tests.coreml.running import Array, run
from tests.coreml.torch_networks import Network, networks
from tests.coreml.torch_packages import file_name
from tests.sweep import asked
from zoo.packages import fetch_package_file, fetch_package_folder
from zoo.samples import notes

pytestmark = pytest.mark.slow

NETWORKS = networks()
LAYERS = [name for name, network in NETWORKS.items() if network.layers]


@pytest.fixture(scope="module")
def packages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with packages, written by a process where coremltools sees PyTorch."""
    folder, names = tmp_path_factory.mktemp("packages"), asked(request, "name")
    command = [sys.executable, "-m", "tests.coreml.torch_packages", str(folder), *names]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("name", "suffix"),
    [*((name, "mlpackage") for name in NETWORKS), *((name, "mlmodel") for name in LAYERS)],
)
def test_it_computes_what_pytorch_does(packages: Path, name: str, suffix: str) -> None:
    """In a network a number has one axis, and none here."""
    network = NETWORKS[name]
    errors = json.loads((packages / "errors.json").read_text(encoding="utf-8"))
    assert name not in errors, errors[name]
    model = read(packages / f"{file_name(name)}.{suffix}")
    arrays = dict(np.load(packages / f"{file_name(name)}.npz"))
    feeds = {s.name: arrays[s.name].astype(s.dtype) for s in model.inputs if s.name in arrays}
    feeds |= {state: np.zeros(shape, np.float16) for state, shape in network.states.items()}
    expected = [array for key, array in arrays.items() if key.startswith("output")]
    found = run(model, feeds)
    assert len(found) == len(expected) + len(network.states)
    for at, (y, wanted) in enumerate(zip(found, expected, strict=False)):
        assert y.size == wanted.size, f"output {at}"
        _same(y.reshape(wanted.shape) if suffix == "mlmodel" else y, wanted, network, at)


def _same(found: Array, expected: Array, network: Network, at: int) -> None:
    assert found.shape == expected.shape, f"output {at}"
    wanted = expected.astype(np.float64)
    rounding = 1e-2 if network.half else 1e-4
    bound = rounding * max(1.0, float(np.abs(wanted).max(initial=0)))
    difference = np.abs(found.astype(np.float64) - wanted).max(initial=0)
    assert difference <= bound, f"output {at} is off by {difference}, at most {bound} is allowed"


@pytest.mark.parametrize("name", [name for name, network in NETWORKS.items() if network.free])
def test_a_free_size_takes_another(packages: Path, name: str) -> None:
    """The package is of any size: PyTorch computes another one here."""
    import torch

    network = NETWORKS[name]
    path = packages / f"{file_name(name)}.mlpackage"
    shape = [
        size + 3 if axis in network.free else size for axis, size in enumerate(network.inputs[0])
    ]
    x = np.random.default_rng(7).uniform(-1, 1, shape).astype(np.float32)
    torch.manual_seed(0)
    net = network.make().eval()
    with torch.no_grad():
        expected = net(torch.from_numpy(x))
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for at, (y, other) in enumerate(zip(run(read(path), {"input_0": x}), wanted, strict=True)):
        _same(y, other.numpy(), network, at)


_NAME = "basic_pitch/saved_models/icassp_2022/nmp"
_PACKAGE = "b5d04e6bd370f31370e69f31bfbfeb5abdbd06c2b56b1bc21dfab832c5e1ca8c"
_BESIDE = "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec"


def test_basic_pitch_beside_its_onnx_file() -> None:
    """What coremltools 7.0 and tf2onnx made of a TensorFlow model. Both as they are written: what
    ONNX Runtime's optimizer rearranges differs by 1e-4 in either."""
    model = read(fetch_package_folder("basic-pitch", "0.4.0", f"{_NAME}.mlpackage", _PACKAGE))
    beside = fetch_package_file("basic-pitch", "0.4.0", f"{_NAME}.onnx", _BESIDE)
    assert [spec.name for spec in model.inputs] == ["input_2"]
    assert [spec.shape for spec in model.outputs] == [(1, 172, 264), (1, 172, 88), (1, 172, 88)]
    ours, theirs = OrtSession(model.graph, plain=True), OrtSession(beside, plain=True)
    for window in notes():
        found = ours.run({"input_2": window})
        expected = theirs.run({theirs.inputs[0].name: window})
        for index, value in enumerate(found.values()):
            wanted = expected[f"StatefulPartitionedCall:{index}"]
            np.testing.assert_allclose(value, wanted, rtol=0, atol=2e-6)
