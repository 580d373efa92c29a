"""Less memory for Python packages on ggml.

Import it before the package, whose ggml then has its compute buffers placed by lastuse::

    import lastuse
    import pywhispercpp.model

If a ggml is loaded already, which keeps its own allocator, the import warns and names its package. "python -m lastuse run
script.py" needs no import.
"""

import os
import subprocess
from typing import Dict, Optional, Union

from . import _library, _loaded

__all__ = ["enabled", "explain", "library", "set", "stats", "version"]

library: str = _library.FILE
"""The path of the shared library, for LD_PRELOAD."""

_captures: Optional[str] = os.environ.get("LASTUSE_CAPTURE")

_loaded.warn_of_earlier(_library.FILE)
_lib = _library.load()


def version() -> str:
    """Return the version of the library, "major.minor.patch"."""
    return _lib.lastuse_version().decode()


def enabled() -> bool:
    """Return whether lastuse plans the graphs of a ggml that is loaded."""
    return bool(_lib.lastuse_enabled())


def set(name: str, value: Optional[Union[str, int]]) -> None:
    """Change a setting, such as ``set("rules", "all")``, for allocators that are made from now on; None is the default.

    The names are those of the variables without LASTUSE_, in any case. Before a ggml is loaded, the variable is set, which the
    library reads then.

    :raises ValueError: the name is unknown, or the value is not valid, or lastuse does not serve the ggml that is loaded.
    """
    global _captures
    text = "" if value is None else str(value)
    if _loaded.ggmls(_library.FILE):
        if not _lib.lastuse_set(name.encode(), text.encode()):
            raise ValueError(_lib.lastuse_last_error().decode())
    else:
        if not _library.is_setting(name):
            raise ValueError("unknown setting %r; expected %s" % (name, ", ".join(_library.SETTINGS)))
        os.environ["LASTUSE_" + name.upper()] = text
    if name.lower() == "capture":
        _captures = text or None


def stats() -> Dict[str, int]:
    """Return the statistics of the process: bytes of compute buffers, their lower bound, plans, the time to plan.

    :raises RuntimeError: lastuse serves no ggml of the process; the message says why.
    """
    report = _library.Stats()
    report.struct_size = _library.size_of_stats()
    if not _lib.lastuse_stats_report(report):
        raise RuntimeError(_lib.lastuse_last_error().decode())
    return {name: getattr(report, name) for name, _ in report._fields_[1:]}


def explain(folder: Optional[str] = None) -> str:
    """Explain the captured graph with the largest plan: what is live at its peak, and what would lower it.

    The folder is the one that ``set("capture", folder)`` names, unless another is given.

    :raises RuntimeError: no graph was captured; the message says how.
    """
    folder = folder or _captures
    if folder is None:
        raise RuntimeError('no graph is captured: lastuse.set("capture", "graphs"), before the model is loaded')
    done = subprocess.run([_library.TOOL, "explain", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode().strip())
    return done.stdout.decode()
