"""Functions on tensors, per device."""
