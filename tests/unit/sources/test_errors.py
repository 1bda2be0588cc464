from banyan.config.errors import UserError
from banyan.sources.errors import BadFileError, SourceError


def test_both_are_mistakes_that_a_person_is_told_of_in_a_sentence() -> None:
    assert isinstance(SourceError("gone"), UserError)
    assert isinstance(BadFileError("torn"), UserError)
