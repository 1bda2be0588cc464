"""Weights: from files to parameters, each tensor used once and each parameter filled once."""
