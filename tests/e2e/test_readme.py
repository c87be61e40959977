# SPDX-License-Identifier: Apache-2.0
"""README.md is true: its commands are run as they stand, its policy is a policy."""

import json
import os
import re
import shlex

from harness import ROOT

with open(f"{ROOT}/README.md") as file:
    README = file.read()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands():
    return [line.removeprefix("sudo ") for block in blocks("console") for line in block.splitlines() if line]


def test_every_command_works_in_the_order_given(node):
    ran = {}
    for line in commands():
        program, *arguments = shlex.split(line)
        if program == "./quickstart":  # a story of its own; it checks itself
            assert os.access(f"{ROOT}/quickstart", os.X_OK)
        elif program == "build/release/bin/sandboxd":
            assert arguments == ["&"] and os.path.exists(f"/proc/{node.daemon_pid()}"), "the fixture's daemon stands for it"
        else:
            assert program == "build/release/bin/sandbox"
            done = ran[arguments[0]] = node.cli(*arguments)
            assert done.code == 0, f"{line}: {done.err}"
            if arguments[0] == "create":
                trust = node.cli("exec", "--sudo", done.out.strip(), "--", "sh", "-c",
                                 'printf %s "$0" >> /etc/ssl/certs/ca-certificates.crt', node.ca)
                assert trust.code == 0, trust.err
    assert list(ran) == ["create", "exec", "egress", "config", "rm"]
    assert '"sni": "example.com"' in ran["exec"].out
    assert "example.com:443" in ran["egress"].out


def test_the_policy_is_valid_and_explained_as_the_text_says(node, tmp_path):
    [text] = blocks("json")
    path = tmp_path / "policy.json"
    path.write_text(text)
    checked = node.cli("policy", "check", str(path))
    assert checked.code == 0, checked.err
    assert json.loads(checked.out)["subnets"]["deny"] == ["203.0.113.7/32"]
    assert node.cli("policy", "explain", str(path), "https://pypi.org/").code == 0
    assert node.cli("policy", "explain", str(path), "https://files.pythonhosted.org/").code == 0
    assert node.cli("policy", "explain", str(path), "https://example.com/").code == 1


def test_every_link_leads_to_a_file():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert os.path.exists(f"{ROOT}/{target}"), target
