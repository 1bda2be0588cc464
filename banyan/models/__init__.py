"""Models, declared as data."""
