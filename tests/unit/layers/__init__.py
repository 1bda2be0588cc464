"""Tests of banyan.layers."""
