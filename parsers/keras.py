"""keras."""


class KerasParser:
    """The plug-in."""

    name = "keras"
    extra = "tensorflow"

    def sniff(self, source: str) -> bool:
        """Not yet."""
        return False
