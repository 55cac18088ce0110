"""Ready recipes: requests written down as YAML, found by name with ``modelyard run NAME``."""
