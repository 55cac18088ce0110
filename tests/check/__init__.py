"""Accuracy, task metrics, gates, latency."""
