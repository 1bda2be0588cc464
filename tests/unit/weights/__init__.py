"""Tests of banyan.weights."""
