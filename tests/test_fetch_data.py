"""Recordings are fetched from git repositories by commit and content."""

import json
import subprocess
from pathlib import Path

from tests.fetch_data import Source, fetch, first_tasks, git


def test_files_come_from_a_bare_repository_at_the_named_commit(tmp_path: Path) -> None:
    """A file is found by its content, wherever it lies, as it was at that commit; an absent one is named."""
    work, bare = tmp_path / "work", tmp_path / "host" / "owner" / "recordings"
    (work / "deep").mkdir(parents=True)
    git(work, "init", "-q")
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    (work / "LICENSE").write_text("free")
    (work / "deep" / "odd name.traj").write_text("the recording")
    (work / "runs.json").write_text(json.dumps([{"task_id": 24}, {"task_id": 25}]))
    git(work, "add", ".")
    git(work, *author, "commit", "-qm", "first")
    commit = git(work, "rev-parse", "--short", "HEAD").decode().strip()
    blob = git(work, "hash-object", "deep/odd name.traj").decode().strip()
    (work / "deep" / "odd name.traj").write_text("changed since")
    git(work, *author, "commit", "-qam", "second")
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    git(bare, "config", "uploadpack.allowFilter", "true")
    git(bare, "config", "uploadpack.allowAnySHA1InWant", "true")

    source = Source(
        "owner/recordings",
        commit,
        blobs={"one.traj": blob, "none.traj": "0" * 40},
        paths={"tasks.json": ("runs.json", first_tasks)},
    )
    target = tmp_path / "data"
    assert fetch(source, f"file://{tmp_path / 'host'}", target) == ["none.traj"]
    assert (target / "one.traj").read_text() == "the recording"
    assert json.loads((target / "tasks.json").read_text()) == [{"task_id": 24}]
    assert (target / "LICENSE").read_text() == "free"
    assert not (target / "none.traj").exists()
