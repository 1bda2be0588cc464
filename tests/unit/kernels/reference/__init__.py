"""Tests of banyan.kernels.reference."""
