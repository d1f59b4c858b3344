"""Fetches the recorded conversations that some tests and benchmarks read: `python -m tests.fetch_data` (`make data`).

Each recording comes from a public git repository at a named commit. A file is found there by the id of its content:
its path and name upstream need not be known, and a changed file is never taken for it. Only commits, folders and the
wanted files are transferred. `COMPACTION_DATA` names the folder to write to, and
`COMPACTION_DATA_URL` another place than GitHub under which the repositories lie.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.shared_data import DATA

GITHUB = "https://github.com"


def first_tasks(text: bytes) -> bytes:
    """Return the runs of tasks 0 to 24 alone."""
    return json.dumps([run for run in json.loads(text) if run["task_id"] < 25]).encode()


@dataclass(frozen=True)
class Source:
    """A repository at a commit, and the files to take from it."""

    repository: str
    commit: str
    blobs: Mapping[str, str] = field(default_factory=dict)
    """By the name to write, the id that git gives to the file's content."""
    paths: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = field(default_factory=dict)
    """By the name to write, the path of a file in the repository and what is made of its content."""


SOURCES: dict[str, Source] = {
    "tau-bench-airline": Source(
        "sierra-research/tau-bench",
        "59a200c",
        paths={
            "gpt-4o-airline-tasks-00-24.json": ("historical_trajectories/gpt-4o-airline.json", first_tasks),
        },
    ),
    "pi-session": Source(
        "badlogic/pi-mono",
        "83378aa",
        blobs={"large-session.jsonl": "5a6fb54e65300b37c8f974897d67043c3190dde9"},
    ),
    "swe-agent": Source(
        "SWE-agent/SWE-agent",
        "3ea751c",
        blobs={
            "function-calling-from-source.traj": "052d5837ac76e08292b298de892904ae1a5f4402",
            "function-calling-replace.traj": "e03387a099616f5df3e9f119bfbb7fb1e98bf00a",
            "function-calling-simple.traj": "d3c7b14671d987916f8849e7e1cea5af1d55553d",
            "function-calling.traj": "4d1899b048d34af0073ffa1b23515c37925d53f5",
            "humanevalfix-0.traj": "ea41a90d62cae840075362d55902c02a1823399c",
            "pydicom-1458.traj": "1ff4b19d423f53ed2411331bdc84e8ef43a74336",
            "test-repo-1c2844.traj": "7c6fa3298ae0585c701f88ed3182ada660a270c9",
            "text-cursors.traj": "1a916fdbc27435831b164799205d42133c6dbb68",
            "text-window.traj": "2bc6a95e50c224c0193d62746324ca2067a0876f",
            "xml-cursors.traj": "4d3fc2cd47a2a1e25156cccfbdcf160697e2b556",
            "xml-window.traj": "11da7254d0906b274fe0675fda6f8bef15577b88",
        },
    ),
    "openhands": Source(
        "All-Hands-AI/OpenHands",
        "156d068",
        blobs={"multi_swe_bench_output.jsonl": "39591bfb366f17fb9046ef68e7b6e30455a9b3f7"},
    ),
}


def git(folder: Path, *words: str) -> bytes:
    """Run git in a folder and return what it prints; raise `RuntimeError` with git's own words where it fails."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"git {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def fetch(source: Source, base: str, target: Path) -> list[str]:
    """Write the files of one repository into a folder; return the names of those that it lacks."""
    with tempfile.TemporaryDirectory() as work:
        clone = Path(work) / "clone"
        url = f"{base}/{source.repository}"
        git(Path(work), "clone", "-q", "--no-checkout", "--filter=blob:none", url, str(clone))
        entries = git(clone, "ls-tree", "-r", source.commit).decode().splitlines()
        held = {entry.split()[2] for entry in entries}
        absent = [name for name, blob in source.blobs.items() if blob not in held]
        target.mkdir(parents=True, exist_ok=True)
        for name, blob in source.blobs.items():
            if blob in held:
                (target / name).write_bytes(git(clone, "cat-file", "blob", blob))
        for name, (path, make) in source.paths.items():
            (target / name).write_bytes(make(git(clone, "show", f"{source.commit}:{path}")))
        licenses = [entry.split()[2] for entry in entries if entry.split("\t")[1].upper().startswith("LICENSE")]
        for blob in licenses[:1]:
            (target / "LICENSE").write_bytes(git(clone, "cat-file", "blob", blob))
        return absent


def main() -> int:
    """Fetch every recording; return 1 where a file is absent from its repository."""
    base = os.environ.get("COMPACTION_DATA_URL", GITHUB).rstrip("/")
    failed = False
    for name, source in SOURCES.items():
        absent = fetch(source, base, DATA / name)
        failed = failed or bool(absent)
        told = f"{DATA / name}: from {base}/{source.repository} at {source.commit}"
        sys.stdout.write(f"{told}{'; not found there: ' + ', '.join(absent) if absent else ''}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
