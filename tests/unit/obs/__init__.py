"""Tests of banyan.obs."""
