"""Links in the folder of a model: what they lead to may be any file of the user's."""

from __future__ import annotations

import os
from pathlib import Path

from converter.errors import ModelError


def refuse_links_out(folder: Path, *, copied: bool = False) -> None:
    """Refuses links that lead out of a folder, but as a hub's cache has them: from a snapshot to
    the blobs of its repository.

    Args:
        folder: It may itself be a link.
        copied: Whether all that is in it is copied, links followed: none may lead to a folder
            then, which could lie in itself.

    Raises:
        ModelError: with every such link.
    """
    home = folder.resolve()
    places = [home, *([home.parents[1] / "blobs"] if home.parent.name == "snapshots" else [])]
    wrong = []
    for at, folders, files in os.walk(home):
        for path in (Path(at, name) for name in (*folders, *files)):
            target = Path(os.path.realpath(path))
            inside = any(target.is_relative_to(place) for place in places)
            if path.is_symlink() and (not inside or (copied and target.is_dir())):
                wrong.append(f"{path.relative_to(home)} leads to {os.readlink(path)}")  # noqa: PTH115
    if wrong:
        raise ModelError(
            f"{folder.name or home.name} holds links to files outside of it"
            + ", or to a folder" * copied,
            code="path-outside",
            details=sorted(wrong),
            hint="If you trust whoever made the folder, replace the links by the files that "
            "they point to.",
        )
