"""Times `warpweft bench` beside other libraries in one sitting: what `./x peers` runs.

    run.py --warpweft target/release/warpweft [--peers numpy,torch,torch_compile,jax] [--rounds 3] [--seconds 0.5] [--out FOLDER] [CASE ...]

All get the inputs that Warpweft writes. For each case the libraries take turns, `--rounds` times, each for `--seconds`, so that what else the
machine does meets all alike; a time is the median of the rounds' medians. Outputs are compared with each other, element by element; a
difference is told, and makes the exit code 1. `--out` gets `report.md`, `peers.svg` and `times.json`.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import programs
import report

# What outputs may differ by, over the largest element: rounding of sums of some thousand terms in f32.
TOLERANCE = 1e-4


def arguments():
    parser = argparse.ArgumentParser(description="Times Warpweft beside other libraries in one sitting.")
    parser.add_argument("--warpweft", required=True, help="the program `warpweft`")
    parser.add_argument("--peers", default="numpy,torch,torch_compile,jax", help="libraries, separated by commas; those that are not installed are left out")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each library for each case")
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of a turn")
    parser.add_argument("--out", default="target/peers/report", help="folder for the table, the plot and the times")
    parser.add_argument("cases", nargs="*", help="cases; all that some library has, if none is named")
    return parser.parse_args()


class Worker:
    """A library in a process of its own."""

    def __init__(self, name):
        self.process = subprocess.Popen([sys.executable, str(Path(__file__).parent / "worker.py"), name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"case": question["case"], "error": "the process ended"}


def installed(peers):
    """Those libraries that this Python can import."""
    modules = {"numpy": "numpy", "torch": "torch", "torch_compile": "torch", "jax": "jax"}
    unknown = [peer for peer in peers if peer not in modules]
    if unknown:
        raise SystemExit(f"no library is called {', '.join(unknown)}: {', '.join(modules)}")
    can = lambda module: subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0
    found = [peer for peer in peers if can(modules[peer])]
    for peer in set(peers) - set(found):
        print(f"{peer} is not installed, and left out", file=sys.stderr)
    return found


def warpweft(program, case, seconds, folder=None):
    """A turn of ours: the JSON line of the case."""
    command = [program, "bench", case, "--json", "--seconds", str(seconds)]
    command += ["--save", str(folder)] if folder else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def difference(first, second):
    """By how much two outputs differ, over the largest element; infinite where shapes do."""
    if first.shape != second.shape:
        return float("inf")
    if first.size == 0:
        return 0.0
    first, second = first.astype(np.float64), second.astype(np.float64)
    return float(np.max(np.abs(first - second)) / max(np.max(np.abs(first)), 1e-30))


def one_case(case, options, workers):
    """The times of a case, and what its outputs differ by."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        line = warpweft(options.warpweft, case, 0.0, folder)
        inputs = sorted(str(file) for file in folder.glob(f"{case}.input_*.npy"))
        rounds, first, errors = {"warpweft": []}, {"warpweft": line["first_s"]}, {}
        for _ in range(options.rounds):
            rounds["warpweft"].append(warpweft(options.warpweft, case, options.seconds)["median_s"])
            for peer, worker in workers.items():
                if peer in errors:
                    continue
                answer = worker.ask({"case": case, "inputs": inputs, "seconds": options.seconds, "output": str(folder / f"{peer}.npy")})
                if "error" in answer:
                    errors[peer] = answer["error"]
                    continue
                rounds.setdefault(peer, []).append(answer["median_s"])
                first.setdefault(peer, answer["first_s"])
        ours = np.load(folder / f"{case}.output.npy")
        # A scalar is an array without axes in one library and with one in another.
        differences = {peer: difference(np.load(folder / f"{peer}.npy").reshape(ours.shape), ours) for peer in rounds if peer != "warpweft"}
    seconds = {peer: statistics.median(times) for peer, times in rounds.items()}
    return {"case": case, "seconds": seconds, "first_s": first, "rounds": rounds, "flops": line["flops"], "bytes": line["bytes"],
            "differences": differences, "errors": errors}


def machine(program):
    """What the machine is and can do at most."""
    ceilings = json.loads(subprocess.run([program, "bench", "ceilings", "--json"], capture_output=True, text=True, check=True).stdout)
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")] if Path("/proc/cpuinfo").exists() else []
    return ceilings, f"{len(names) or '?'} processors, {names[0] if names else platform.processor()}"


def main():
    options = arguments()
    peers = installed(options.peers.split(","))
    known = sorted(set(programs.torch_programs() if "torch" in peers else programs.numpy_programs()) | set(programs.numpy_programs()))
    listed = subprocess.run([options.warpweft, "bench", "--list"], capture_output=True, text=True, check=True).stdout.split()
    cases = options.cases or [case for case in listed if case in known]
    unknown = [case for case in cases if case not in listed]
    if unknown:
        raise SystemExit(f"no case is called {', '.join(unknown)}")
    ceilings, name = machine(options.warpweft)
    workers = {peer: Worker(peer) for peer in peers}
    # Libraries take all processors while they are loaded; those that have answered are.
    for worker in workers.values():
        worker.ask({"case": "", "inputs": [], "seconds": 0.0, "output": None})
    rows, wrong = [], []
    for number, case in enumerate(cases):
        row = one_case(case, options, workers)
        rows.append(row)
        quotient = report.ratio(row)
        wrong += [f"{case}: {peer} differs by {by:.2e}" for peer, by in row["differences"].items() if not by <= TOLERANCE]
        times = "  ".join(f"{peer} {report.duration(seconds)}" for peer, seconds in row["seconds"].items())
        print(f"{number + 1}/{len(cases)} {case}: {times}  ratio {quotient:.2f}" if quotient else f"{number + 1}/{len(cases)} {case}: {times}", flush=True)
        for peer, error in row["errors"].items():
            if "no such program" not in error:
                print(f"    {peer}: {error}", flush=True)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    text = (f"{name}; copy {ceilings['copy_bytes_per_s'] / 1e9:.1f} GB/s, read {ceilings['read_bytes_per_s'] / 1e9:.1f} GB/s, "
            f"f32 FMA {ceilings['fma_flops_per_s'] / 1e9:.0f} GFLOP/s.\n\n" + report.table(rows, peers, ceilings))
    (out / "report.md").write_text(text)
    (out / "peers.svg").write_text(report.plot(rows, ceilings))
    (out / "times.json").write_text(json.dumps({"machine": name, "ceilings": ceilings, "cases": rows}, indent=1))
    print(f"\n{text}\nwritten to {out}")
    for line in wrong:
        print(f"outputs differ: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
