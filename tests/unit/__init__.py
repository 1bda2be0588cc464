"""Unit tests: they mirror the layout of the package."""
