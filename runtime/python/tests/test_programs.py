"""Programs as people write them agree with eager PyTorch through both doors, and no op of them is left to PyTorch but those that draw."""

import pytest

pytest.importorskip("torch")

import programs  # noqa: E402


@pytest.fixture(scope="module")
def eager():
    """What eager PyTorch gives, once for all doors."""
    return {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", ["compile", "device"])
@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_program_is_eagers(name, door, eager):
    if name not in eager:
        eager[name] = programs.outcome(programs.PROGRAMS[name], "eager")[0]
    found, left = programs.outcome(programs.PROGRAMS[name], door)
    programs.differences(eager[name], found, name in programs.IN_HALVES)
    assert not left
