"""The report and the manifest."""
