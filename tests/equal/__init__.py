"""Every way to schedule gives the tokens of the oracle."""
