"""resizing."""
