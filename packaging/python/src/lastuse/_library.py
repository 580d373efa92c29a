"""The library and the tool inside the package."""

import ctypes
import os

_NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")

FILE = os.path.join(_NATIVE, "liblastuse.so")
TOOL = os.path.join(_NATIVE, "lastuse")

# The names that lastuse_set takes.
SETTINGS = (
    "rules",
    "effort",
    "reorder",
    "budget",
    "recompute",
    "on_demand",
    "arena",
    "recycle",
    "verify",
    "retain",
    "capture",
    "dump_dir",
    "dump",
    "accounting",
    "live",
)


def is_setting(name: str) -> bool:
    return name.lower() in SETTINGS


class Stats(ctypes.Structure):
    """struct lastuse_stats."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("allocators", ctypes.c_size_t),
        ("plans", ctypes.c_uint64),
        ("served_again", ctypes.c_uint64),
        ("planning_us", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("lower_bound", ctypes.c_uint64),
        ("captures_written", ctypes.c_uint64),
        ("captures_failed", ctypes.c_uint64),
    ]


def size_of_stats() -> int:
    return ctypes.sizeof(Stats)


def load() -> ctypes.CDLL:
    """Load the library where the dynamic linker finds it for what is loaded later, or return the one that is preloaded."""
    everywhere = ctypes.CDLL(None)
    lib = everywhere if hasattr(everywhere, "lastuse_version") else ctypes.CDLL(FILE, mode=ctypes.RTLD_GLOBAL)
    lib.lastuse_version.restype = ctypes.c_char_p
    lib.lastuse_last_error.restype = ctypes.c_char_p
    lib.lastuse_enabled.restype = ctypes.c_bool
    lib.lastuse_set.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    lib.lastuse_set.restype = ctypes.c_bool
    lib.lastuse_stats_report.argtypes = [ctypes.POINTER(Stats)]
    lib.lastuse_stats_report.restype = ctypes.c_bool
    return lib
