"""What results say of a run's privacy, by its unit."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from fedsuite.averaging.privacy_settings import PrivacySettings
from fedsuite.privacy.guarantee import guarantee_text


@pytest.mark.parametrize("summed", [False, True])
def test_of_examples_the_most_that_a_client_spent_is_told(tmp_path: Path, summed: bool) -> None:
    """Whether the server gets sums or not: each client noises its own steps."""
    federation = SimpleNamespace(secure_sum=summed)
    config = SimpleNamespace(privacy=PrivacySettings(unit="example"), federation=federation)
    rounds = pd.DataFrame({"train.epsilon": [0.5, None, 1.25, 0.75]})
    text = guarantee_text(config, tmp_path, rounds)
    assert "unit example: epsilon 1.25 at delta 1e-05 after 3 rounds, of the client that" in text
    assert "Covered are" not in text and "Covered is all that training sends" in text
    assert "epsilon 0 at" in guarantee_text(config, tmp_path, rounds.head(0))
