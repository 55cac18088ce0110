"""The readings, a file for each family of operations."""
