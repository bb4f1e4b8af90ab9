"""What the package says of itself, as its build has it."""

import os
import subprocess
import sys
import tomllib

from tests.harness import ROOT

ASK = """
import warnings, setuptools
warnings.simplefilter("error", setuptools.SetuptoolsDeprecationWarning)
from distutils.core import run_setup
told = run_setup("setup.py", stop_after="config").metadata
print(told.license_expression, told.license, told.author, sep="|")
print(*told.license_files or (), sep="|")
print(*told.classifiers, sep="|")
"""


def test_the_licence_has_its_name_and_nothing_is_deprecated() -> None:
    """Though pyproject.toml has it as Flower wants it; a classifier beside the name would be refused by registries."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    told = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    name, files, classifiers = told.stdout.splitlines()[-3:]
    assert name == "Apache-2.0|None|fedsuite contributors" and "LICENSE" in files.split("|")
    assert not [c for c in classifiers.split("|") if c.startswith("License")]
    assert "license: Apache-2.0" in (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == {"file": "LICENSE"}
