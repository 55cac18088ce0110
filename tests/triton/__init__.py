"""Tests that drive a real Triton server, and the harness that starts it."""
