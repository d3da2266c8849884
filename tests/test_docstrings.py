"""What help() says: every public callable names its parameters, and a problem describes each of its own."""

from __future__ import annotations

import pytest

from agf import registry, request


@pytest.mark.parametrize("name", registry.names())
def test_every_parameter_of_a_problem_has_a_sentence_of_its_own(name):
    words = [parameter.words for parameter in request.parameters(registry.find(name))]
    assert all(words)
    assert len(set(words)) == len(words)
    assert not [sentence for sentence in words if sentence.startswith("as for")]
