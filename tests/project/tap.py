# SPDX-License-Identifier: MIT
"""TAP for the checks of the project itself: name a check, list what is wrong."""
import os
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
os.chdir(ROOT)

FAULTS_SHOWN = 20
number = failed = 0


def check(name, faults):
    """Report one case: passed if there are no faults; each is shown."""
    global number, failed
    number += 1
    faults = list(faults)
    for fault in faults[:FAULTS_SHOWN]:
        print(f"# {fault}")
    if len(faults) > FAULTS_SHOWN:
        print(f"# and {len(faults) - FAULTS_SHOWN} more lines")
    if faults:
        failed += 1
    print(f"{'not ok' if faults else 'ok'} {number} {name}", flush=True)


def run(*command, **more):
    """Run a command; returns (status, everything it printed)."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **more)
    return done.returncode, done.stdout


def faults_of(*command, **more):
    """The output of a command if it failed, as a list of faults."""
    status, text = run(*command, **more)
    if status == 0:
        return []
    return [" ".join(command)] + text.splitlines() + [f"exit status {status}"]


def find(folders, *endings):
    """Files below the folders with one of the endings, sorted."""
    return sorted(os.path.join(where, name) for folder in folders
                  for where, _, names in os.walk(folder)
                  for name in names if name.endswith(endings))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def done():
    print(f"1..{number}")
    sys.exit(1 if failed else 0)
