#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails if a test named in docs/policy.md does not exist, or if a statement there names none.

A statement is a list item or a table's caption line; the tests stand in brackets at its end. Sections that promise nothing
(the introduction, costs, examples) are left out by having no list items.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def items(text):
    """Each list item as one string, continuation lines joined."""
    current = None
    for line in text.splitlines():
        if re.match(r"- ", line):
            if current:
                yield current
            current = line
        elif current and line.startswith("  "):
            current += " " + line.strip()
        else:
            if current:
                yield current
            current = None
    if current:
        yield current


def main():
    text = (ROOT / "docs" / "policy.md").read_text()
    wrong = []
    named = 0
    for bracket in re.findall(r"\[((?:V/|[a-z0-9]+/)[^\]]*)\]", text):
        for name in re.findall(r"(?:V/\w+|[a-z0-9_]+/[\w/]+\.(?:cc|py))", bracket):
            named += 1
            if name.startswith("V/"):
                path = ROOT / "tests" / "vectors" / f"{name[2:]}.json"
            elif name.startswith("fuzz/"):
                path = ROOT / name
            else:
                path = ROOT / "tests" / name
            if not path.is_file():
                wrong.append(f"{name}: no such test")
    for item in items(text):
        if not re.search(r"\[(?:V/|[a-z0-9]+/)[^\]]*\]$", item):
            wrong.append(f"no test: {item}")
    print(f"{named} references to tests in docs/policy.md")
    for line in wrong:
        print("  " + line)
    return 1 if wrong or named == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
