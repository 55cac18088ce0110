"""Packages that run: their servers, started here, and what is asked of any server over the wire."""
