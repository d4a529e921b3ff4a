"""Ctrl-C ends a long search: `KeyboardInterrupt`, long before the search's own time, and the process goes on.

The signal comes once the search asks for signals: a timer's handler runs inside of `realize` only when it does.
"""

import os
import subprocess
import sys

PROGRAM = """
import os, signal, threading, time
import numpy as np
import warpweft as ww

# A process that was started in the background may ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
searches, sent, calls = threading.Event(), [], []

def asked(*_):
    calls.append(None)
    if len(calls) > 1:  # the first may have come before the call
        searches.set()

def interrupt():
    searches.wait()
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGALRM, asked)
threading.Thread(target=interrupt, daemon=True).start()
x = ww.from_dlpack(np.ones((256, 256), np.float32))
try:
    for k in range(1, 4):
        y = (x[:, k:] @ x[k:]).exp().sum(0)
        calls.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        y.realize()
        signal.setitimer(signal.ITIMER_REAL, 0)
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("interrupted", time.monotonic() - sent[0] < 20, (x + 1).shape)
"""


def test_ctrl_c_ends_a_search(tmp_path):
    environment = dict(os.environ, BEAM="64", CACHE_DIR=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == "interrupted True (256, 256)", done.stdout + done.stderr
