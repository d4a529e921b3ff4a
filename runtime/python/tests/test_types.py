"""Stubs are those of the compiled module, and mypy takes a program that uses them."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))


def run(*command, cwd):
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_are_up_to_date():
    import stubs

    assert (stubs.FOLDER / "_core.pyi").read_text() == stubs.core(), "run `python stubs.py`"
    assert (stubs.FOLDER / "_functions.pyi").read_text() == stubs.functions(), "run `python stubs.py`"


def test_stubs_are_what_the_module_is(tmp_path):
    run("mypy.stubtest", "warpweft._core", "warpweft._functions", "--allowlist", str(HERE / "stubtest_allowed.txt"), cwd=tmp_path)


def test_a_program_has_types():
    package = HERE.parent / "python" / "warpweft"
    run("mypy", "--strict", str(HERE / "typing_sample.py"), str(package), cwd=HERE.parent)
    wrong = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "-c", "import warpweft as ww\nx: int = ww.zeros(2).sum()\n"],
        cwd=HERE.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Incompatible types" in wrong.stdout
