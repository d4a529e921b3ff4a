"""One library in a process of its own, which times what it is told to: `worker.py LIBRARY`.

Each line of standard input is `{"case", "inputs": [files], "seconds", "output": file or null}`; each line of the answer says
`{"case", "first_s", "median_s", "min_s"}`, or `{"case", "error"}`. A case is compiled once and stays so.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import programs


def library(name, threads):
    """The programs of a library, what makes its arrays of numpy's, and what waits for a result and gives it as numpy's."""
    if name == "numpy":
        return programs.numpy_programs(), lambda x: x, lambda r: None, np.asarray
    if name in ("torch", "torch_compile"):
        import torch

        torch.set_grad_enabled(False)
        torch.set_num_threads(threads)
        table = programs.torch_programs()
        if name == "torch_compile":
            table = {case: torch.compile(program) for case, program in table.items()}
        return table, torch.from_numpy, lambda r: None, lambda r: r.numpy()
    if name == "jax":
        import jax
        import jax.numpy as jnp

        table = {case: jax.jit(program) for case, program in programs.jax_programs().items()}
        return table, jnp.asarray, lambda r: r.block_until_ready(), np.asarray
    raise SystemExit(f"no library is called {name}: numpy, torch, torch_compile, jax")


def timed(call, wait, seconds):
    """Seconds of calls, one after the other: at least 5, at most 200."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or (time.perf_counter() < end and len(times) < 200):
        started = time.perf_counter()
        wait(call())
        times.append(time.perf_counter() - started)
    return times


def main():
    threads = int(os.environ.get("PEERS_THREADS", os.cpu_count()))
    table, convert, wait, to_numpy = library(sys.argv[1], threads)
    ready = {}
    for line in sys.stdin:
        asked = json.loads(line)
        case = asked["case"]
        answer = {"case": case}
        try:
            if case not in table:
                raise KeyError("has no such program")
            if case not in ready:
                ready.clear()
                inputs = [convert(np.load(file)) for file in asked["inputs"]]
                call = lambda inputs=inputs, program=table[case]: program(*inputs)
                started = time.perf_counter()
                result = call()
                wait(result)
                ready[case] = (call, time.perf_counter() - started)
                if asked.get("output"):
                    np.save(asked["output"], to_numpy(result))
                del result
                for _ in range(3):
                    wait(call())
            call, first = ready[case]
            times = timed(call, wait, asked["seconds"])
            answer |= {"first_s": first, "median_s": float(np.median(times)), "min_s": min(times)}
        except Exception as error:  # whatever a library does not do is told, and the next case goes on
            answer["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps(answer), flush=True)


main()
