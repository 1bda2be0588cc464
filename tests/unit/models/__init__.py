"""Tests of banyan.models."""
