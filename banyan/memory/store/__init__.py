"""Where the bytes of the KV cache are. Knows tensors, and nothing of who owns a page."""
