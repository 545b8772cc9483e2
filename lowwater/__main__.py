"""The program `lowwater`, also as `python -m lowwater`. Names the extra if the command line is not installed."""

from __future__ import annotations

import sys

from lowwater.errors import LowwaterError
from lowwater.extras import needs


def main() -> None:
    try:
        with needs("The command line"):
            from lowwater.cli import app
    except LowwaterError as error:
        sys.exit(str(error))
    app()


if __name__ == "__main__":
    main()
