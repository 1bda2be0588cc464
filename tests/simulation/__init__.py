"""A whole server in one thread under a virtual clock: messages get lost, processes die, and every answer is right."""
