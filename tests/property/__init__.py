"""Properties, checked by Hypothesis."""
