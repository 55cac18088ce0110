"""What runs the pages finds what isn't as they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.running import Reader, Wrong, same, written_anew

SAME = [
    ("a\n...\nd", "a\nb\nc\nd"),
    ("a\n...\nd", "a\nd"),
    ("read 3 files, ... bytes", "read 3 files, 17 bytes"),
    ("took 12.5 s", "took 3 s"),
    ("artifact  size  p50 ms\n\nx  4.1 MB  0.021", "artifact size p50 ms\n\nx 4.15 MB 0.021"),
    ("size p50 ms\nx 4.1 MB 0.021", "size p50 ms\nx 4.15 MB 7.3"),
    ("size p50 ms\nx 4.1 MB 108", "size p50 ms\nx 4.1 MB 89.0"),
    ("x 4.1 MB 89.0 too few runs", "x 4.1 MB 89.0 about 1.6× faster"),
    ("x 4.1 MB 89.0 1.6× faster\ny", "x 4.1 MB 89.0 about 2×\n slower\ny"),
    ("top1 85.00%", "top1 85.5%"),
    ("score 0.931", "score 0.934"),
    ("cosine 1 − 1.2e-14", "cosine 1 − 7.9e-14"),
]
OTHER = [
    ("a\nd", "a\nb\nd"),
    ("a\n...\nd", "a\nb"),
    ("read 3 files", "read 4 files"),
    ("size p50 ms\nx 4.1 MB 0.021", "size p50 ms\nx 5.1 MB 0.021"),
    ("size p50 ms\n\nscore 0.5", "size p50 ms\n\nscore 0.9"),
    ("top1 85.00%", "top1 90.00%"),
    ("score 0.931", "score 0.5"),
    ("gates ok", "gates FAILED"),
    ("x", ""),
]

PAGE = """# A page

```python title="six.py"
print(2 * 3, "port 8000")
```

```console
$ python six.py
6 port 8000
$ bash -c 'echo no; exit 3'
no
$ echo $?
3
```

<!-- run
echo hidden > file
-->

```python
assert open("file").read() == "hidden\\n"
```

```console
$ python -c 'import time; print("up", flush=True); time.sleep(60)' &
up
$ kill %1
```
"""


@pytest.mark.parametrize(("expected", "said"), SAME)
def test_equal(expected: str, said: str) -> None:
    assert same(expected.splitlines(), said)


@pytest.mark.parametrize(("expected", "said"), OTHER)
def test_not_equal(expected: str, said: str) -> None:
    assert not same(expected.splitlines(), said)


def wrong(page: str, folder: Path) -> list[Wrong]:
    with Reader(folder) as reader:
        return list(reader.follow(page))


def test_a_right_page(tmp_path: Path) -> None:
    assert wrong(PAGE, tmp_path) == []


@pytest.mark.parametrize(
    ("right", "other"),
    [
        ("6 port 8000\n", "7 port 8000\n"),
        ("\n3\n", "\n4\n"),
        ("$ echo $?\n3\n", ""),
        ('"hidden', '"shown'),
        ("\nup\n", "\ndown\n"),
        ("print(2 * 3", "print(2 * 4"),
    ],
)
def test_a_wrong_page(right: str, other: str, tmp_path: Path) -> None:
    changed = PAGE.replace("sleep(60)", "sleep(0)").replace(right, other)
    assert changed != PAGE
    found = wrong(changed, tmp_path)
    assert len(found) == 1
    if other == "7 port 8000\n":
        assert written_anew(changed, found) == PAGE.replace("sleep(60)", "sleep(0)")
