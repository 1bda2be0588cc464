"""Data parallel: which replica gets a request."""
