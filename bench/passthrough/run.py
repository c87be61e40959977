#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passthrough by server name: plain kernel forwarding, HAProxy, nginx stream and Sallyport, same client and origin, one run.

Makes three network namespaces (client - proxy - origin, joined by veth), starts each proxy in turn with one thread on one core,
the ends on another, and prints a table with ratios to the best peer; --json FILE writes the numbers. Needs root, ip, nft;
a peer that is not installed is left out. Nothing leaves the namespaces.
"""

import argparse
import ctypes
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

NAME = "bench.test"
CLIENT, PROXY_IN, PROXY_OUT, ORIGIN = "198.18.1.2", "198.18.1.1", "198.18.2.1", "198.18.2.2"
PORT = 443
LIBC = ctypes.CDLL(None, use_errno=True)


def sh(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


class Net:
    """The three namespaces; gone at the end."""

    def __init__(self):
        self.client, self.proxy, self.origin = (f"spbench{os.getpid()}{end}" for end in "cpo")

    def __enter__(self):
        c, p, o = self.client, self.proxy, self.origin
        for ns in (c, p, o):
            sh("ip", "netns", "add", ns)
            sh("ip", "-n", ns, "link", "set", "lo", "up")
        for inner, outer, name in ((c, p, "in"), (o, p, "out")):
            sh("ip", "link", "add", "eth0", "netns", inner, "type", "veth", "peer", "name", name, "netns", outer)
        for ns, device, address in ((c, "eth0", CLIENT), (p, "in", PROXY_IN), (p, "out", PROXY_OUT), (o, "eth0", ORIGIN)):
            sh("ip", "-n", ns, "addr", "add", address + "/24", "dev", device)
            sh("ip", "-n", ns, "link", "set", device, "up")
        sh("ip", "-n", c, "route", "add", "default", "via", PROXY_IN)
        sh("ip", "-n", o, "route", "add", "default", "via", PROXY_OUT)
        self.sysctl(p, "net.ipv4.ip_forward=1")
        for ns in (c, p, o):
            self.sysctl(ns, "net.ipv4.ip_local_port_range=1024 65000", "net.ipv4.tcp_tw_reuse=1",
                        "net.ipv4.tcp_max_tw_buckets=2000", "net.core.somaxconn=8192")
        return self

    def __exit__(self, *_):
        for ns in (self.client, self.proxy, self.origin):
            subprocess.run(("ip", "netns", "del", ns), check=False)

    def sysctl(self, ns, *settings):
        sh(*self.inside(ns), "sysctl", "-q", *("-w",), *settings)

    @staticmethod
    def inside(ns, core=None):
        pin = ("taskset", "-c", str(core)) if core is not None else ()
        return (*pin, "nsenter", f"--net=/run/netns/{ns}")

    def socket_in(self, ns, make):
        """A socket keeps the namespace it was made in."""
        with open("/proc/self/ns/net", "rb") as home, open(f"/run/netns/{ns}", "rb") as there:
            if LIBC.setns(there.fileno(), 0x40000000):
                raise OSError("setns")
            try:
                return make()
            finally:
                LIBC.setns(home.fileno(), 0x40000000)


def answer_names(sock):
    """A resolver that knows one name."""
    while True:
        query, peer = sock.recvfrom(2048)
        end = query.index(0, 12) + 5
        wants_a = query[end - 3 : end - 2] == b"\x01" and query[end - 4 : end - 3] == b"\0"
        record = b"\xc0\x0c\0\1\0\1\0\0\x0e\x10\0\4" + socket.inet_aton(ORIGIN) if wants_a else b""
        sock.sendto(query[:2] + b"\x81\x80\0\1" + struct.pack(">H", int(bool(record))) + b"\0\0\0\0" + query[12:end] + record, peer)


def tasks(pids):
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            yield f"/proc/{pid}/task/{task}/schedstat"


def cpu_seconds(pids):
    total = 0
    for path in tasks(pids):
        with open(path, encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def private_kb(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Private_"))
    return total


class Direct:
    name, target = "direct", ORIGIN

    def start(self, _net, _directory, _core):
        return []

    def stop(self):
        pass


class Process:
    process = None

    def wait_listening(self, net, address):
        for _ in range(100):
            try:
                sock = net.socket_in(net.client, lambda: socket.create_connection((address, PORT), 1))
                sock.close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Haproxy(Process):
    name, target = "haproxy", PROXY_IN

    def start(self, net, directory, core):
        config = os.path.join(directory, "haproxy.cfg")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"""
global
    nbthread 1
    maxconn 9000
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend in
    bind {PROXY_IN}:{PORT}
    tcp-request inspect-delay 5s
    tcp-request content accept if {{ req.ssl_hello_type 1 }}
    use_backend origin if {{ req.ssl_sni -i {NAME} }}
backend origin
    server origin {ORIGIN}:{PORT}
""")
        self.process = subprocess.Popen((*net.inside(net.proxy, core), "haproxy", "-db", "-q", "-f", config))
        self.wait_listening(net, PROXY_IN)
        return [self.process.pid]


class Nginx(Process):
    name, target = "nginx", PROXY_IN
    module = "/usr/lib/nginx/modules/ngx_stream_module.so"

    def start(self, net, directory, core):
        config = os.path.join(directory, "nginx.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"""
load_module {self.module};
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log /dev/null;
worker_rlimit_nofile 20000;
events {{ worker_connections 9000; }}
stream {{
    map $ssl_preread_server_name $upstream {{ {NAME} {ORIGIN}:{PORT}; }}
    server {{ listen {PROXY_IN}:{PORT} backlog=4096; ssl_preread on; proxy_pass $upstream; proxy_timeout 1h; }}
}}
""")
        self.process = subprocess.Popen((*net.inside(net.proxy, core), "nginx", "-c", config))
        self.wait_listening(net, PROXY_IN)
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]


class Sallyport(Process):
    name, target = "sallyport", PROXY_IN

    def __init__(self, program):
        self.program = program

    def listener(self, net):
        return net.socket_in(net.proxy, lambda: socket.create_server((PROXY_IN, PORT), backlog=4096))

    def start(self, net, directory, core):
        self.control, theirs = socket.socketpair()
        listener = self.listener(net)
        log = os.open(os.path.join(directory, "egress.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        places = {3: theirs.fileno(), 5: log, 6: listener.fileno()}

        def settle():
            for number, fd in places.items():
                os.dup2(fd, 50 + number)
            os.closerange(3, 50)
            for number in places:
                os.dup2(50 + number, number)
            os.setgroups([])
            os.setgid(1900000000)
            os.setuid(1900000000)

        self.process = self.spawn(net, core, settle)
        theirs.close()
        os.close(log)
        listener.close()
        self.ask(op="configure", sandbox="bench", boundary={"opened": ["198.18.0.0/15"]}, resolvers=[PROXY_OUT])
        self.ask(op="prepare", version=1, policy={"allow": [NAME]})
        self.ask(op="commit", version=1)
        return [self.process.pid]

    def spawn(self, net, core, settle):
        def prepare():
            with open(f"/run/netns/{net.proxy}", "rb") as there:
                LIBC.setns(there.fileno(), 0x40000000)
            os.sched_setaffinity(0, {core})
            settle()

        return subprocess.Popen((self.program,), close_fds=False, preexec_fn=prepare)

    def ask(self, **request):
        body = json.dumps({"id": 1, **request}).encode()
        self.control.sendall(struct.pack(">I", len(body)) + body)
        size = struct.unpack(">I", self.control.recv(4, socket.MSG_WAITALL))[0]
        answer = json.loads(self.control.recv(size, socket.MSG_WAITALL))
        if not answer["ok"]:
            raise RuntimeError(answer)
        return answer

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.control.close()


class SallyportTproxy(Sallyport):
    """As it runs for a sandbox: the client dials the origin, nftables delivers to the worker."""

    name, target = "sallyport-tproxy", ORIGIN
    RULES = """
table inet bench { chain pre { type filter hook prerouting priority mangle; policy accept;
  iifname "in" meta l4proto tcp socket transparent 1 meta mark set 1 accept
  iifname "in" ip daddr 198.18.2.2 meta l4proto tcp meta mark set 1 tproxy ip to 127.0.0.1:15001 accept
}
}
"""

    def listener(self, net):
        sh("ip", "-n", net.proxy, "rule", "add", "fwmark", "1", "lookup", "100")
        sh("ip", "-n", net.proxy, "route", "add", "local", "default", "dev", "lo", "table", "100")
        subprocess.run((*net.inside(net.proxy), "nft", "-f", "-"), input=self.RULES.encode(), check=True)

        def make():
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_IP, 19, 1)  # IP_TRANSPARENT
            sock.bind(("127.0.0.1", 15001))
            sock.listen(4096)
            return sock

        self.net = net
        return net.socket_in(net.proxy, make)

    def stop(self):
        super().stop()
        sh(*self.net.inside(self.net.proxy), "nft", "delete", "table", "inet", "bench")
        sh("ip", "-n", self.net.proxy, "rule", "del", "fwmark", "1", "lookup", "100")
        sh("ip", "-n", self.net.proxy, "route", "flush", "table", "100")


class Bench:
    def __init__(self, net, options):
        self.net, self.options = net, options
        self.results = {}

    def load(self, *command):
        out = subprocess.run((*self.net.inside(self.net.client, 0), self.options.load, *map(str, command)), check=True,
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout
        return json.loads(out)

    def note(self, contender, key, value):
        self.results.setdefault(contender.name, {}).setdefault(key, []).append(value)

    def measure(self, contender, directory):
        options = self.options
        to = f"{contender.target}:{PORT}"
        pids = contender.start(self.net, directory, 1)
        try:
            self.load("connections", to, NAME, 64, 300)  # warm
            before = cpu_seconds(pids)
            got = self.load("connections", to, NAME, 64, int(options.seconds * 1000))
            spent = cpu_seconds(pids) - before
            if got["failed"]:
                print(f"{contender.name}: {got['failed']} of {got['connections']} connections failed", file=sys.stderr)
            self.note(contender, "connections_per_s", got["connections"] / got["seconds"])
            if pids:
                self.note(contender, "cpu_us_per_connection", spent / got["connections"] * 1e6)
            one = self.load("connections", to, NAME, 1, 1000)
            self.note(contender, "connect_p50_us", one["p50_us"])
            self.note(contender, "connect_p99_us", one["p99_us"])

            before = cpu_seconds(pids)
            got = self.load("bulk", to, NAME, 2, options.megabytes << 20)
            spent = cpu_seconds(pids) - before
            self.note(contender, "gb_per_s", got["bytes"] / got["seconds"] / 1e9)
            if pids:
                self.note(contender, "cpu_s_per_gb", spent / (got["bytes"] / 1e9))

            got = self.load("roundtrips", to, NAME, 10000)
            self.note(contender, "rtt_p50_us", got["p50_us"])
            self.note(contender, "rtt_p99_us", got["p99_us"])
        finally:
            contender.stop()

    def memory(self, contender, directory):
        pids = contender.start(self.net, directory, 1)
        if not pids:
            return contender.stop()
        holder = None
        try:
            to = f"{contender.target}:{PORT}"
            self.load("connections", to, NAME, 64, 300)
            empty = private_kb(pids)
            self.note(contender, "private_kb", empty)
            holder = subprocess.Popen((*self.net.inside(self.net.client, 0), self.options.load, "idle", to, NAME,
                                       str(self.options.idle)), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            held = json.loads(holder.stdout.readline())["open"]
            self.note(contender, "kb_per_idle_connection", (private_kb(pids) - empty) / max(held, 1))
        finally:
            if holder:
                holder.stdin.close()
                holder.wait()
            contender.stop()


ROWS = (
    ("connections_per_s", "new connections/s", "{:,.0f}", max),
    ("cpu_us_per_connection", "CPU us/connection", "{:.1f}", min),
    ("connect_p50_us", "connection p50 us", "{:.1f}", min),
    ("connect_p99_us", "connection p99 us", "{:.1f}", min),
    ("gb_per_s", "GB/s", "{:.2f}", max),
    ("cpu_s_per_gb", "CPU s/GB", "{:.3f}", min),
    ("rtt_p50_us", "round trip p50 us", "{:.1f}", min),
    ("rtt_p99_us", "round trip p99 us", "{:.1f}", min),
    ("private_kb", "private memory kB", "{:,.0f}", min),
    ("kb_per_idle_connection", "kB/idle connection", "{:.2f}", min),
)


def table(results):
    names = list(results)
    peers = [name for name in names if name in ("haproxy", "nginx")]
    print(f"{'':22}" + "".join(f"{name:>18}" for name in names) + f"{'sallyport/best peer':>22}")
    for key, title, form, best in ROWS:
        cells = [form.format(results[name][key]) if key in results[name] else "-" for name in names]
        values = [results[name][key] for name in peers if key in results[name]]
        ours = results.get("sallyport", {}).get(key)
        ratio = f"{ours / best(values):.2f}" if values and ours is not None and best(values) else "-"
        print(f"{title:22}" + "".join(f"{cell:>18}" for cell in cells) + f"{ratio:>22}")
    direct, ours = results.get("direct", {}), results.get("sallyport", {})
    if "rtt_p50_us" in direct and "rtt_p50_us" in ours:
        print(f"added at p50: round trip {ours['rtt_p50_us'] - direct['rtt_p50_us']:.1f} us, "
              f"connection {ours['connect_p50_us'] - direct['connect_p50_us']:.1f} us; at p99: round trip "
              f"{ours['rtt_p99_us'] - direct['rtt_p99_us']:.1f} us, connection {ours['connect_p99_us'] - direct['connect_p99_us']:.1f} us")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    binaries = os.path.join(here, "..", "..", "build", "release", "bin")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", default=os.path.join(binaries, "bench-passthrough"))
    parser.add_argument("--worker", default=os.path.join(binaries, "sandbox-firewall"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--megabytes", type=int, default=512, help="of each of the two bulk streams")
    parser.add_argument("--idle", type=int, default=2000, help="idle connections for the memory figure")
    parser.add_argument("--only", help="names of contenders, comma-separated")
    parser.add_argument("--json", help="write the medians and all samples here")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root")

    contenders = [Direct()]
    if shutil.which("haproxy"):
        contenders.append(Haproxy())
    if shutil.which("nginx") and os.path.exists(Nginx.module):
        contenders.append(Nginx())
    contenders += [Sallyport(options.worker), SallyportTproxy(options.worker)]
    if options.only:
        contenders = [c for c in contenders if c.name in options.only.split(",")]

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with Net() as net, tempfile.TemporaryDirectory() as directory:
        bench = Bench(net, options)
        names = net.socket_in(net.proxy, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        names.bind((PROXY_OUT, 53))
        threading.Thread(target=answer_names, args=(names,), daemon=True).start()
        origin = subprocess.Popen((*net.inside(net.origin, 0), options.load, "origin", f"{ORIGIN}:{PORT}"))
        try:
            for _ in range(options.rounds):
                for contender in contenders:
                    bench.measure(contender, directory)
            for contender in contenders:
                bench.memory(contender, directory)
        finally:
            origin.terminate()
            origin.wait()
    medians = {name: {key: statistics.median(values) for key, values in samples.items()} for name, samples in bench.results.items()}
    table(medians)
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "kernel": os.uname().release,
                       "cores": os.cpu_count(), "medians": medians, "samples": bench.results}, file, indent=1)


if __name__ == "__main__":
    main()
