"""``--serve web``: packages that a browser runs, opened in Chromium; what is refused."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

import modelyard
from converter import api
from converter.commands.serve import Served
from emitters.serving.web.runtimes import RUNTIMES
from tests.acceptance.cli import command, converted_cnn, refused, small_cnn, typed, written
from tests.acceptance.test_flows import COLORS
from tests.acceptance.test_prepare import detector
from tests.acceptance.test_sounds import spoken
from tests.browser import Browser, Page, browser, needs_browser
from zoo import catalogue

WIDTHS = (400, 1400)
LAST = "document.addEventListener('answer', (event) => { window.last = event.detail; });"


@contextmanager
def shown(folder: Path, profile: Path, query: str = "") -> Iterator[tuple[Served, Browser, Page]]:
    """A package's page in a browser, ready."""
    with api.serve(str(folder), port=0) as served, browser(profile) as chromium:
        page = chromium.page(served.addresses["page"] + query)
        page.wait("document.body?.dataset.state === 'ready'")
        page.evaluate(LAST)
        yield served, chromium, page


def asked(page: Page, file: Path) -> Any:
    """What the page answers to a file."""
    page.evaluate("window.last = null")
    page.choose("#file", file)
    page.wait("window.last !== null && document.body.dataset.state === 'ready'")
    return page.evaluate("window.last")


def require_quiet(chromium: Browser, served: Served) -> None:
    """No errors, and no request to another host."""
    assert chromium.troubles == []
    others = [url for url in chromium.asked if not re.match("blob:|data:", url)]
    assert others and all(url.startswith(served.addresses["page"]) for url in others), others


def require_fits(page: Page, width: int, dark: bool = False) -> None:
    """Nothing is wider than the page."""
    page.resize(width, 900, dark)
    wide = "[...document.body.querySelectorAll('*')].filter((one) => !one.closest('.scroll, pre')"
    wide += " && one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML)"
    assert page.evaluate(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@needs_browser
@pytest.mark.slow
@pytest.mark.smoke
def test_a_classifier_in_a_browser(tmp_path: Path) -> None:
    """Labels and scores as the source gives them, the self-test, and all of it without a server."""
    typed("convert zoo:efficientnet-lite0 --serve web --no-bench --out out", tmp_path)
    photos = sorted(catalogue.entries()["efficientnet-lite0"].files["photos"].fetch().iterdir())
    with (
        shown(tmp_path / "out", tmp_path / "profile", "?selftest") as (served, chromium, page),
        modelyard.load(tmp_path / "out") as net,
    ):
        page.wait("document.body.dataset.selftest")
        assert page.evaluate("document.body.dataset.selftest") == "passed"
        for photo in photos[:5]:
            found, wanted = asked(page, photo)["classes"], net(photo).classes
            assert [one["label"] for one in found] == [one["label"] for one in wanted]
            for one, other in zip(found, wanted, strict=True):
                assert abs(one["score"] - other["score"]) < 1e-3
        for width in WIDTHS:
            require_fits(page, width)
        require_quiet(chromium, served)
        assert page.evaluate("self.crossOriginIsolated") is True
        served.running.stop()
        page.call("Page.reload")
        page.wait("document.body?.dataset.state === 'ready' && !window.last")
        page.evaluate(LAST)
        assert asked(page, photos[0])["classes"][0]["label"] == net(photos[0]).classes[0]["label"]
