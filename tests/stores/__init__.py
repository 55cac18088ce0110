"""Repositories and the cache in object stores, on a real S3 server."""
