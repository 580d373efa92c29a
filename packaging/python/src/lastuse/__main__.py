"""python -m lastuse: the tool, which also runs scripts of Python."""

import os
import sys
from typing import List

_NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")


def with_python(arguments: List[str]) -> List[str]:
    """Put this Python before the first script among the arguments of a command that runs a program."""
    if arguments[:1] not in (["run"], ["compare"]):
        return arguments
    for index, argument in enumerate(arguments):
        if argument.endswith(".py") and os.path.isfile(argument):
            is_first = os.path.basename(arguments[index - 1]).startswith("python")
            return arguments if is_first else arguments[:index] + [sys.executable] + arguments[index:]
    return arguments


def main() -> None:
    tool = os.path.join(_NATIVE, "lastuse")
    sys.stdout.flush()
    os.execv(tool, [tool] + with_python(sys.argv[1:]))


if __name__ == "__main__":
    main()
