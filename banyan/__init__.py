"""banyan: a serving engine for large language models."""
