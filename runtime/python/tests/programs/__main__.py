"""Runs programs through doors, and says what differs or was left to PyTorch."""

from __future__ import annotations

import argparse
import sys
import traceback

from programs import DOORS, IN_HALVES, PROGRAMS, differences, outcome


def main() -> int:
    """Runs programs through doors, and says what differs or was left to PyTorch."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--door", choices=list(DOORS), action="append")
    given = arguments.parse_args()
    wrong = 0
    for name in given.names or PROGRAMS:
        expected, _ = outcome(PROGRAMS[name], "eager")
        for door in given.door or DOORS:
            try:
                found, left = outcome(PROGRAMS[name], door)
                differences(expected, found, name in IN_HALVES)
            except Exception as error:
                wrong += 1
                print(f"{name} | {door} | {type(error).__name__}: {' '.join(str(error).split())[:300]}", flush=True)
                if given.names:
                    traceback.print_exc()
                continue
            print(f"{name} | {door} | {'left: ' + str(left) if left else 'agrees'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
