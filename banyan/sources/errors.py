"""SourceError and BadFileError: a model that cannot be had, and a file that is not what it claims to be."""

from banyan.config.errors import UserError


class SourceError(UserError):
    """A model that cannot be found or fetched."""


class BadFileError(UserError):
    """A model file that is damaged or dishonest. Nothing of it is used."""
