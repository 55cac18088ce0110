"""What ``bench.beside`` measures int8 by, and its section of docs/precision.md."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.beside import OPENVINO, PEERS, WAYS, between, child, quantize_static, run, share
from bench.beside_page import Seen, page
from bench.measure import write_section
from bench.peers.runtime import read_samples
from bench.precision_page import BESIDE, MARGINS, write_page
from converter import api
from converter.runtime.ort import OrtSession
from tests.acceptance.cli import small_cnn

ORT, STATIC, LITERT, DEFAULT, _ = WAYS
_TIMES = {(way, n): {way.plain: 6.0 / n, way.file: 2.0} for way in WAYS for n in (1, 2)}
SEEN = Seen(
    {way.key(file, n): ms for (way, n), times in _TIMES.items() for file, ms in times.items()},
    {way.file: 1.0 for way in WAYS},
    {ORT.file: (0.99, 0.999)},
)


def _samples(path: Path, **shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(0)
    made: Any = {f"{n:04}/{name}": rng.standard_normal(dims).astype(np.float32)
            for n in range(3) for name, dims in shape.items()}  # fmt: skip
    np.savez(path, **made)
    return made


def test_the_worst_cosine_and_that_of_all() -> None:
    one = {"0": np.array([[3.0, 4.0]]), "1": np.array([[100.0, 0.0]])}
    two = {"0": np.array([[4.0, 3.0]]), "1": np.array([[100.0, 0.0]])}
    worst, together = between(one, two)
    assert worst == pytest.approx(24 / 25)
    assert together == pytest.approx((24 + 1e4) / (25 + 1e4))


def test_each_runtime_gives_what_its_file_computes(tmp_path: Path) -> None:
    """Files in ONNX Runtime and in LiteRT, each in a process of its own, as the bench has it."""
    source = small_cnn(tmp_path / "model.onnx")
    samples = _samples(tmp_path / "judged.npz", image=(1, 3, 16, 16))
    assert [feeds["image"].shape for feeds in read_samples(str(tmp_path / "judged.npz"))] == [
        (1, 3, 16, 16)
    ] * 3
    api.convert(
        str(source), to=["onnx", "tflite"], precision=["fp32", "int8"], samples="random:8",
        few_samples=True, check=False, bench=False, weight_methods=["none"],
        out=str(tmp_path / "out"),
    )  # fmt: skip
    quantize_static(tmp_path / ORT.plain, tmp_path / "judged.npz", tmp_path / STATIC.file)
    run(ORT, ORT.plain, tmp_path, 1, "float.npz")
    plain = np.load(tmp_path / "float.npz")
    right = OrtSession(tmp_path / ORT.plain).run({"image": samples["0001/image"]})["scores"]
    np.testing.assert_allclose(plain["0001"], right, rtol=1e-5)
    for way, file, least in (
        (LITERT, LITERT.plain, 0.99999), (ORT, ORT.file, 0.99), (LITERT, LITERT.file, 0.99),
        (STATIC, STATIC.file, 0.99),
    ):  # fmt: skip
        run(way, file, tmp_path, 1, "seen.npz")
        worst, together = between(plain, np.load(tmp_path / "seen.npz"))
        assert least < worst <= together
        assert (worst < 1 - 1e-7) == (file == way.file), "integers round"
    assert [share(tmp_path, way) for way in (ORT, STATIC, LITERT)] == [1.0] * 3
    assert float(run(LITERT, LITERT.file, tmp_path, 1)) > 0


@pytest.mark.skipif(not OPENVINO.exists(), reason="build/openvino isn't there: bench/beside.py")
def test_openvino_and_nncf_in_an_environment_of_their_own(tmp_path: Path) -> None:
    small_cnn(tmp_path / "model.onnx")
    _samples(tmp_path / "judged.npz", image=(1, 3, 16, 16))
    argv = [PEERS / "nncf_int8.py", "model.onnx", "judged.npz", DEFAULT.file, "performance"]
    said = child(OPENVINO, *argv, cwd=tmp_path)
    assert float(said.split()[-1]) == 1.0
    run(ORT, "model.onnx", tmp_path, 1, "float.npz")
    run(DEFAULT, DEFAULT.file, tmp_path, 1, "seen.npz")
    worst, _ = between(np.load(tmp_path / "float.npz"), np.load(tmp_path / "seen.npz"))
    assert 0.98 < worst < 1 - 1e-7


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"gone\.onnx"):
        run(ORT, "gone.onnx", tmp_path, 1)


def test_its_section_outlives_the_pages_other_rows(tmp_path: Path) -> None:
    spent = {("Net", ORT): {"sums": 60.0, "depthwise": 1500.0, "stem": 400.0, "all else": 50.0}}
    text = page({"Net": SEEN}, WAYS, spent, [1, 2], 5, ["openvino 1", "nncf 2"])
    assert "| Net | ONNX Runtime | ours | 0.9900 | 0.9990 | 100.0% | x3.00 (6.0 / 2.0 ms) |" in text
    assert text.count("x1.50 (3.0 / 2.0 ms)") == len(WAYS)
    assert "| Net | ONNX Runtime | 0.40 | 1.50 | 0.00 | 0.00 | 0.06 | 0.05 |" in text
    file = tmp_path / "precision.md"
    write_page(file, [], {"cpu": "some cpu"})
    assert BESIDE not in file.read_text()
    for _ in range(2):
        write_section(file, BESIDE, text)
        write_page(file, [], {"cpu": "another cpu"})
        whole = file.read_text()
        assert whole.endswith(f"\n\n{BESIDE}\n\n{text.strip()}\n")
        assert whole.count(BESIDE) == 1 and "cpu another cpu" in whole
    write_section(file, MARGINS, "A gate.")
    write_page(file, [], {"cpu": "a third cpu"})
    assert file.read_text().endswith(f"{text.strip()}\n\n{MARGINS}\n\nA gate.\n")
