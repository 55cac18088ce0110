"""Files that are composed of modules of ours."""

import ast
import contextlib
import gc
import sys
import threading
import time

from emitters import composing


def test_a_tree_is_made_beside_threads_that_make_theirs():
    """Python 3.11.7 ends most of these by a SystemError where garbage is collected meanwhile."""

    def other() -> None:
        while not done.is_set():
            with contextlib.suppress(SystemError):
                ast.literal_eval("{'descr': '<f4', 'shape': (1, 2)}")

    def collected(phase: str, info: dict[str, int]) -> None:
        time.sleep(1e-5)

    text = "\n".join(f"def f{n}(a, b=({n}, [{n}])):\n    return a[b][{n}]" for n in range(200))
    done, threshold = threading.Event(), gc.get_threshold()
    thread, interval = threading.Thread(target=other), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(collected)
    gc.set_threshold(50)
    thread.start()
    try:
        trees = [composing._parse(text) for _ in range(10)]
    finally:
        done.set()
        thread.join()
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
        sys.setswitchinterval(interval)
    assert all(ast.dump(tree) == ast.dump(trees[0]) for tree in trees)
    assert gc.isenabled()
