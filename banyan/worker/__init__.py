"""Run what was decided."""
