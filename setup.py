"""The licence's SPDX name for the package's metadata.

Flower's app bundles (fab-format-version 1) need `license = {file = "LICENSE"}` in pyproject.toml, which setuptools warns of,
as it would have the name there. So the table stays for Flower, and the name is said here.
"""

import warnings
from typing import Any

from setuptools import Distribution, SetuptoolsDeprecationWarning, setup

LICENCE = "Apache-2.0"


class Named(Distribution):
    """With the licence's name in place of its text."""

    def parse_config_files(self, *files: Any, **options: Any) -> None:
        """What pyproject.toml says, then the name."""
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "(?s).*`project.license`", SetuptoolsDeprecationWarning
            )
            super().parse_config_files(*files, **options)
        self.metadata.license, self.metadata.license_expression = None, LICENCE


setup(distclass=Named)
