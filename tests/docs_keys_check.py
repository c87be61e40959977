#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docs/operations.md lists exactly the keys that the configuration knows, and openapi.yaml exactly the paths that are routed."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
wrong = []


def compare(what, documented, real):
    wrong.extend(f"{what}: {name} is documented and unknown to the code" for name in sorted(documented - real))
    wrong.extend(f"{what}: {name} is not documented" for name in sorted(real - documented))


config = (root / "src/daemon/config.cc").read_text()
table = config[config.index("kKeys = "):]
keys = set(re.findall(r'\{"(\w+)",', table[:table.index("});\n\n") if "});\n\n" in table else None]))
page = (root / "docs/operations.md").read_text()
compare("configuration", set(re.findall(r"^\| `(\w+)` \|", page, re.M)), keys)

routed = set()
for source in (root / "src/api").glob("*.cc"):
    text = source.read_text()
    routed |= set(re.findall(r'"(/(?:v\d|sallyport/v\d)/[^"]*)"', text))
base = "/v2/sandboxes/sessions/{id}/cmd"
routed |= {base + tail for tail in ("/{command}", "/{command}/logs", "/{command}/kill")}
aliases = {"/v2/sandboxes", "/v4/sandboxes"}  # of creating; GET /v2/sandboxes has its own entry
described = set(re.findall(r"^  (/\S+?):", (root / "src/api/openapi.yaml").read_text(), re.M))
compare("openapi.yaml", described - aliases, routed - aliases)

print("\n".join(wrong) or f"{len(keys)} keys, {len(described)} paths: documented as they are")
sys.exit(bool(wrong))
