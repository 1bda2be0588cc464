"""Tests of banyan.models.families."""
