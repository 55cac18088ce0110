"""A package that others wrote: basic-pitch's own, against the ONNX file beside it."""

import numpy as np
import pytest

from converter.ort import OrtSession
from parsers.coreml_import.importer import read
from zoo.packages import fetch_package_file, fetch_package_folder
from zoo.samples import notes

_FOLDER = ("basic-pitch", "0.4.0", "basic_pitch/saved_models/icassp_2022/nmp")
_PACKAGE = "b5d04e6bd370f31370e69f31bfbfeb5abdbd06c2b56b1bc21dfab832c5e1ca8c"
_BESIDE = "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec"


@pytest.mark.slow
def test_basic_pitch_beside_its_onnx_file() -> None:
    """What coremltools 7.0 and tf2onnx made of a TensorFlow model. Both as they are written: what
    ONNX Runtime's optimizer rearranges differs by 1e-4 in either."""
    package, version, name = _FOLDER
    model = read(fetch_package_folder(package, version, f"{name}.mlpackage", _PACKAGE))
    beside = fetch_package_file(package, version, f"{name}.onnx", _BESIDE)
    assert [spec.name for spec in model.inputs] == ["input_2"]
    assert [spec.shape for spec in model.outputs] == [(1, 172, 264), (1, 172, 88), (1, 172, 88)]
    ours, theirs = OrtSession(model.graph, plain=True), OrtSession(beside, plain=True)
    for window in notes():
        found = ours.run({"input_2": window})
        expected = theirs.run({theirs.inputs[0].name: window})
        for index, value in enumerate(found.values()):
            wanted = expected[f"StatefulPartitionedCall:{index}"]
            np.testing.assert_allclose(value, wanted, rtol=0, atol=2e-6)
