"""Composition roots: the only place that knows everybody."""
