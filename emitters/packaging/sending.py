"""What a README says of users' files: how they are sent, what is too large, what is refused."""

from __future__ import annotations

from converter.preparation.declared import Declaration, limits_of
from converter.preparation.inputs import file_kind

_EXAMPLES = {
    "picture": ("image/jpeg", "cat.jpg", "other.jpg"),
    "sound": ("audio/wav", "speech.wav", "other.wav"),
    "text": ("text/plain", "note.txt", "other.txt"),
    "row": ("text/csv", "table.csv", "other.csv"),
}
"""A content type of a kind's, and two files."""

_TEXTS = '{"text": "A sentence.", "pair": "Another one."}'
"""Two texts in JSON."""

_OF_TEXTS = (
    "Texts can also be JSON. `pair` is the second of two texts, and may be left out. Several texts "
    "are a list of such objects."
)

_TYPED = (
    "Give the content type of a body. Without it, curl sends the type of a form "
    "(`application/x-www-form-urlencoded`), which the server's own frontend parses: a body that "
    "isn't a form gets error 500, and a form gets 415. A body without a type is accepted."
)

_BOUNDS = {
    "picture": "{pixels:,} pixels a picture",
    "sound": "{seconds:,.0f} seconds a sound",
    "text": "{letters:,} letters a text",
    "row": "{rows:,} lines a table",
}

_REFUSED = {
    "picture": "it can't be read, is empty, CMYK, of more than 8 bits a channel, animated, or "
    "transparent where the model sees no transparency",
    "sound": "it can't be read, is empty, or a WAV or FLAC file cut short",
    "text": "it is empty, or not in UTF-8",
    "row": "it is empty, lacks a column, or has a cell that isn't a number where one is needed",
}


def told_of_files(declared: Declaration, url: str, *, typed: bool = False, form: str = "") -> str:
    """Markdown on how a server that prepares files is asked.

    Args:
        declared: What is prepared.
        url: Where files are sent to.
        typed: Whether a file has to come with its content type.
        form: How several files are sent; curl's way unless given.
    """
    kinds = list(dict.fromkeys(k for k in map(file_kind, declared.prepare) if k in _EXAMPLES))
    lines = []
    for kind in kinds:
        said, file, other = _EXAMPLES[kind]
        header = f"-H 'Content-Type: {said}' " if typed or len(kinds) > 1 else ""
        lines.append(f"curl {header}--data-binary @{file} {url}")
        lines.append(form or f"curl -F one=@{file} -F two=@{other} {url}")
    if "text" in kinds:
        lines.append(f"curl -H 'Content-Type: application/json' -d '{_TEXTS}' {url}")
    limits = limits_of(declared)
    bounds = [_BOUNDS[kind].format(**limits.model_dump()) for kind in kinds]
    most = ", ".join([f"{limits.bytes >> 20} MB a request", f"{limits.files} files", *bounds])
    wrong = "; ".join(_REFUSED[kind] for kind in kinds)
    commands = "\n".join(lines)
    texts = f" {_OF_TEXTS}" if "text" in kinds else ""
    texts += f" {_TYPED}" if typed else ""
    return (
        f"```\n{commands}\n```\nThe answer is JSON. For several files, it is a list, `answers`."
        f"{texts} Limits: {most} (`limits` in `stages.json`). "
        f'The answer to a refused file is `{{"error": ...}}`. The status is 400 if '
        f"{wrong}; 413 if it is larger than the limits; 415 if its content type is of "
        "another kind. One wrong file among several refuses all of them."
    )
