"""Programs as people write them, each run on the CPU by eager PyTorch, through `torch.compile`, on the device, and compiled for tensors of the device.

    PYTHONPATH=tests python -m programs [--door NAME] [NAME ...]

Tests: `test_programs.py` runs each through two doors.
"""

from programs import attention, corners, derivatives, functions, networks, systems, updates
from programs.common import DOORS, PROGRAMS, differences, outcome

IN_HALVES = {name for name in PROGRAMS if "float16" in name}

__all__ = ["DOORS", "IN_HALVES", "PROGRAMS", "attention", "corners", "derivatives", "differences", "functions", "networks", "outcome", "systems", "updates"]
