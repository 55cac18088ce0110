"""Checkpoints: which part is loaded, what does not fit, and what must not run."""

import argparse
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from parsers.pytorch.child import weights

from .client import Bomb, Client, Failure
from .conftest import Write, eager, make_feeds, network, spec

LAYERS = "self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)"
TEXT = network("return self.norm(self.layer(x))", LAYERS)
_namespace: dict[str, Any] = {"nn": nn, "__name__": __name__}
exec(TEXT, _namespace)
Net: type[nn.Module] = _namespace["Net"]


def state(fill: float = 0.5) -> dict[str, torch.Tensor]:
    """A state_dict that is recognised by its values."""
    return {k: torch.full_like(v, fill) for k, v in Net().state_dict().items()}


def prefixed(prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + key: value for key, value in state().items()}


Load = Callable[..., Any]


@pytest.fixture
def load(worker: Client, write: Write, tmp_path: Path) -> Load:
    """Save a checkpoint and load it into Net; where ``refused`` says of which kind the error is,
    it has to end with that."""

    def _load(content: Any, name: str = "net.pth", refused: str = "", says: str = "",
              **params: Any) -> Any:  # fmt: skip
        path = tmp_path / name
        if name.endswith(".safetensors"):
            save_file(content, path)
        elif not isinstance(content, bytes):
            torch.save(content, path)
        else:
            path.write_bytes(content)
        asked = {"source": f"{write(TEXT)}:Net", "weights": str(path), **params}
        if refused:
            return worker.refuses(refused, (says,), "load", **asked)
        return worker.call("load", **asked)

    return _load


def check_values(worker: Client, folder: Path, fill: float = 0.5) -> None:
    """Assert that the loaded model computes with the weights of `state(fill)`."""
    reference = Net().eval()
    reference.load_state_dict(state(fill))
    feeds = make_feeds([spec("x", 4, 3)])
    with torch.no_grad():
        want = reference(torch.from_numpy(feeds["x"])).numpy()
    assert (eager(worker, folder, feeds)["output"] == want).all()


@pytest.mark.parametrize(("content", "key", "prefix"), [
    *[(state(), "", "")] * 2,
    ({"state_dict": state(), "epoch": 3, "optimizer": {"lr": 0.1}}, "state_dict", ""),
    ({"model": {"params": state()}}, "model.params", ""),
    ({"model_state_dict": prefixed("module.")}, "model_state_dict", "module."),
    (prefixed("model._orig_mod."), "", "model._orig_mod."),
    ({"net": prefixed("_orig_mod."), "step": torch.tensor(5)}, "net", "_orig_mod."),
    ({"model": state(), "ema": state()}, "model", ""),
], ids=["plain", "safe", "wrapped", "nested", "module", "compiled", "step", "twice"])  # fmt: skip
def test_finding_the_weights(worker: Client, load: Load, tmp_path: Path, content: Any, key: str,
                             prefix: str, request: pytest.FixtureRequest) -> None:  # fmt: skip
    loaded = load(content, "net.safetensors" if "safe" in request.node.name else "net.pth")
    assert loaded["weights"] == "file"
    assert (loaded["weights_key"], loaded["weights_prefix"]) == (key, prefix)
    check_values(worker, tmp_path)


def test_several_sets_need_a_key(worker: Client, load: Load, tmp_path: Path) -> None:
    content = {"model": state(0.25), "ema": {"shadow": state(0.75)}}
    failure = load(content, refused="usage", says="")
    assert failure.details == ["model", "ema.shadow"] and "--weights-key" in str(failure)
    load(content, weights_key="ema.shadow")
    check_values(worker, tmp_path, 0.75)
    load(content, refused="usage", says="no key 'ema.light'", weights_key="ema.light")


def test_every_difference_is_listed(load: Load) -> None:
    """But for the counter of batches, which may be missing."""
    content = state()
    del content["norm.num_batches_tracked"]
    assert load(content)["weights"] == "file"
    del content["layer.weight"]
    content["layer.bias"] = torch.zeros(5)
    content["head.weight"] = torch.zeros(1)
    assert load({"state_dict": content}, refused="usage").details == [
        "missing: layer.weight [2, 3]", "unexpected: head.weight [1]",
        "shape: layer.bias is [5] in the file, [2] in the model",
    ]  # fmt: skip


def test_files_without_weights(worker: Client, load: Load, write: Write) -> None:
    for content in (b"not a checkpoint", {"epoch": 3}):
        load(content, refused="usage")
    asked = {"source": f"{write(TEXT)}:Net", "weights": "nowhere.pth"}
    worker.refuses("usage", ("no weights file",), "load", **asked)


@pytest.mark.parametrize("kind", ["zip", "legacy", "pickle"])
def test_malicious_pickle_runs_nothing(load: Load, tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "ran"
    content: Any = {"state_dict": state(), "note": Bomb(mark)}
    if kind == "pickle":
        content = pickle.dumps(Bomb(mark))
    elif kind == "legacy":
        file = tmp_path / "legacy.pth"
        torch.save(content, file, _use_new_zipfile_serialization=False)
        content = file.read_bytes()
    load(content, refused="untrusted", says="eval")
    assert not mark.exists()


def test_trusted_pickle_with_other_objects(worker: Client, load: Load, tmp_path: Path) -> None:
    content = {"state_dict": state(), "args": argparse.Namespace(lr=0.1)}
    assert load(content, refused="untrusted").details == ["argparse.Namespace"]
    assert load(content, trust=True)["weights_key"] == "state_dict"
    check_values(worker, tmp_path)


def test_meta_device_needs_weights(worker: Client, write: Write, tmp_path: Path) -> None:
    path = write(TEXT + "\ndef build():\n  with torch.device('meta'):\n    return Net()\n")
    with pytest.raises(Failure, match="meta device"):
        worker.call("load", source=f"{path}:build")
    torch.save(state(), tmp_path / "net.pth")
    worker.call("load", source=f"{path}:build", weights=str(tmp_path / "net.pth"))
    check_values(worker, tmp_path)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="/proc is of Linux")
@pytest.mark.parametrize("name", ["net.pth", "net.safetensors"])
def test_a_file_is_not_in_memory_beside_the_model(tmp_path: Path, name: str) -> None:
    path, source, model = tmp_path / name, nn.Linear(2000, 2000), nn.Linear(2000, 2000)
    tensors = source.state_dict()
    (save_file if name.endswith(".safetensors") else torch.save)(tensors, path)
    resident: list[int] = []

    def look(*_: Any) -> None:
        text = Path("/proc/self/smaps").read_text().split(f" {path}\n")[1:]
        resident.append(sum(int(part.split("Rss:")[1].split()[0]) for part in text))

    model.register_load_state_dict_post_hook(look)
    weights.load_into(model, path, None, False)
    for mine, theirs in zip(model.parameters(), tensors.values(), strict=True):
        assert torch.equal(mine, theirs)
    assert resident == [pytest.approx(0, abs=64)]  # KiB, of 15,625


def test_what_a_hook_writes_into_a_checkpoint_counts_for_every_name(tmp_path: Path) -> None:
    """One tensor of a file has three names, the second of which is copied last."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b, self.c, self.a = (nn.Parameter(torch.zeros(10_000)) for _ in range(3))

        def _load_from_state_dict(self, state: Any, *rest: Any) -> None:
            state["a"].mul_(2)
            super()._load_from_state_dict(state, *rest)
            for name in "ac":
                getattr(self, name).data.copy_(state[name])

    tensor = torch.arange(10_000.0)
    for names in ("abc", "a"):
        held = {name: tensor if name in names else tensor.clone() for name in "abc"}
        torch.save(held, tmp_path / "net.pth")
        model = Scaled()
        weights.load_into(model, tmp_path / "net.pth", None, False)
        for name, found in model.named_parameters():
            expected = tensor * 2 if name in names else tensor
            assert torch.equal(found, expected), (names, name)


@pytest.mark.parametrize(
    ("change", "says"),
    [("byte", "the checksum of its record net/data/0 is another"),
     ("size", "its record net/data/0 holds 8 bytes, not 24"),
     ("record", "it has no record net/data/0")],
)  # fmt: skip
def test_a_damaged_archive(load: Load, tmp_path: Path, change: str, says: str) -> None:
    torch.save(state(), tmp_path / "net.pth")
    rewrite(tmp_path / "net.pth", change)
    load((tmp_path / "net.pth").read_bytes(), refused="usage", says=says)


@pytest.mark.parametrize("change", ["deflated", "no checksums"])
def test_archives_that_torch_cannot_map_or_check(tmp_path: Path, change: str) -> None:
    path, net = tmp_path / "net.pth", Net()
    torch.save(state(0.25), path)
    rewrite(path, change)
    weights.load_into(net, path, None, False)
    assert all(torch.equal(value, state(0.25)[key]) for key, value in net.state_dict().items())


def rewrite(path: Path, change: str) -> None:
    """Writes an archive again, as a tool or a bad disk changes it."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    first = next(name for name in members if name.endswith("data/0"))
    how = zipfile.ZIP_DEFLATED if change == "deflated" else zipfile.ZIP_STORED
    if change == "size":
        members[first] = members[first][:8]
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            if (change, name) != ("record", first):
                archive.writestr(name, content)
        offset = archive.getinfo(first).header_offset if change == "byte" else 0
        for member in archive.infolist() if change == "no checksums" else ():
            member.CRC = 0
    if change == "byte":
        content = bytearray(path.read_bytes())
        content[offset + 30 + len(first)] ^= 1  # 30 bytes of header, the name, the record
        path.write_bytes(content)
