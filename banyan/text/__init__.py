"""Strings and token ids; the front's journal."""
