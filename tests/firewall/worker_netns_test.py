#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real worker program behind a real TPROXY rule, under its uid, its system call filter and its Landlock domain.

Three namespaces: the guest, its router (listeners, nftables) and the node (the worker's own; the origins live there).
Run by CTest: worker_netns_test.py PATH_TO_SANDBOX_FIREWALL [SANITIZER]. Needs root.
"""

import ctypes
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = None
SANITIZED = False  # such a build leaves the system call filter out
LIBC = ctypes.CDLL(None, use_errno=True)
UID = 1900000777
GUEST4, ROUTER4 = "198.18.77.2", "198.18.77.1"
GUEST6, ROUTER6 = "2001:db8:77::2", "2001:db8:77::1"
ORIGIN4, ORIGIN6, ATTACKER, DNS = "198.18.78.1", "2001:db8:78::1", "198.18.78.66", "198.18.78.53"
IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75
RULES = """
table inet worker {
  chain pre {
    type filter hook prerouting priority mangle; policy drop;
    iifname "lo" accept
    meta l4proto { icmp, ipv6-icmp } accept
    meta l4proto tcp socket transparent 1 meta mark set 1 accept
    meta nfproto ipv4 meta l4proto tcp meta mark set 1 tproxy ip to 127.0.0.1:15001 accept
    meta nfproto ipv6 meta l4proto tcp meta mark set 1 tproxy ip6 to [::1]:15001 accept
  }
}
"""
ZONE = {"allowed.test": (ORIGIN4, ORIGIN6), "four.test": (ORIGIN4, None), "inside.test": ("10.0.0.5", None)}


def sh(command, **how):
    subprocess.run(command, shell=True, check=True, **how)


def answer_names(sock):
    while True:
        query, peer = sock.recvfrom(2048)
        end = query.index(0, 12) + 5
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += query[at] + 1
        kind = struct.unpack(">H", query[end - 4 : end - 2])[0]
        known = ZONE.get(".".join(labels).lower())
        four, six = known or (None, None)
        data = b""
        if kind == 1 and four:
            data = socket.inet_aton(four)
        if kind == 28 and six:
            data = socket.inet_pton(socket.AF_INET6, six)
        record = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data if data else b""
        flags = b"\x81\x80" if known else b"\x81\x83"
        sock.sendto(query[:2] + flags + b"\0\1" + struct.pack(">H", int(bool(record))) + b"\0\0\0\0" + query[12:end] + record, peer)


def client_hello(name):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


class Lab:
    """Namespaces, origins, and one worker with its control channel."""

    def __init__(self):
        self.names = {part: f"spw{os.getpid()}{part[0]}" for part in ("guest", "router", "node")}
        g, r, n = self.names.values()
        for name in (g, r, n):
            sh(f"ip netns add {name}; ip -n {name} link set lo up")
        sh(f"ip link add eth0 netns {g} type veth peer name sp-guest netns {r}")
        for name, device, four, six in ((g, "eth0", GUEST4, GUEST6), (r, "sp-guest", ROUTER4, ROUTER6)):
            sh(f"ip -n {name} addr add {four}/24 dev {device}; ip -n {name} addr add {six}/64 dev {device} nodad")
            sh(f"ip -n {name} link set {device} up")
        sh(f"ip -n {g} route add default via {ROUTER4}; ip -n {g} -6 route add default via {ROUTER6}")
        for family in ("-4", "-6"):
            sh(f"ip -n {r} {family} rule add fwmark 1 lookup 100; ip -n {r} {family} route add local default dev lo table 100")
        for address in (ORIGIN4, ATTACKER, DNS):
            sh(f"ip -n {n} addr add {address}/32 dev lo")
        sh(f"ip -n {n} addr add {ORIGIN6}/128 dev lo nodad")
        sh(f"nsenter --net=/run/netns/{r} nft -f -", input=RULES.encode())
        names = self.socket("node", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        names.bind((DNS, 53))
        threading.Thread(target=answer_names, args=(names,), daemon=True).start()
        self.attacker = self.socket("node", lambda: socket.create_server((ATTACKER, 443)))
        self.attacker.setblocking(False)
        self.directory = tempfile.TemporaryDirectory()
        self.log_path = os.path.join(self.directory.name, "egress.log")
        self.version = 0
        self.start_worker()

    def socket(self, where, make):
        with open("/proc/thread-self/ns/net", "rb") as home, open(f"/run/netns/{self.names[where]}", "rb") as there:
            assert LIBC.setns(there.fileno(), 0x40000000) == 0
            try:
                return make()
            finally:
                LIBC.setns(home.fileno(), 0x40000000)

    def transparent(self, family, level, option, address):
        sock = socket.socket(family)
        sock.setsockopt(level, option, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, 15001))
        sock.listen(4096)
        return sock

    def start_worker(self):
        self.control, theirs = socket.socketpair()
        self.control.settimeout(20)
        four = self.socket("router", lambda: self.transparent(socket.AF_INET, socket.SOL_IP, IP_TRANSPARENT, "127.0.0.1"))
        six = self.socket("router", lambda: self.transparent(socket.AF_INET6, socket.IPPROTO_IPV6, IPV6_TRANSPARENT, "::1"))
        log = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        places = {3: theirs.fileno(), 5: log, 6: four.fileno(), 7: six.fileno()}

        def become():
            with open(f"/run/netns/{self.names['node']}", "rb") as there:
                LIBC.setns(there.fileno(), 0x40000000)
            for number, fd in places.items():
                os.dup2(fd, 200 + number)
            os.closerange(3, 200)
            for number in places:
                os.dup2(200 + number, number)
            os.setgroups([])
            os.setgid(UID)
            os.setuid(UID)

        self.process = subprocess.Popen((PROGRAM, "sbx_test"), close_fds=False, preexec_fn=become)
        for sock in (theirs, four, six):
            sock.close()
        os.close(log)
        self.ask(op="configure", sandbox="sbx_test", boundary={"opened": ["198.18.0.0/15", "2001:db8::/32"]}, resolvers=[DNS],
                 guest=[GUEST4, GUEST6])

    def ask(self, **request):
        body = json.dumps({"id": 1, **request}).encode()
        self.control.sendall(struct.pack(">I", len(body)) + body)
        size = self.control.recv(4, socket.MSG_WAITALL)
        assert len(size) == 4, "the worker is gone"
        return json.loads(self.control.recv(struct.unpack(">I", size)[0], socket.MSG_WAITALL))

    def apply(self, policy):
        self.version += 1
        answer = self.ask(op="prepare", version=self.version, policy=policy)
        assert answer["ok"], answer
        return self.ask(op="commit", version=self.version)

    def connect(self, address=ORIGIN4, port=443):
        sock = self.socket("guest", lambda: socket.create_connection((address, port), 10))
        sock.settimeout(20)
        return sock

    def origin(self, serve, address=ORIGIN4, port=443):
        """Serves one connection in a thread; returns a function that waits for what `serve` returned."""
        listener = self.socket("node", lambda: socket.create_server(
            (address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET))
        listener.settimeout(20)
        result = {}

        def run():
            try:
                connection, _ = listener.accept()
                connection.settimeout(20)
                with connection:
                    result["value"] = serve(connection)
            except OSError as error:
                result["value"] = error
            finally:
                listener.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def wait():
            thread.join(30)
            return result.get("value")

        return wait

    def lines(self, wanted=1, matching=lambda line: True):
        deadline = time.monotonic() + 20
        while True:
            with open(self.log_path, encoding="utf-8") as file:
                found = [line for line in map(json.loads, file) if matching(line)]
            if len(found) >= wanted or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def settled(self):
        """The descriptors of the worker once every connection has ended."""
        deadline = time.monotonic() + 30
        while self.ask(op="stats")["open"] and time.monotonic() < deadline:
            time.sleep(0.01)
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self):
        self.process.kill()
        self.process.wait()
        for name in self.names.values():
            subprocess.run(("ip", "netns", "del", name), check=False)
        self.directory.cleanup()


def read_all(sock):
    data = b""
    while True:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            return data, "reset"
        if not part:
            return data, "finished"
        data += part


class Worker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab()

    @classmethod
    def tearDownClass(cls):
        cls.lab.close()

    def setUp(self):
        self.lab.apply({"allow": ["allowed.test", "four.test", "inside.test"]})

    def attacker_untouched(self):
        with self.assertRaises(BlockingIOError):
            self.lab.attacker.accept()

    def pass_hello(self, address, origin_address):
        hello = client_hello("allowed.test")

        def serve(connection):
            got = connection.recv(len(hello), socket.MSG_WAITALL)
            connection.sendall(b"answer")
            return got

        served = self.lab.origin(serve, origin_address)
        with self.lab.connect(address) as guest:
            guest.sendall(hello)
            self.assertEqual(read_all(guest), (b"answer", "finished"))
        self.assertEqual(served(), hello)

    def test_it_runs_with_no_privilege_at_all(self):  # I6, FW-180
        with open(f"/proc/{self.lab.process.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual(status["Uid"].split()[0], str(UID))
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[kind], 16), 0, kind)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Threads"], "1")
        self.assertEqual(status["Seccomp"], "0" if SANITIZED else "2")

    def test_an_allowed_name_passes_over_ipv4(self):  # FW-020
        self.pass_hello(ORIGIN4, ORIGIN4)

    def test_an_allowed_name_passes_over_ipv6(self):  # FW-020, FW-186
        self.pass_hello(ORIGIN6, ORIGIN6)

    def test_a_denied_name_gets_an_alert(self):  # D-06, R-011, R-012, FW-081
        for address in (ORIGIN4, ORIGIN6):
            with self.lab.connect(address) as guest:
                guest.sendall(client_hello("denied.test"))
                data, end = read_all(guest)
                self.assertEqual((data[0], data[-1], end), (0x15, 49, "finished"))

    def test_an_allowed_name_at_a_forged_address_goes_to_the_name(self):  # FW-080, R-014, I2
        self.pass_hello(ATTACKER, ORIGIN4)
        self.attacker_untouched()

    def test_a_name_that_leads_inside_the_boundary_is_refused(self):  # I7, R-086
        with self.lab.connect(ATTACKER) as guest:
            guest.sendall(client_hello("inside.test"))
            self.assertEqual(read_all(guest)[0][:1], b"\x15")
        self.assertTrue(self.lab.lines(1, lambda line: line["name"] == "inside.test" and line["reason"] == "boundary"))

    def test_half_close_is_kept_both_ways(self):
        hello = client_hello("four.test")
        answer = os.urandom(262144)

        def serve(connection):
            asked, end = read_all(connection)
            connection.sendall(answer)
            return asked, end

        served = self.lab.origin(serve)
        with self.lab.connect() as guest:
            guest.sendall(hello + b"0123456789")
            guest.shutdown(socket.SHUT_WR)
            self.assertEqual(read_all(guest), (answer, "finished"))
        self.assertEqual(served(), (hello + b"0123456789", "finished"))

    def test_an_upload_goes_on_after_the_server_finished_sending(self):
        upload = client_hello("four.test") + os.urandom(16 << 20)

        def serve(connection):
            connection.sendall(b"greeting")
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

        served = self.lab.origin(serve)
        with self.lab.connect() as guest:
            guest.sendall(upload)
            guest.shutdown(socket.SHUT_WR)
            self.assertEqual(read_all(guest), (b"greeting", "finished"))
        self.assertEqual(served(), (upload, "finished"))

    def test_an_update_cuts_what_it_denies_before_it_returns(self):  # R-094, I4, FW-010, FW-013
        hello = client_hello("four.test")
        ready = threading.Event()

        def serve(connection):
            connection.recv(len(hello), socket.MSG_WAITALL)
            connection.sendall(b"x")
            ready.wait(20)
            return read_all(connection)

        served = self.lab.origin(serve)
        with self.lab.connect() as guest:
            guest.sendall(hello)
            self.assertEqual(guest.recv(1), b"x")
            answer = self.lab.apply("deny-all")
            self.assertEqual((answer["kept"], answer["cut"]), (0, 1))
            with self.assertRaises(OSError):
                guest.sendall(b"too late")
            ready.set()
            self.assertEqual(served(), (b"", "reset"))

    def test_an_update_leaves_what_it_still_allows(self):  # R-094, D-15
        hello = client_hello("four.test")

        def serve(connection):
            connection.recv(len(hello), socket.MSG_WAITALL)
            connection.sendall(b"x")
            return connection.recv(5, socket.MSG_WAITALL)

        served = self.lab.origin(serve)
        with self.lab.connect() as guest:
            guest.sendall(hello)
            self.assertEqual(guest.recv(1), b"x")
            answer = self.lab.apply({"allow": ["*.test"]})
            self.assertEqual((answer["kept"], answer["cut"]), (1, 0))
            guest.sendall(b"still")
            self.assertEqual(served(), b"still")

    def test_a_server_that_speaks_first_is_reached_under_a_catch_all(self):  # D-08, R-010, FW-084
        self.lab.apply({"allow": ["*"]})
        served = self.lab.origin(lambda connection: connection.sendall(b"220 ready\r\n"), port=3306)
        with self.lab.connect(port=3306) as guest:
            self.assertEqual(guest.recv(11, socket.MSG_WAITALL), b"220 ready\r\n")
        served()

    def test_a_silent_client_is_refused_under_deny_all(self):  # FW-005
        self.lab.apply("deny-all")
        with self.lab.connect(port=22) as guest:
            self.assertEqual(read_all(guest), (b"", "reset"))

    def test_slow_hellos_end_at_their_deadline(self):
        guests = [self.lab.connect() for _ in range(50)]
        for guest in guests:
            guest.sendall(b"\x16\x03\x01")
        begun = time.monotonic()
        for guest in guests:
            self.assertEqual(read_all(guest)[0], b"")
            guest.close()
        self.assertLess(time.monotonic() - begun, 19)  # none ran into the client's own limit
        self.assertGreaterEqual(len(self.lab.lines(50, lambda line: line["reason"] == "hello_timeout")), 50)

    def test_a_storm_of_resets_leaves_nothing_behind(self):
        before = self.lab.settled()
        for number in range(1000):
            guest = self.lab.connect()
            if number % 2:
                guest.sendall(b"\x16\x03\x01\x02")
            guest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            guest.close()
        self.pass_hello(ORIGIN4, ORIGIN4)
        self.assertLessEqual(self.lab.settled(), before + 1)  # a pipe may be at rest

    def test_the_listener_itself_cannot_be_reached(self):
        self.lab.apply({"allow": ["*"]})
        for address, port in ((ROUTER4, 15001), (ROUTER4, 443)):
            with self.lab.connect(address, port) as guest:
                self.assertEqual(read_all(guest)[0], b"")

    def test_when_it_aborts_it_is_gone_and_nothing_passes(self):  # R-097, I5
        lab = self.lab
        os.kill(lab.process.pid, 6)
        self.assertEqual(lab.process.wait(20), -6)
        with self.assertRaises(OSError):
            lab.connect().close()
        self.attacker_untouched()
        lab.control.close()
        lab.start_worker()
        lab.apply({"allow": ["allowed.test"]})
        self.pass_hello(ORIGIN4, ORIGIN4)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    SANITIZED = len(sys.argv) > 2
    del sys.argv[1:]
    if os.geteuid() != 0:
        sys.exit("needs root")
    unittest.main(verbosity=2)
