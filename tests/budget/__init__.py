"""What the whole code base must keep."""
