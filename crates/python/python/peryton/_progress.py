"""Progress of long work, on a terminal or in a notebook."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

Callback: TypeAlias = Callable[[str, int, int], object]
Progress: TypeAlias = bool | Callback | None

# The time that work may take before a bar appears, in seconds.
_PATIENCE = 0.5


def _described(step: str, done: int, of: int, seconds: float) -> str:
    if of:
        return f"{step}: {done:,} of {of:,} ({100 * done / of:.0f} %)"
    rate = done / seconds if seconds > 0 else 0.0
    return f"{step}: {done:,} ({rate:,.0f} per second)" if done else step


class _Bar:
    """A line that is written again and again, and vanishes at the end."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._shown = False

    def __call__(self, step: str, done: int, of: int) -> None:
        seconds = time.monotonic() - self._since
        if seconds >= _PATIENCE:
            self._shown = True
            self._show(_described(step, done, of, seconds), done / of if of else None)

    def close(self) -> None:
        if self._shown:
            self._clear()

    def _show(self, text: str, share: float | None) -> None:
        raise NotImplementedError

    def _clear(self) -> None:
        raise NotImplementedError


class _TerminalBar(_Bar):
    _WIDTH = 24

    def _show(self, text: str, share: float | None) -> None:
        bar = "" if share is None else f"[{'#' * int(share * self._WIDTH):<{self._WIDTH}}] "
        sys.stderr.write(f"\r\x1b[K{bar}{text}")
        sys.stderr.flush()

    def _clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _NotebookBar(_Bar):
    def __init__(self, display: Callable[..., Any], html: Callable[[str], object]) -> None:
        super().__init__()
        self._display, self._html = display, html
        self._handle: Any = None

    def _show(self, text: str, share: float | None) -> None:
        value = "" if share is None else f" value='{share:.4f}'"
        self._put(f"<progress max='1'{value}></progress> {text}")

    def _clear(self) -> None:
        self._put("")

    def _put(self, markup: str) -> None:
        if self._handle is None:
            self._handle = self._display(self._html(markup), display_id=True)
        else:
            self._handle.update(self._html(markup))


def _in_notebook() -> bool:
    # Only an imported IPython can be the one that runs this.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _bar(wanted: bool | None) -> _Bar | None:
    if wanted is False:
        return None
    if _in_notebook():
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        return _NotebookBar(display, HTML)
    if wanted or sys.stderr.isatty():
        return _TerminalBar()
    return None


@contextmanager
def shown(progress: Progress) -> Iterator[Callback | None]:
    """The function to call with progress: the one given, a bar, or none (not on a terminal, nor in a notebook)."""
    if callable(progress):
        yield progress
        return
    bar = _bar(progress)
    try:
        yield bar
    finally:
        if bar is not None:
            bar.close()
