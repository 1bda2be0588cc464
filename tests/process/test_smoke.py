"""The shortest proof that the whole tree works."""

import pytest

from tests.process.harness import engine, findings, greedy, serve


@pytest.mark.timeout(30)
def test_a_request_goes_all_the_way_and_back() -> None:
    with engine() as running:
        ask = greedy("hello", 40)
        assert findings(serve(running, [ask])) == []
        answer = running.generate(input_ids=ask.input_ids, sampling_params=ask.sampling)
        assert isinstance(answer, dict)
        assert (answer["output_ids"], answer["text"]) == (ask.tokens[0], ask.texts[0])
