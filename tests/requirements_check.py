#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails for each requirement that no test names.

A requirement counts as tested when its id stands in a file under tests/ or fuzz/, so a reader finds the test by grep.
Whether the test is a good one is for reviewers; that there is one at all is checked here. Ids are added with the change
that delivers them. With ids as arguments the files that name them are printed instead.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("tests", "fuzz")
SUFFIXES = {".cc", ".h", ".py", ".sh", ".json", ".txt", ".md", ""}

# Prefix, first, last: the access half of the firewall and the sandbox around it.
REQUIRED = [
    ("FW", 1, 13),     # kinds of policy, switching them
    ("FW", 20, 30),    # who may be reached
    ("FW", 40, 46),    # domain patterns
    ("FW", 48, 51),
    ("FW", 60, 74),    # empty policies, ranges, DNS, SNI
    ("FW", 76, 78),
    ("FW", 80, 85),
    ("FW", 90, 97),    # Postgres
    ("FW", 180, 187),  # placement of the firewall
    ("R", 1, 26),      # hello, interception, splicing
    ("R", 67, 68),     # patterns
    ("R", 73, 99),     # Postgres, DNS, addresses, updates
    ("R", 102, 108),   # commands
    ("D", 1, 9),
    ("D", 15, 19),
    ("SB", 2, 4),      # isolation
    ("SB", 20, 27),    # limits
    ("SB", 70, 70),    # the default user
]


def required_ids():
    width = {"FW": 3, "R": 3, "SB": 3, "D": 2}
    return [f"{prefix}-{number:0{width[prefix]}}" for prefix, first, last in REQUIRED
            for number in range(first, last + 1)]


def files_by_id():
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or path.suffix not in SUFFIXES or path == pathlib.Path(__file__).resolve():
                continue
            if "corpus" in path.parts:
                continue  # bytes, not claims
            for match in re.finditer(r"\b(?:FW|R|D|SB)-\d{2,3}\b", path.read_text(errors="replace")):
                found.setdefault(match[0], set()).add(str(path.relative_to(ROOT)))
    return found


def main(wanted):
    found = files_by_id()
    if wanted:
        for name in wanted:
            print(name, *sorted(found.get(name, ["nowhere"])), sep="\n  ")
        return 0
    required = required_ids()
    missing = [name for name in required if name not in found]
    print(f"{len(required) - len(missing)} of {len(required)} requirements are named by a test")
    for name in missing:
        print(f"  {name} is named by no file under tests/ or fuzz/")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
