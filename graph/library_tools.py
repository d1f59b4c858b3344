"""An agent's tools that search and read the files of Python's standard library, and no other files."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path

from langchain_core.tools import BaseTool, tool

from langgraph_compaction.checkpoint.patterns import Pattern

ROOT = Path(sysconfig.get_path("stdlib")).resolve()
"""The folder of the standard library, to which every path is relative."""

PART_CHARS = 20_000
"""Least size of a part of a file, in characters (about 4,500 tokens).

A part ends with the line in which it reaches this size; only the last part of a file can be smaller.
"""

MOST_FILES = 60
"""Maximum number of files that a search names."""

_LEFT_OUT = frozenset({"site-packages", "dist-packages", "__pycache__", "lib-dynload"})


def library_tools(part_chars: int = PART_CHARS, most_files: int = MOST_FILES) -> list[BaseTool]:
    """Return the two tools; an agent should pass the errors that they raise to the model as tool results."""

    @tool
    def search(pattern: str, folder: str = ".") -> str:
        """Search the Python files of a folder for a regular expression: matches, parts and path, most first."""
        wanted = Pattern(pattern)
        hits = [(len(wanted.findall(_text(path))), path) for path in _files(_inside(folder))]
        found = sorted((hit for hit in hits if hit[0]), key=lambda hit: (-hit[0], _name(hit[1])))
        shown = [(count, len(parts_of(path, part_chars)), _name(path)) for count, path in found[:most_files]]
        lines = [f"{count} matches, {parts} parts: {name}" for count, parts, name in shown]
        return "\n".join([f"{len(found)} files match {pattern}", *lines])

    @tool
    def read_file(path: str, part: int = 1) -> str:
        """Read one part of a file of the standard library; its first line says which of how many, and which lines."""
        file = _inside(path)
        parts = parts_of(file, part_chars)
        if not 1 <= part <= len(parts):
            raise ValueError(f"{path} has the parts 1 to {len(parts)}")
        start = 1 + sum(text.count("\n") for text in parts[: part - 1])
        text = parts[part - 1]
        return f"{_name(file)}, part {part} of {len(parts)}, from line {start}\n{text}"

    return [search, read_file]


def parts_of(file: Path, chars: int) -> list[str]:
    """Split a file's text into one or more parts; all but the last have at least so many characters."""
    parts = [""]
    for line in _text(file).splitlines(keepends=True):
        if len(parts[-1]) >= chars:
            parts.append("")
        parts[-1] += line
    return parts


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _inside(path: str) -> Path:
    found = (ROOT / path).resolve()
    if not found.is_relative_to(ROOT) or not _LEFT_OUT.isdisjoint(found.relative_to(ROOT).parts):
        raise ValueError(f"{path} is not in the standard library: give a path relative to its folder")
    if not found.exists():
        raise FileNotFoundError(f"the standard library has no {path}")
    return found


def _is_folder(path: Path) -> bool:
    return path.is_dir() and path.name not in _LEFT_OUT


def _files(folder: Path) -> Iterator[Path]:
    for item in sorted(folder.iterdir()):
        if _is_folder(item):
            yield from _files(item)
        elif item.suffix == ".py":
            yield item


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
