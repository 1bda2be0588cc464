"""Tests of banyan/route."""
