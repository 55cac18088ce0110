"""Repositories and the cache in object stores, on an S3 server."""
