"""Tests of banyan.memory."""
