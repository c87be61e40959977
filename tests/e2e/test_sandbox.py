# SPDX-License-Identifier: Apache-2.0
"""The sandbox as a place: user, tools, isolation and limits (docs/operations.md, spec of the security model)."""

import os
import subprocess

import pytest
from harness import ALLOW_ALL, DENY_ALL, alive, wait_for


# SB-070
def test_the_default_user_is_at_home(shared):
    box = shared(DENY_ALL)
    ran = box.sh("id -un; id -u; pwd; echo $HOME; stat -c %U /vercel; sudo -n id -u; K=v sudo -n sh -c 'echo $K $HOME'")
    assert ran.out.split("\n")[:7] == ["ubuntu", "1000", "/vercel", "/vercel", "ubuntu", "0", "v /root"], ran


# SB-071
@pytest.mark.parametrize("tool", ["bash", "ls", "find", "curl", "git", "openssl", "python3", "dig", "ip", "ping", "nc", "psql",
                                  "sudo", "ps", "pgrep", "update-ca-certificates", "sha256sum"])
def test_a_first_user_finds_their_tools(shared, tool):
    assert shared(DENY_ALL).sh(f"command -v {tool} || sudo which {tool}").code == 0


# SB-073
def test_the_path_of_commands(shared):
    path = shared(DENY_ALL).sh("echo $PATH").out.strip().split(":")
    assert "/vercel/bin" in path and "/usr/local/bin" in path


# SB-002 SB-008
def test_sudo_runs_as_root_with_the_environment_kept(shared):
    ran = shared(DENY_ALL).run("sh", "-c", "id -u; echo $A $USER $SUDO_USER $HOME", sudo=True, env={"A": "b"})
    assert ran.out.split() == ["0", "b", "root", "ubuntu", "/root"], ran


# SB-072
def test_users_and_shared_folders_can_be_made(shared):
    box = shared(DENY_ALL)
    ran = box.sh("useradd -m -s /bin/bash ann && groupadd team && usermod -aG team ann && mkdir -p /shared/team && chgrp team /shared/team"
                 " && chmod 2770 /shared/team && sudo -u ann -- bash -c 'echo hi > /shared/team/x' && cat /shared/team/x; userdel -r ann; groupdel team",
                 sudo=True)
    assert "hi" in ran.out, ran.err


# SB-003 SB-010 SB-020 SB-021
def test_two_sandboxes_share_nothing(sandbox):
    one, two = sandbox(DENY_ALL), sandbox(DENY_ALL)
    one.sh("echo mine > /tmp/mark; echo mine > /vercel/mark; exec -a findme sleep 300 & true", sudo=True)
    assert two.sh("cat /tmp/mark /vercel/mark").code != 0
    assert "findme" not in two.sh("ps axww", sudo=True).out
    seen = [box.sh("readlink /proc/1/ns/net /proc/1/ns/pid /proc/1/ns/mnt /proc/1/ns/ipc /proc/1/ns/uts /proc/1/ns/user", sudo=True).out.split()
            for box in (one, two)]
    host = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "mnt", "ipc", "uts", "user")]
    for mine, theirs, ours in zip(seen[0], seen[1], host):
        assert len({mine, theirs, ours}) == 3


# SB-001
def test_a_host_name_is_its_own(sandbox):
    one, two = sandbox(DENY_ALL), sandbox(DENY_ALL)
    one.sh("hostname changed-inside || true", sudo=True)
    assert two.sh("hostname || cat /etc/hostname").out.strip() != "changed-inside"
    assert os.uname().nodename != "changed-inside"


# SB-004 SB-022
def test_root_inside_is_nobody_outside(shared, node):
    box = shared(DENY_ALL)
    assert box.sh("cat /proc/self/uid_map").out.split()[1] != "0", "root inside is mapped to another user"
    program = box.start("sleep", "61.25", sudo=True)
    found = wait_for(lambda: subprocess.run(["pgrep", "-f", "^sleep 61.25"], capture_output=True, text=True).stdout.split(), "the process on the host")
    assert all(os.stat(f"/proc/{pid}").st_uid >= 100000 for pid in found)
    box.run("pkill", "-f", "61.25", sudo=True)
    program.wait()
    for attempt in ("mount -o bind / /mnt && ls /mnt/etc/shadow && mount /dev/loop0 /mnt", "mknod /tmp/disk b 7 0", "dmesg -C",
                    "echo 1 > /proc/sys/kernel/panic", "echo b > /proc/sysrq-trigger", "insmod /nowhere.ko",
                    "nsenter -t 1 -n ip link del eth0 && false", "cat /proc/kcore | head -c 1 | grep -q ."):
        assert box.sh(attempt, sudo=True).code != 0, attempt


# SB-004
def test_no_socket_of_the_host_is_inside(shared, node):
    box = shared(DENY_ALL)
    ran = box.sh(f"ls -la {node.socket} /run/sallyport /var/run/docker.sock; find / -xdev -type s 2>/dev/null; true", sudo=True)
    assert "sandboxd" not in ran.out
    assert os.path.basename(node.socket) not in ran.out


# SB-023
def test_no_more_cpu_than_given(sandbox):
    box = sandbox(DENY_ALL, resources={"vcpus": 1})
    assert box.sh("nproc").out.strip() == "1"
    ran = box.run("python3", "-c",
                  "import os,time\n"
                  "kids=[]\n"
                  "for _ in range(3):\n"
                  "  p=os.fork()\n"
                  "  if not p:\n"
                  "    end=time.monotonic()+2\n"
                  "    while time.monotonic()<end: pass\n"
                  "    os._exit(0)\n"
                  "  kids.append(p)\n"
                  "for k in kids: os.waitpid(k,0)\n"
                  "t=os.times(); print(t.children_user+t.children_system)\n")
    assert float(ran.out) < 2.8, "three busy loops of two seconds got one processor's worth"


# SB-024 SB-027
def test_no_more_memory_than_given(sandbox):
    box = sandbox(DENY_ALL, resources={"vcpus": 1})
    ran = box.run("python3", "-c", "b=[]\nwhile True: b.append(bytearray(64<<20))", patience=120)
    assert ran.code in (1, 137), ran
    assert box.sh("echo alive").out == "alive\n"


# SB-027
def test_a_fork_bomb_stays_inside(sandbox):
    bombed, other = sandbox(DENY_ALL), sandbox(DENY_ALL)
    ran = bombed.run("dash", "-c", "while sleep 600 & do :; done", patience=120)
    assert ran.code != 0 and "fork" in ran.err
    assert other.sh("echo alive").out == "alive\n"


# SB-025
@pytest.mark.slow
def test_the_disk_has_an_end(sandbox):
    box = sandbox(DENY_ALL)
    ran = box.sh("df -k --output=size / | tail -1; fallocate -l 200G /vercel/big || dd if=/dev/null of=/dev/null; rm -f /vercel/big; echo ok")
    assert "No space" in ran.err and "ok" in ran.out
    assert int(ran.out.split()[0]) < 80 << 20, "a fixed size"


# SB-026
def test_a_sandbox_ends_at_its_timeout(sandbox):
    box = sandbox(DENY_ALL, timeout=2000)
    wait_for(lambda: box.info()["sandbox"]["status"] == "stopped", "the timeout to stop it", 30)


# SB-031 SB-032
def test_nothing_inside_is_reachable_from_outside(sandbox, node):
    box = sandbox(ALLOW_ALL)
    box.start("python3", "-c", "import socket\ns=socket.create_server(('::',8000),family=10,dualstack_ipv6=True)\nprint('ready',flush=True)\n"
              "while True: s.accept()[0].sendall(b'leak')\n").until("ready")
    address = box.sh("ip -4 -o addr show dev eth0 | sed 's/.*inet \\([^/]*\\).*/\\1/'").out.strip()
    node.lab("net", "ip", "route", "replace", "10.209.0.0/16", "via", "198.18.200.2")
    try:
        assert node.lab("net", "nc", "-z", "-w", "2", address, "8000", check=False).returncode != 0
    finally:
        node.lab("net", "ip", "route", "del", "10.209.0.0/16")


# R-097 SB-004
def test_stop_and_delete_leave_nothing_behind(sandbox, node):
    box = sandbox(ALLOW_ALL)
    box.tool("tcp", address="198.18.0.30", port=7, text="x")
    worker, name = box.worker_pid(), box.id
    box.delete()
    wait_for(lambda: not alive(worker), "the worker's end")
    assert name not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    with open("/proc/mounts") as mounts:
        assert name not in mounts.read()
    shown = node.lab("node", "ip", "-o", "link").stdout
    assert shown.count("spu") == len(node.sandboxes())


#
def test_a_background_child_does_not_hold_the_exit_code(shared):
    ran = shared(DENY_ALL).run("sh", "-c", "sleep 60 & echo ok", patience=10)
    assert (ran.code, ran.out) == (0, "ok\n")


#
def test_absent_stdin_is_empty(shared):
    assert shared(DENY_ALL).run("cat", patience=10).code == 0


#
@pytest.mark.parametrize("script,size", [("seq 1 100000", 588895), ("head -c 4000000 /dev/zero | tr '\\0' x", 4000000)])
def test_no_output_is_lost_at_exit(shared, script, size):
    ran = shared(DENY_ALL).sh(script)
    assert (ran.code, len(ran.out)) == (0, size)


#
def test_both_streams_are_read(shared):
    ran = shared(DENY_ALL).sh("head -c 1000000 /dev/zero | tr '\\0' e >&2; echo out")
    assert ran.out == "out\n" and len(ran.err) == 1000000


#
def test_text_of_many_bytes_per_letter_arrives_whole(shared):
    ran = shared(DENY_ALL).run("python3", "-c", "import sys,time\nfor b in 'é→🚢'.encode()*50:\n  sys.stdout.buffer.write(bytes([b])); sys.stdout.flush()")
    assert ran.out == "é→🚢" * 50


#
def test_a_timeout_kills_the_whole_tree(shared):
    box = shared(DENY_ALL)
    ran = box.run("sh", "-c", "trap '' TERM; setsid sleep 61.5 & (sleep 61.5 &) ; sleep 61.5", timeout=500, patience=20)
    assert ran.code == 137
    wait_for(lambda: box.sh("pgrep -f '[6]1.5'").code != 0, "no descendant to be left")


#
def test_orphans_are_reaped(shared):
    box = shared(DENY_ALL)
    box.sh("for n in $(seq 300); do (true &); done")
    wait_for(lambda: box.sh("ps -eo stat= | grep -c ^Z").out.strip() == "0", "no zombie to be left")
