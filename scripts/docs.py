#!/usr/bin/env python3
"""Builds the documents as a site, target/docs/book, with mdBook, which is installed below target/tools if it is missing.

docs/SUMMARY.md lists the pages, in four parts. They are copied to target/docs/src beside the files that they link to, so that
links from page to page work in the repository and on the site. Then every link of the site is followed: one that leads
nowhere, and a document that is not on the site, is an error.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools import ROOT, TARGET, tool

MDBOOK = "0.5.4"
SITE = TARGET / "docs"
# A link of Markdown, but for one in inline code.
LINK = re.compile(r"(`[^`]*`)|\]\(([^)\s]+)\)")
# Files with these endings are shown by browsers, others are offered for saving: they get the ending .txt as well.
SHOWN = {".md", ".png", ".svg", ".json", ".css", ".txt"}


def staged(path):
    """Where a file of the repository is in the source of the site, relative to its root. (A README is the page of its folder.)"""
    if path.name == "README.md":
        return path.with_name("index.md")
    return path if path.suffix in SHOWN else path.with_name(path.name + ".txt")


def relinked(text, page, linked):
    """The text of a page with links for the site; the files that it links to are added to `linked`."""

    def link(match):
        target = match.group(2)
        if target is None or "://" in target or target.startswith(("#", "mailto:")):
            return match.group(0)
        path, _, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / path))
        if not (ROOT / file).is_file():
            sys.exit(f"docs: {page}: '{target}' is no file")
        linked.add(file)
        there = os.path.relpath(staged(file), staged(page).parent)
        return f"]({there}{'#' + anchor if anchor else ''})"

    lines, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        lines.append(line if fenced else LINK.sub(link, line))
    return "\n".join(lines) + "\n"


def stage():
    """Copies the pages and what they link to."""
    shutil.rmtree(SITE, ignore_errors=True)
    source, linked = SITE / "src", set()
    summary = Path("docs/SUMMARY.md")
    text = (ROOT / summary).read_text()
    pages = [Path(os.path.normpath(summary.parent / target)) for target in re.findall(r"\]\(([^)]+)\)", text)]
    if twice := {page for page in pages if pages.count(page) > 1}:
        sys.exit(f"docs: {summary} has {', '.join(map(str, twice))} twice")
    for page in pages:
        there = source / staged(page)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(relinked((ROOT / page).read_text(), page, linked))
    documents = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    if missing := sorted({*documents, *(file for file in linked if file.suffix == ".md")} - {*pages, summary}):
        sys.exit(f"docs: {summary} lacks {', '.join(map(str, missing))}")
    for file in linked - set(pages):
        there = source / staged(file)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, there)
    for name in ("book.toml", "book.css"):
        shutil.copy(ROOT / "docs" / name, SITE)
    # The list of pages is in the root of the source.
    root = re.sub(r"\]\(([^)]+)\)", lambda link: f"]({staged(Path(os.path.normpath(summary.parent / link.group(1))))})", text)
    (source / "SUMMARY.md").write_text(root)


class Page(html.parser.HTMLParser):
    """The links of a page, and the places to which links can lead."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        if "id" in about:
            self.places.add(about["id"])
        for name in ("href", "src"):
            if about.get(name) and tag != "link":
                self.links.append(about[name])


def broken(book):
    """The links that lead nowhere."""
    pages = {path: Page(path) for path in book.rglob("*.html")}
    found = []
    for path, page in pages.items():
        if path.name in ("404.html", "toc.html"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.is_file() or place and target in pages and place not in pages[target].places:
                found.append(f"{path.relative_to(book)}: {link}")
    return found, len(pages)


def main():
    stage()
    try:
        program = tool("mdbook", MDBOOK, "--no-default-features", "--features", "search")
        subprocess.run([program, "build", SITE], check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"docs: {' '.join(map(str, error.cmd))} failed")
    found, pages = broken(SITE / "book")
    if found:
        sys.exit(f"docs: {len(found)} links lead nowhere:\n" + "\n".join(found))
    print(f"{pages} pages: {SITE / 'book' / 'index.html'}")


if __name__ == "__main__":
    main()
