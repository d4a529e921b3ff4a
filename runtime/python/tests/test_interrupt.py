"""Ctrl-C ends a long search: `KeyboardInterrupt`, long before the search's own time, and the process goes on."""

import os
import subprocess
import sys

PROGRAM = """
import os, signal, threading, time
import numpy as np
import warpweft as ww
x = ww.from_dlpack(np.ones((256, 256), np.float32))
threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    for k in range(1, 200):
        (x[:, k:] @ x[k:]).exp().sum(0).realize()
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begun < 25, (x + 1).shape)
"""


def test_ctrl_c_ends_a_search(tmp_path):
    environment = dict(os.environ, BEAM="64", CACHE_DIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "interrupted True (256, 256)", done.stdout + done.stderr
