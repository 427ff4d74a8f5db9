"""Reading C++ sources for the tidy checks: which files, and their text without comments and literals."""

import pathlib
import re

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)


def files(root, *folders):
    """Every header and source below the folders, in order of names."""
    root = pathlib.Path(root)
    found = []
    for folder in folders:
        found += [p for p in (root / folder).rglob('*') if p.suffix in ('.h', '.cc')]
    return sorted(found)


def bare(text):
    """The text with comments and literals blanked: lines keep their numbers. Digit separators (1'000) are no literals."""
    text = re.sub(r"(?<=[0-9A-Fa-f])'(?=[0-9A-Fa-f])", '_', text)
    return TOKEN.sub(lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text)
