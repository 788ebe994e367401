"""The model test speaks to servers with the means of the black-box tests."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "blackbox"))
