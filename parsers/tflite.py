"""tflite."""


class TfliteParser:
    """The plug-in."""

    name = "tflite"
    extra = "tflite"

    def sniff(self, source: str) -> bool:
        """Not yet."""
        return False
