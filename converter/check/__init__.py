"""Whether an artifact does what its source does, and how fast."""
