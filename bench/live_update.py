#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How long a policy update takes to be acknowledged with 1,000 open connections and 10,000 entries: sudo bench/live_update.py

The real daemon in a lab of its own (LAB_BIN says which build; default: the release preset). The time is the caller's,
from the first byte of the request to the last of the answer, by when everything that the new policy denies is cut.
Rows: domains, domains and ranges (one range changed), and an update that cuts all connections. Prints a table and JSON.
"""

import contextlib
import json
import os
import statistics
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
os.environ.setdefault("LAB_PREFIX", "spbench-")
os.environ.setdefault("LAB_BIN", f"{ROOT}/build/release/bin")
sys.path.insert(0, f"{ROOT}/tests/e2e")
import harness  # noqa: E402

FLOWS, ENTRIES, ROUNDS = 1000, 10_000, 15

HOLD = f"""
import socket, ssl, time
context = ssl._create_unverified_context()
held = [context.wrap_socket(socket.create_connection(("allowed.example", 443)), server_hostname="allowed.example") for _ in range({FLOWS})]
print("ready", flush=True)
time.sleep(600)
"""


def domains(salt, count):
    return {"allowed.example": [], **{f"{salt}{number}.entry.example.com": [] for number in range(count - 1)}}


def ranges(salt):
    return [f"203.{number >> 8 & 255}.{number & 255}.{salt}/32" for number in range(1000)]


def timed(box, policy):
    body = json.dumps(policy)
    with contextlib.closing(harness.UnixConnection(box.node.socket, 60)) as connection:
        connection.connect()
        began = time.perf_counter()
        connection.request("POST", f"/v2/sandboxes/sessions/{box.id}/network-policy", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        took = (time.perf_counter() - began) * 1000
    assert answer.status == 200, text
    return took, json.loads(text)["networkPolicyUpdate"]


def hold(box):
    box.set_policy({"allow": domains("a", 2)})
    program = box.start("python3", "-c", HOLD)
    harness.wait_for(lambda: "ready" in program.out or program.ended, f"{FLOWS} connections", 120)
    assert "ready" in program.out, program.err
    return program


def row(name, times):
    return {"update": name, "median_ms": round(statistics.median(times), 1), "min_ms": round(min(times), 1), "max_ms": round(max(times), 1)}


def main():
    harness.subprocess.run([harness.LAB, "up"], check=True)
    try:
        harness.subprocess.run([harness.LAB, "image"], check=True)
        node = harness.Node()
        node.lab("sandboxd", "start")
        box = node.create()
        hold(box)
        rows = []
        for name, policy in (
                (f"{ENTRIES} domains, {FLOWS} connections kept", lambda n: {"allow": domains("ab"[n % 2], ENTRIES)}),
                ("the same and 1,000 ranges of which one changes", lambda n: {
                    "allow": domains("ab"[n % 2], ENTRIES - 1000), "subnets": {"allow": ranges(1)[n % 2:]}})):
            times = []
            for number in range(ROUNDS):
                took, update = timed(box, policy(number))
                assert update["kept"] >= FLOWS and update["cut"] == 0, update
                times.append(took)
            rows.append(row(name, times[1:]))
        took, update = timed(box, {"allow": {f"c{number}.entry.example.com": [] for number in range(ENTRIES)}})
        assert update["cut"] >= FLOWS, update
        rows.append(row(f"{ENTRIES} domains, {FLOWS} connections cut (once)", [took]))
        box.delete()
    finally:
        harness.subprocess.run([harness.LAB, "down"], check=True)
    for each in rows:
        print(f"{each['update']:<55} median {each['median_ms']:7.1f} ms   min {each['min_ms']:7.1f}   max {each['max_ms']:7.1f}")
    print(json.dumps({"aim_ms": 20, "rows": rows}))


if __name__ == "__main__":
    main()
