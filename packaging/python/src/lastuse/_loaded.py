"""The ggmls that the process has loaded."""

import ctypes
import os
import re
import warnings
from typing import List, Set

_FUNCTION = "ggml_gallocr_new_n"


class _Place(ctypes.Structure):
    """Dl_info: what an address belongs to."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def _mapped() -> Set[str]:
    """Return the shared libraries of the process."""
    with open("/proc/self/maps") as maps:
        files = (line.split(None, 5)[-1].strip() for line in maps if "/" in line)
        return {file for file in files if re.search(r"\.so(\.|$)", file)}


def ggmls(lastuse: str) -> List[str]:
    """Return the loaded libraries that define ggml's allocator, apart from lastuse."""
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Place)]
    found = []
    for file in sorted(_mapped()):
        try:
            # Not loaded by that: it is there.
            library = ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            address = ctypes.cast(getattr(library, _FUNCTION), ctypes.c_void_p)
        except (OSError, AttributeError):
            continue
        # The libraries that a library needs are searched too: what counts is where the function is.
        place = _Place()
        if dladdr(address, ctypes.byref(place)) and place.file:
            where = os.path.realpath(place.file.decode())
            if where not in found and not _is_lastuse(where, lastuse):
                found.append(where)
    return found


def _is_lastuse(file: str, lastuse: str) -> bool:
    return file == os.path.realpath(lastuse) or os.path.basename(file) == "liblastuse.so"


def package(file: str) -> str:
    """Return the package that a library belongs to: the folder below site-packages, or the file."""
    found = re.search(r"/(?:site|dist)-packages/([^/]+)", file)
    return re.sub(r"\.libs$|\..*\.so$", "", found.group(1)) if found else file


def warn_of_earlier(lastuse: str) -> None:
    """Warn of packages whose ggml is loaded and bound to its own allocator, unless lastuse was preloaded."""
    if hasattr(ctypes.CDLL(None), "lastuse_version"):
        return
    for file in ggmls(lastuse):
        warnings.warn(
            "lastuse was imported after %s, whose ggml keeps its own allocator (%s): import lastuse first, or run "
            "the script by python -m lastuse run" % (package(file), file),
            RuntimeWarning,
            stacklevel=3,
        )
