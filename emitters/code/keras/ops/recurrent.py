"""Nothing yet."""
