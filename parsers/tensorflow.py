"""tensorflow."""


class TensorFlowParser:
    """The plug-in."""

    name = "tensorflow"
    extra = "tensorflow"

    def sniff(self, source: str) -> bool:
        """Not yet."""
        return False
