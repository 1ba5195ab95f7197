"""Are the oldest versions that are tested those that pyproject.toml names?"""

import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
floors = runpy.run_path(str(ROOT / ".ci" / "floors"))["floors"]
PROJECT = """
[project]
name = "thing"
dependencies = ["numpy>=1.26.1", "scipy >= 1.12"]
[project.optional-dependencies]
dask = ["dask[array,dataframe]>=2024.8"]
all = ["thing[dask]"]
test = ["thing[all]", "scipy>=1.12", {more}]
"""


def test_every_requirement_of_every_extra_has_its_floor_once():
    found = floors(PROJECT.format(more='"pytest-xdist>=3.6.1"'))
    assert found == {"numpy": "1.26.1", "scipy": "1.12", "dask": "2024.8", "pytest-xdist": "3.6.1"}


@pytest.mark.parametrize("bounds", ["", ">13", "==13", ">=13,<15", "<15,>=13", ">=13; sys_platform == 'linux'"])
def test_what_names_no_oldest_version_is_refused(bounds):
    with pytest.raises(ValueError, match=r"rich.* names no oldest version; write it as name>=version"):
        floors(PROJECT.format(more=f'"rich{bounds}"'))


def test_two_floors_of_a_package_are_refused():
    with pytest.raises(ValueError, match=r"scipy has two oldest versions: 1\.12 and 1\.14"):
        floors(PROJECT.format(more='"scipy>=1.14"'))


def test_no_requirement_of_this_project_is_left_out():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {one.replace("[array,dataframe,distributed]", "") for some in lists for one in some if "outmetric[" not in one}
    assert {f"{name}>={version}" for name, version in floors((ROOT / "pyproject.toml").read_text()).items()} == wanted
