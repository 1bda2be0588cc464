"""Tests of banyan.kernels."""
