"""A podman that works in a test, and an image of this Python that servers' images are built on."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pip
import pytest

BASE = "localhost/python:3.11"

LIMITS = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
volumes = [{volumes}]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""

STORAGE = '[storage]\ndriver = "{1}"\ngraphroot = "{0}/graph"\nrunroot = "{0}/run"\n'

TOOL = """#!/bin/sh
[ "$1" = in ] || exec unshare --mount "$0" in "$@"
umount -R /sys/fs/cgroup/unified 2>/dev/null
shift
exec {podman} "$@"
"""
"""crun takes cgroups of one version or of the other, and some machines have both."""

_PROGRAMS = ("bash", "cat", "env", "ls", "sed", "sh", "sleep")
_LIBRARIES = ("libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1",
              "libstdc++.so.6", "libutil.so.1", "libz.so.1")  # fmt: skip
"""What wheels take for granted (manylinux)."""

_LEFT_OUT = re.compile(r"/(test|tests|idlelib|turtledemo|config-[^/]*|site-packages|__pycache__)$")


def podman_in(folder: Path, monkeypatch: pytest.MonkeyPatch, volumes: Iterable[Path] = ()) -> None:
    """Puts a podman on PATH whose images lie in ``folder``; skips where there is none.

    Args:
        folder: An empty folder.
        monkeypatch: Takes it away again.
        volumes: What every container sees of this machine, where it is here.
    """
    real = shutil.which("podman")
    if real is None or os.geteuid() or not shutil.which("unshare"):
        pytest.skip("podman isn't installed, or not root's")
    seen = ", ".join(f'"{item}:{item}:ro"' for item in volumes)
    (folder / "containers.conf").write_text(LIMITS.format(volumes=seen))
    monkeypatch.setenv("CONTAINERS_CONF", str(folder / "containers.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(folder / "storage.conf"))
    tool = script(folder / "bin" / "podman", TOOL.format(podman=real))
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    for driver in ("overlay", "vfs"):  # the first isn't everywhere; the second copies every layer
        (folder / "storage.conf").write_text(STORAGE.format(folder, driver))
        if subprocess.run(["podman", "info"], capture_output=True, check=False).returncode == 0:
            break


def script(path: Path, text: str) -> Path:
    """A program of a text."""
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def podman(*arguments: str | Path, cwd: Path | None = None, text: str = "") -> str:
    """What podman prints, where ``text`` is typed."""
    line = ["podman", *map(str, arguments)]
    done = subprocess.run(
        line, cwd=cwd, input=text, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(done: Callable[[], object], seconds: float = 60) -> None:
    """Waits until ``done`` raises no assertion any more."""
    end = time.monotonic() + seconds
    while True:
        try:
            done()
        except AssertionError:
            assert time.monotonic() < end
            time.sleep(0.5)
        else:
            return


def python_base(folder: Path) -> None:
    """Imports :data:`BASE`: this Python with pip, a shell, and the libraries that these need."""
    standard = Path(sysconfig.get_path("stdlib"))
    python = Path(os.path.realpath(sys.executable))
    programs = [
        Path(found) for name in _PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin"))
    ]
    modules = [m for m in standard.glob("lib-dynload/*.so") if "tkinter" not in m.name]
    version = f"python3.{sys.version_info[1]}"

    def kept(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
        item.uid = item.gid = 0
        item.mode |= 0o444 | (0o111 if item.isdir() else 0)
        return None if _LEFT_OUT.search(f"/{item.name}") else item

    with tarfile.open(folder / "root.tar", "w", dereference=True) as archive:
        for file in {*_libraries([python, *programs, *modules])}:
            archive.add(file, str(file).lstrip("/"))
        for file in programs:
            archive.add(file, f"bin/{file.name}")
        archive.add(standard, f"usr/local/lib/{version}", filter=kept)
        own = Path(pip.__file__).parent
        archive.add(own, f"usr/local/lib/{version}/site-packages/pip", filter=kept)
        for name in ("python", "python3", version):
            archive.add(python, f"usr/local/bin/{name}")
        (folder / "pip").write_text(f"#!/usr/local/bin/{version}\nimport runpy\n"
                                    "runpy.run_module('pip', run_name='__main__')\n")  # fmt: skip
        (folder / "pip").chmod(0o755)
        archive.add(folder / "pip", "usr/local/bin/pip")
        for name, mode in (("tmp", 0o1777), ("etc", 0o755), ("root", 0o755)):
            item = tarfile.TarInfo(name)
            item.type, item.mode = tarfile.DIRTYPE, mode
            archive.addfile(item)
    podman("import", "--change", "ENV PATH=/usr/local/bin:/bin", "root.tar", BASE, cwd=folder)
    (folder / "root.tar").unlink()


def _libraries(programs: list[Path]) -> Iterable[Path]:
    """What the dynamic linker loads for them, itself among it."""
    done = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False)
    found = set(re.findall(r"(/\S+) \(0x", done.stdout))
    yield from map(Path, found)
    cached = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    for name in _LIBRARIES:
        line = next(line for line in cached.stdout.splitlines() if line.split()[:1] == [name])
        yield Path(line.rpartition("=> ")[2])
