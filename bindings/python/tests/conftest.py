import pytest

import windrow


@pytest.fixture(scope="session")
def gpt2() -> windrow.Tokenizer:
    return windrow.Tokenizer.from_tiktoken("gpt2")
