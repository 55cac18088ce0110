"""huggingface."""


class HuggingFaceParser:
    """The plug-in."""

    name = "huggingface"
    extra = "huggingface"

    def sniff(self, source: str) -> bool:
        """Not yet."""
        return False
