"""One family per file: architecture -> spec, and the names of its tensors in checkpoints."""
