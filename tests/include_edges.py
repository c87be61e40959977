#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where a file of src/ includes a folder that the table in ARCHITECTURE.md does not grant to its own.

The table stands under the heading "## Dependencies": one row per folder, then what it may include, as `folder` or as
one `folder/file.h`. A folder may always include itself. Nothing that is not in the table is allowed.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def read_table(text):
    section = re.search(r"^## Dependencies\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not section:
        sys.exit("ARCHITECTURE.md has no section '## Dependencies'")
    table = {}
    for line in section[1].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        folder = re.fullmatch(r"`([a-z_]+)`", cells[0])
        if line.lstrip().startswith("|") and folder:
            table[folder[1]] = set(re.findall(r"`([^`]+)`", cells[1]))
    return table


def edges():
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        folder = path.relative_to(ROOT / "src").parts[0]
        for header in INCLUDE.findall(path.read_text()):
            yield path.relative_to(ROOT), folder, header


def main():
    table = read_table((ROOT / "ARCHITECTURE.md").read_text())
    folders = {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    wrong = [f"the table names no folder of src/: {name}" for name in sorted(table.keys() - folders)]
    wrong += [f"src/{name} is not in the table" for name in sorted(folders - table.keys())]
    granted = {part for row in table.values() for part in row}
    wrong += [f"the table grants what does not exist: {part}" for part in sorted(granted)
              if not (ROOT / "src" / part).exists()]
    count = 0
    for path, folder, header in edges():
        target = header.split("/")[0]
        if not (ROOT / "src" / header).is_file():
            wrong.append(f'{path}: "{header}" is no file of src/')
        elif target != folder and not {target, header} & table.get(folder, set()):
            wrong.append(f"{path}: {folder} may not include {header}")
        count += 1
    print(f"{count} includes, {len(wrong)} wrong")
    for line in wrong:
        print("  " + line)
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
