"""A script that has nothing to do with training: counts seconds in a function of another module, without end."""

import argparse
import signal
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=3600.0)
parser.add_argument("--deaf", action="store_true", help="take no notice of SIGTERM")
parser.add_argument("--fail", action="store_true", help="fail while it is imported")
args = parser.parse_args()
if args.fail:
    raise ImportError("no module named gymnastics")
if args.deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("counting", flush=True)
until = time.monotonic() + args.seconds
try:
    while time.monotonic() < until:
        time.sleep(0.01)
except SystemExit:
    print("ended in good order", flush=True)
    raise
sys.exit(0)
