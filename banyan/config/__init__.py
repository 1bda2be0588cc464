"""What is asked for, and what is settled."""
