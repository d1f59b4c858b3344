"""What MkDocs has to be told beside the guides: pages at the top of the project, links out of `docs/`, `llms.txt`."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
TOP = {"README.md": "index.md", "SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md"}
"""The files at the top of the project that are pages, and the names of the pages."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#]+)|(?<=src=\")(?![a-z]+:)([^\"]+)")
"""The path of a link to a file of the project, or of a picture."""
PICTURE = re.compile(r'<picture><source [^>]*srcset="([^"]+)"><img src="([^"]+)" alt="([^"]+)"></picture>')
"""A picture in its dark and its light form."""
IN_BOTH_THEMES = r"![\3](\2#only-light) ![\3](\1#only-dark)"
ON_CODE_HOST = re.compile(r"https://(?:raw\.githubusercontent|github)\.com/([\w-]+)/\1/(?:blob/|tree/|)main/")
"""The beginning of the README's links to files of the project: a package index shows the README too."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are files at the top of the project."""
    for source, page in TOP.items():
        text = ON_CODE_HOST.sub("", (ROOT / source).read_text(encoding="utf-8"))
        text = PICTURE.sub(IN_BOTH_THEMES, text)
        files.append(File.generated(config, page, content=LINK.sub(lambda found: _from_docs(found[0]), text)))
        if page == "index.md":
            files.append(File.generated(config, "llms.txt", content=_llms_txt(text, config)))
    return files


def _llms_txt(readme: str, config: MkDocsConfig) -> str:
    """Return the guides by group, for readers that are programs: the table of the README."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for group, links in re.findall(r"^\| (\w+) \| (.*\[.+\)) \|$", readme, re.MULTILINE):
        lines += ["", f"## {group.capitalize()}", ""]
        for name, path in re.findall(r"\[([^]]+)\]\(docs/(\w+)\.md\)", links):
            lines.append(f"- [{name}]({config.site_url}{path}/)")
    return "\n".join(lines) + "\n"


def _from_docs(path: str) -> str:
    """Return a path from the top of the project as one from `docs/`."""
    return path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - the hook's arguments
    """Let links to files outside `docs/` lead to their page, or else to the code host; pictures follow the theme."""

    def target(found: re.Match[str]) -> str:
        path = found[0]
        if not path.startswith("../"):
            return path
        inside = path.removeprefix("../")
        return TOP.get(inside, f"{config.repo_url}/blob/main/{inside}")

    return LINK.sub(target, PICTURE.sub(IN_BOTH_THEMES, markdown))
