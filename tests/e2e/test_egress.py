# SPDX-License-Identifier: Apache-2.0
"""Every connection leaves one line in the egress log (docs/egress-log.md)."""

from harness import wait_for


# Every connection leaves its line, also those that the end of the sandbox ends: of the worker and of the kernel.
def test_connections_that_are_open_when_the_sandbox_stops_leave_their_lines(sandbox):
    box = sandbox({"allow": ["download.example"], "subnets": {"allow": ["198.18.0.11/32"]}})
    box.start("curl", "-sk", "-o", "/tmp/a", "https://download.example/slow")
    box.start("curl", "-sk", "-o", "/tmp/b", "--resolve", "download.example:443:198.18.0.11", "https://download.example/slow")
    wait_for(lambda: box.sh("stat -c %s /tmp/a /tmp/b").out.split().count("0") == 0 and box.sh("stat -c %s /tmp/a /tmp/b").code == 0, "both downloads")
    box.stop()
    lines = box.egress()
    by_name = [line for line in lines if line["name"] == "download.example" and line["protocol"] == "tls"]
    by_range = [line for line in lines if line["via"] == "kernel" and line["destination"] == "198.18.0.11:443"]
    assert [line["verdict"] for line in by_name + by_range] == ["allow", "allow"], lines
    assert all(line["bytes_down"] > 0 for line in by_name + by_range)
